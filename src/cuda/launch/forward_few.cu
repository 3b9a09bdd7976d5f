#include "cuda/launch/forward_few.h"

#include <atomic>

#include "cuda/kernel/logp_forward_few.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

struct FewPlan {
  FewShape shape;
  int warps;
  bool staged() const { return shape.units > 1; }
};

constexpr int kMostCluster = 16, kMostDevices = 64;

// Every CTA has a multiprocessor to itself: more than half of its memory. So it takes no second one: of this row, while
// others have none, or of the next call, which starts early.
int least_bytes(const DeviceTraits& device) { return device.shared_bytes / 2 + (2 << 10); }

// Clusters of so many such CTAs that run at once. The CTAs of a cluster share a part of the chip, and parts differ in
// size; larger ones leave some multiprocessors out.
int clusters_at_once(int cluster, const core::DeviceCall& call) {
  static std::atomic<int> known[kMostDevices][kMostCluster + 1];  // and one more; 0: not asked yet
  std::atomic<int>* const entry =
      call.device.index < kMostDevices ? &known[call.device.index][cluster] : nullptr;
  if (entry != nullptr && *entry > 0) return *entry - 1;
  const auto kernel = logp_forward_few<float, false, false, true>;
  LaunchShape shape{cluster, 32 * kFewWarps, least_bytes(traits(call.device)), cluster};
  const int clusters = active_clusters("logp_forward_few", reinterpret_cast<const void*>(kernel), shape);
  if (entry != nullptr) *entry = clusters + 1;
  return clusters;
}

// A row gets as many CTAs as a cluster may have and all rows find at once (two at least, for a kernel without clusters
// may not send), and they get four units each.
template <class T>
FewPlan few_plan(const core::LogpProblem& problem, bool scaled, const core::DeviceCall& call) {
  const auto units = static_cast<int>((problem.vocab + Spread<T>::kUnit - 1) / Spread<T>::kUnit);
  const auto fits = [&](int cluster) {
    return 4 * cluster <= units && clusters_at_once(cluster, call) >= problem.rows;
  };
  int cluster = traits(call.device).major == 9 && fits(kMostCluster) ? kMostCluster : kMaxCluster;
  while (cluster > 2 && !fits(cluster)) --cluster;
  const auto divided = [](int a, int b) { return (a + b - 1) / b; };
  FewPlan plan{};
  const int of_one = scaled ? kFewWarpsOfOne<T, true> : kFewWarpsOfOne<T, false>;
  plan.shape = {cluster, divided(units, cluster) <= of_one ? 1 : divided(units, cluster * kFewWarps)};
  plan.warps = divided(units, cluster * plan.shape.units);
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
  const FewPlan plan = few_plan<T>(problem, scaled || entropy, call);
  const int needed = plan.warps * (plan.staged() ? Spread<T>::kUnitBytes : 0) +
                     few_bytes(plan.warps, plan.shape, Spread<T>::kBlocks, entropy);
  if (needed + (1 << 10) > traits(call.device).shared_bytes) return false;
  const int bytes = std::max(needed, least_bytes(traits(call.device)));
  const Kernel kernel =
      plan.staged() ? kernel_of<T, true>(scaled, entropy) : kernel_of<T, false>(scaled, entropy);
  LaunchShape shape{problem.rows * plan.shape.cluster, 32 * plan.warps, bytes, plan.shape.cluster};
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
