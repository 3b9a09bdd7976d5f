// The operators of linear_logp by an engine that is given.
#pragma once

#include "cuda/launch/head_engine.h"

namespace samebits::cuda {

// Scratch of a call beyond 8 bytes for each element of hidden. Under tc16 it is kept up to 2^22 columns, 65536 rows and 8192
// elements of hidden; beyond that X and a table of the columns alone may be more, and so may P where it has 4 or 8 bytes.
inline constexpr std::int64_t kPromisedBytes = std::int64_t{256} << 20;

void linear_logp_forward_by(HeadEngine& engine, core::LinearLogpProblem head, const core::DeviceCall& call);

// With `promised` bytes of scratch beyond 8 for each element of hidden, as far as that is enough.
void linear_logp_backward_by(HeadEngine& engine, core::LinearLogpGradient problem,
                             const core::DeviceCall& call, std::int64_t promised);

}  // namespace samebits::cuda
