#include "cuda/launch/head_engines.h"

#include "cuda/launch/head_generic.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/sm90_head.h"
#include "cuda/probe.h"

namespace samebits::cuda {
namespace {

constexpr HeadEngineEntry kEngines[] = {
    {"sm90", no_sm90_head, make_sm90_head},
    {"generic", [](const HeadShape&, Device) { return std::string(); },
     [](const HeadShape& shape, Device) { return make_generic_head_engine(shape); }},
};

}  // namespace

std::span<const HeadEngineEntry> head_engines() { return kEngines; }

HeadEngineChoice make_head_engine(const HeadShape& shape, Device device) {
  if (shape.tc16) require_tc16(device);
  HeadEngineChoice choice;
  for (const HeadEngineEntry& entry : kEngines) {
    const std::string refusal = entry.refusal(shape, device);
    if (refusal.empty()) {
      choice.engine = entry.make(shape, device);
      return choice;
    }
    choice.refusals.push_back(std::string(entry.name) + ": " + refusal);
  }
  return choice;
}

std::vector<core::ProductEngineAnswer> linear_logp_engines(const core::LinearLogpProblem& head,
                                                           Device device) {
  std::vector<core::ProductEngineAnswer> answers;
  for (const HeadEngineEntry& entry : kEngines)
    answers.push_back({entry.name, entry.name, false, entry.refusal(shape_of(head), device)});
  return answers;
}

}  // namespace samebits::cuda
