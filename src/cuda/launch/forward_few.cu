#include "cuda/launch/forward_few.h"

#include <bit>

#include "cuda/kernel/logp_forward_few.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

struct FewPlan {
  FewShape shape;
  int warps;
  bool staged() const { return shape.units > 1; }
};

// The CTAs of a cluster share a part of the chip. Parts differ in size, so that clusters of more than two leave some
// multiprocessors out, up to so many.
constexpr std::int64_t kLeftOut = 20;

// Every CTA has a multiprocessor to itself. A row gets as many as a cluster may have and all rows find at once (two at
// least, for a kernel without clusters may not send), and they get four units each.
template <class T>
FewPlan few_plan(const core::LogpProblem& problem, const DeviceTraits& device) {
  const auto units = static_cast<int>((problem.vocab + Spread<T>::kUnit - 1) / Spread<T>::kUnit);
  int cluster = device.major == 9 && problem.rows <= 4 ? 16 : 8;
  while (cluster > 2 && (problem.rows * cluster > device.multiprocessors - kLeftOut || 4 * cluster > units))
    cluster /= 2;
  FewPlan plan{};
  plan.shape.log_cluster = std::countr_zero(static_cast<unsigned>(cluster));
  plan.warps = (units + cluster - 1) / cluster;
  if (plan.warps > kFewWarpsOfOne<T>) plan.warps = kFewWarps;
  plan.shape.units = (units + cluster * plan.warps - 1) / (cluster * plan.warps);
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

template <class T, bool staged>
Kernel kernel_of(bool scaled, bool entropy) {
  if (entropy) return logp_forward_few<T, true, true, staged>;
  return scaled ? logp_forward_few<T, true, false, staged> : logp_forward_few<T, false, false, staged>;
}

template <class T>
bool launch_few(const core::LogpProblem& problem, const core::DeviceCall& call) {
  if (problem.vocab % Spread<T>::kCount != 0) return false;  // a vector exists or does not
  const bool scaled = problem.row_temperature || problem.temperature != 1.0,
             entropy = problem.wants_entropy();
  const FewPlan plan = few_plan<T>(problem, traits(call.device));
  const int most = traits(call.device).shared_bytes;
  const int needed = plan.warps * (plan.staged() ? Spread<T>::kUnitBytes : 0) +
                     few_bytes(plan.warps, plan.shape, Spread<T>::kBlocks, entropy);
  if (needed + (1 << 10) > most) return false;
  // More than half, so that no multiprocessor takes a second CTA: of this row, while others have none, or of the next
  // call, which starts early.
  const int bytes = std::max(needed, most / 2 + (2 << 10));
  const Kernel kernel =
      plan.staged() ? kernel_of<T, true>(scaled, entropy) : kernel_of<T, false>(scaled, entropy);
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
