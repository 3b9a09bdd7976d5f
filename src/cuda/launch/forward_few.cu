#include "cuda/launch/forward_few.h"

#include <bit>

#include "cuda/kernel/logp_forward_few.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

// Shared memory of a CTA at most.
constexpr int kMostFewBytes = 200 << 10;

struct FewPlan {
  FewShape shape;
  int warps, stages;
};

// One CTA per multiprocessor, as many for a row as there are and as a cluster may have (two at least, for a kernel without
// clusters may not send); four units per CTA.
template <class T>
FewPlan few_plan(const core::LogpProblem& problem, const DeviceTraits& device) {
  constexpr int kMostWarps = kFewThreads / 32;
  const auto units = static_cast<int>((problem.vocab + Spread<T>::kUnit - 1) / Spread<T>::kUnit);
  const auto here = static_cast<unsigned>(device.multiprocessors / problem.rows);
  const unsigned useful = std::max(1u, static_cast<unsigned>(units) / 4);
  // Clusters of 16 have to find multiprocessors of one part of the chip; too many of them share some.
  const unsigned most = device.major == 9 && problem.rows <= 4 ? 16 : 8;
  const int cluster = std::max(2, static_cast<int>(std::bit_floor(std::min({here, useful, most}))));
  FewPlan plan{};
  plan.shape.log_cluster = std::countr_zero(static_cast<unsigned>(cluster));
  plan.warps = std::min(kMostWarps, (units + cluster - 1) / cluster);
  plan.shape.units = (units + cluster * plan.warps - 1) / (cluster * plan.warps);
  plan.stages = plan.shape.units == 1 ? 0 : 2;
  return plan;
}

template <class Void>
EvenRows<Void> even(const core::RowArray<Void>& array) {
  return {array.data, array.dtype, array.index.rank == 0 ? 0 : array.index.strides[0]};
}

FewProblem few_problem(const core::LogpProblem& problem) {
  FewProblem few{};
  static_cast<core::RowRules&>(few) = problem;
  few.logits = even(problem.logits);
  few.targets = even(problem.targets);
  few.row_temperature = even(problem.row_temperature);
  few.temperature = problem.temperature;
  few.logp = even(problem.logp);
  few.lse = even(problem.lse);
  few.entropy = even(problem.entropy);
  few.row_max = problem.row_max;
  few.row_sum = problem.row_sum;
  few.row_entropy_sum = problem.row_entropy_sum;
  return few;
}

using Kernel = void (*)(FewProblem, FewShape);

template <class T, int stages>
Kernel kernel_of(bool scaled, bool entropy) {
  if (entropy) return logp_forward_few<T, true, true, stages>;
  return scaled ? logp_forward_few<T, true, false, stages> : logp_forward_few<T, false, false, stages>;
}

template <class T>
bool launch_few(const core::LogpProblem& problem, const core::DeviceCall& call) {
  if (problem.vocab % Spread<T>::kCount != 0) return false;  // a vector exists or does not
  const bool scaled = problem.row_temperature || problem.temperature != 1.0,
             entropy = problem.wants_entropy();
  const FewPlan plan = few_plan<T>(problem, traits(call.device));
  const int bytes = plan.warps * plan.stages * Spread<T>::kUnitBytes +
                    few_bytes(plan.warps, plan.shape, Spread<T>::kBlocks, entropy);
  if (bytes > kMostFewBytes || bytes > traits(call.device).shared_bytes) return false;
  const Kernel kernel =
      plan.stages == 0 ? kernel_of<T, 0>(scaled, entropy) : kernel_of<T, 2>(scaled, entropy);
  LaunchShape shape{problem.rows << plan.shape.log_cluster, 32 * plan.warps, bytes,
                    1 << plan.shape.log_cluster};
  shape.early = true;
  launch("logp_forward_few", kernel, shape, call, few_problem(problem), plan.shape);
  return true;
}

}  // namespace

bool forward_few(const core::LogpProblem& problem, const core::DeviceCall& call) {
  if (problem.binary64 || problem.rows > traits(call.device).multiprocessors / 2) return false;
  const core::RowIndex& rows = problem.logits.index;
  const std::int64_t step = rows.rank == 0 ? 0 : rows.strides[0] * dtype_size(problem.dtype);
  if (reinterpret_cast<std::uintptr_t>(problem.logits.data) % 16 != 0 || step % 16 != 0) return false;
  for (const core::RowIndex* index : {&rows, &problem.targets.index, &problem.row_temperature.index,
                                      &problem.logp.index, &problem.lse.index, &problem.entropy.index})
    if (index->rank > 1) return false;
  switch (problem.dtype) {
    case DType::kFloat32: return launch_few<float>(problem, call);
    case DType::kFloat16: return launch_few<order::Float16>(problem, call);
    default: return launch_few<order::BFloat16>(problem, call);
  }
}

}  // namespace samebits::cuda
