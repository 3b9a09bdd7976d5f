#include "cuda/launch/head_target.h"

#include "cuda/kernel/head_target.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {

using order::BFloat16, order::Float16;

template <class Row>
void target_logits(const core::LinearLogpProblem& head, const HeadRows& list,
                   const TargetLogits<typename Row::Real>& to, const core::DeviceCall& call) {
  using Real = typename Row::Real;
  const auto run = [&](const char* name, auto* kernel, std::int64_t positions, int threads,
                       int shared_bytes) {
    LaunchShape shape = behind((list.capacity + positions - 1) / positions, threads);
    shape.shared_bytes = shared_bytes;
    launch(name, kernel, shape, call, head, list, to);
  };
  const auto run_chains = [&](auto* kernel) {
    run("target_chains", kernel, kTargetThreads, kTargetThreads, 0);
  };
  const DType dtype = head.hidden.dtype;
  if constexpr (sizeof(Real) == 8)
    run_chains(target_chains<double, double>);
  else if (head.tc16)
    run("target_steps", dtype == DType::kBFloat16 ? target_steps<BFloat16> : target_steps<Float16>,
        kTargetStepRows, kTargetStepThreads, sizeof(TargetPieces<BFloat16>::Shared));
  else
    run_chains(dtype == DType::kFloat32    ? target_chains<float, float>
               : dtype == DType::kBFloat16 ? target_chains<BFloat16, float>
                                           : target_chains<Float16, float>);
}

template void target_logits<order::RowV1>(const core::LinearLogpProblem&, const HeadRows&,
                                          const TargetLogits<float>&, const core::DeviceCall&);
template void target_logits<order::Row64V1>(const core::LinearLogpProblem&, const HeadRows&,
                                            const TargetLogits<double>&, const core::DeviceCall&);

}  // namespace samebits::cuda
