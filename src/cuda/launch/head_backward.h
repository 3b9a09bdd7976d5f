// linear_logp backward by a given engine.
#pragma once

#include "cuda/launch/head_engine.h"

namespace samebits::cuda {

// As linear_logp_backward, with `promised` bytes of scratch beyond 8 for each element of hidden, as far as that is enough.
void linear_logp_backward_by(HeadEngine& engine, core::LinearLogpGradient problem,
                             const core::DeviceCall& call, std::int64_t promised);

}  // namespace samebits::cuda
