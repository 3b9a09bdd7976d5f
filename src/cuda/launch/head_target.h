// The targets' logits of a head, each by itself.
#pragma once

#include "cuda/launch/head_rows.h"
#include "order/row.h"

namespace samebits::cuda {

// The product of each position's hidden state and its target's row of weight, without bias, into `logit`.
template <class Row>
void target_logits(const core::LinearLogpProblem& head, const HeadRows& list, typename Row::Real* logit,
                   const core::DeviceCall& call);

}  // namespace samebits::cuda
