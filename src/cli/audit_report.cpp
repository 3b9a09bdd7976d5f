#include "cli/audit_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/bounded_json.h"
#include "cli/cli_error.h"
#include "cli/progress.h"

namespace samebits::cli {
namespace {

const char* unit_of(const LogpJob& job) { return job.inputs().head == nullptr ? "rows" : "tokens"; }

double rate(const AuditFindings& findings) {
  return findings.seconds > 0 ? static_cast<double>(findings.computed) / findings.seconds : 0;
}

void print_difference(const Comparison& comparison, const LogpJob& job) {
  const auto position = position_of(comparison.first_row, job.leading_shape());
  const std::string token = position.empty() ? "" : ", token " + std::to_string(position.back());
  std::printf(
      "%s differs in %lld of %lld rows; first at row %lld (position %s%s): recorded %s, recomputed %s, %s\n",
      comparison.name.c_str(), static_cast<long long>(comparison.differing),
      static_cast<long long>(job.rows()), static_cast<long long>(comparison.first_row),
      shape_text(position).c_str(), token.c_str(), comparison.recorded_value.c_str(),
      comparison.recomputed_value.c_str(), comparison.distance.c_str());
}

}  // namespace

bool AuditFindings::all_same() const {
  return std::ranges::all_of(inputs, &RecordedInput::is_same) &&
         std::ranges::all_of(comparisons,
                             [](const Comparison& comparison) { return comparison.differing == 0; });
}

void print_findings(const AuditFindings& findings, const LogpJob& job) {
  std::string names, as_recorded;
  bool same_bits = true;
  for (const Comparison& comparison : findings.comparisons) {
    names += (names.empty() ? "" : ", ") + comparison.name;
    if (comparison.differing == 0) continue;
    same_bits = false;
    print_difference(comparison, job);
  }
  for (const RecordedInput& input : findings.inputs) {
    if (input.is_same()) {
      as_recorded += (as_recorded.empty() ? ", " : " and ") + input.name;
      continue;
    }
    const std::string verb = input.name == "logits"   ? "logits are not the recorded ones"
                             : input.name == "hidden" ? "hidden states are not the recorded ones"
                                                      : input.name + " is not the recorded one";
    std::printf("the %s: digest %s, recorded %s\n", verb.c_str(), input.found.c_str(),
                shown(input.recorded).c_str());
  }
  if (!as_recorded.empty()) as_recorded += " as recorded";
  char speed[80];
  std::snprintf(speed, sizeof speed, ", %s, %.1f %s/s", duration_text(findings.seconds).c_str(),
                rate(findings), unit_of(job));
  if (same_bits) {
    std::printf("same bits: %s of %lld rows, %s, recomputed by %s%s%s\n", names.c_str(),
                static_cast<long long>(job.rows()), job.plan().contract.c_str(), findings.judge.c_str(),
                as_recorded.c_str(), speed);
  }
}

std::string findings_json(const AuditFindings& findings, const LogpJob& job) {
  nlohmann::ordered_json json;
  json["same"] = findings.all_same();
  json["contract"] = job.plan().contract;
  json["judge"] = findings.judge;
  json["rows"] = job.rows();
  json["first_row_of_this_run"] = findings.first_row;
  json["computed"] = findings.computed;
  json["seconds"] = findings.seconds;
  json[std::string(unit_of(job)) + "_per_second"] = rate(findings);
  const auto as_recorded = [&](const char* name) {
    auto& entry = json[std::string(name) + "_as_recorded"];
    const auto found = std::ranges::find(findings.inputs, name, &RecordedInput::name);
    if (found != findings.inputs.end()) entry = found->is_same();
  };
  as_recorded(job.source_name());
  if (job.inputs().head != nullptr) as_recorded("weight");
  if (job.inputs().head != nullptr && job.inputs().head->bias_source() != nullptr) as_recorded("bias");
  for (const Comparison& comparison : findings.comparisons) {
    json["tensors"][comparison.name] = comparison.json(job.leading_shape());
  }
  json["recorded_provenance"] = bounded_json(findings.recorded_provenance);
  json["provenance"] = nlohmann::ordered_json::parse(job.plan().provenance_json);
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace samebits::cli
