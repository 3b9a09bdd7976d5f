// The targets' logits of a head, each by itself.
#pragma once

#include "cuda/launch/head_rows.h"
#include "order/row.h"

namespace samebits::cuda {

// By position: the product of a hidden state and its target's row of weight, without bias; and where it is asked for z. On
// the way counts of other kernels are set to 0.
template <class Real>
struct TargetLogits {
  Real *logit, *reference = nullptr;
  std::int32_t* count = nullptr;
  std::int64_t count_length = 0;
};

template <class Row>
void target_logits(const core::LinearLogpProblem& head, const HeadRows& list,
                   const TargetLogits<typename Row::Real>& to, const core::DeviceCall& call);

}  // namespace samebits::cuda
