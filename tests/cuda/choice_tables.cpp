#include "choice_tables.h"

#include "cuda/launch/head_calls.h"
#include "cuda/launch/head_engines.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/product_sm90.h"
#include "cuda/launch/sm90_head.h"

namespace samebits::test {
namespace {

std::vector<cuda::Sm90Choice> table_in_use;

std::unique_ptr<cuda::HeadEngine> engine_for(const core::LinearLogpProblem& head, Device device) {
  const cuda::HeadShape shape = cuda::shape_of(head);
  if (!cuda::no_sm90_head(shape, device).empty())
    return std::move(cuda::make_head_engine(shape, device).engine);
  return cuda::make_sm90_head_by(table_in_use, shape, device);
}

}  // namespace

std::vector<cuda::Sm90Choice> candidates(cuda::Sm90Use use) {
  std::vector<cuda::Sm90Choice> all;
  for (const cuda::Sm90Form form : cuda::forms_of(use))
    for (const int group : kGroups) all.push_back({use, cuda::kAnySize, cuda::kAnySize, form, group});
  return all;
}

ChosenBackend::ChosenBackend(std::vector<cuda::Sm90Choice> table) {
  table_in_use = std::move(table);
  backend_.table.linear_logp_forward = [](core::LinearLogpProblem head, const core::DeviceCall& call) {
    cuda::linear_logp_forward_by(*engine_for(head, call.device), head, call);
  };
  backend_.table.linear_logp_backward = [](core::LinearLogpGradient problem, const core::DeviceCall& call) {
    cuda::linear_logp_backward_by(*engine_for(problem.head, call.device), problem, call,
                                  cuda::kPromisedBytes);
  };
  backend_.table.matmul = [](const core::MatmulProblem& problem, const core::DeviceCall& call) {
    const cuda::Product product = cuda::product_of(problem);
    if (cuda::no_sm90_product(product, call.device).empty())
      cuda::product_sm90_by(table_in_use, product, call);
    else
      cuda::matmul(problem, call);
  };
}

}  // namespace samebits::test
