// Dot products: fma.v1 and fma64.v1. CONTRACT sections 2 (segments) and 3.
#pragma once

#include "order/config.h"

namespace samebits::order {

// K is cut into segments anchored at k = 0; each is one chain from +0, and segment results add up from +0.
inline constexpr std::int64_t kSegment = 8192;

}  // namespace samebits::order
