// Calls of linear_logp whose rows and options are anything a caller may pass.
#pragma once

#include "head_case.h"

namespace samebits::test {

// Anything that changes what a row is worth: elements, layouts, bias, ids, options, upstreams.
void vary_head(HeadCase& head, Rng& rng);

// Five rows, of which some or all are not finite, or an upstream that is not, by name.
inline constexpr const char* kHeadEdges[] = {"nan hidden",  "inf hidden",   "empty row",   "zero weight",
                                             "inf weight",  "nan weight",   "huge weight", "nan upstream",
                                             "inf entropy", "huge entropy", "tiny entropy"};
HeadCase edge_head_case(const std::string& edge, DType dtype, std::int64_t size = 6);

// Dtype, contract, sizes and layouts, for the message of a failure.
std::string head_text(const HeadCase& head);

}  // namespace samebits::test
