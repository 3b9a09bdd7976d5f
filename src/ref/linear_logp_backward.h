// The scalar twin of the gradient of a linear log-probability: CONTRACT section 4, "Backward: the P form", and the
// unfused gradient of fma64.v1+row64.v1.
#pragma once

#include "core/linear_logp_gradient.h"

namespace samebits::ref {

// Writes every gradient that is present.
void linear_logp_backward(const core::LinearLogpGradient& problem);

}  // namespace samebits::ref
