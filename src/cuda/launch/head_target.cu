#include "cuda/launch/head_target.h"

#include "cuda/kernel/head_target.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {

using order::BFloat16, order::Float16;

template <class Row>
void target_logits(const core::LinearLogpProblem& head, const HeadRows& list, typename Row::Real* logit,
                   const core::DeviceCall& call) {
  using Real = typename Row::Real;
  const auto run = [&](const char* name, auto* kernel, std::int64_t positions) {
    launch(name, kernel, behind((list.capacity + positions - 1) / positions, kTargetThreads), call, head,
           list, logit);
  };
  const DType dtype = head.hidden.dtype;
  if constexpr (sizeof(Real) == 8) {
    run("target_chains", target_chains<double, double>, kTargetThreads);
  } else if (head.tc16) {
    run("target_steps", dtype == DType::kBFloat16 ? target_steps<BFloat16> : target_steps<Float16>,
        kTargetThreads / 2);
  } else {
    run("target_chains",
        dtype == DType::kFloat32    ? target_chains<float, float>
        : dtype == DType::kBFloat16 ? target_chains<BFloat16, float>
                                    : target_chains<Float16, float>,
        kTargetThreads);
  }
}

template void target_logits<order::RowV1>(const core::LinearLogpProblem&, const HeadRows&, float*,
                                          const core::DeviceCall&);
template void target_logits<order::Row64V1>(const core::LinearLogpProblem&, const HeadRows&, double*,
                                            const core::DeviceCall&);

}  // namespace samebits::cuda
