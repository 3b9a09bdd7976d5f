// The scalar twins of the products (fma.v1 and fma64.v1: CONTRACT section 3; tc16.v1: section 2, tc16.h) and of the
// linear log-probability (section 4).
#pragma once

#include "core/matmul_problem.h"

namespace samebits::ref {

// One dot product of `depth` terms; elements `a_stride` and `b_stride` apart.
float dot_fma(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
              std::int64_t depth);
double dot_fma64(const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride,
                 std::int64_t depth);

// Writes every element of the product, rounded once to the output type.
void matmul(const core::MatmulProblem& problem);

// Writes every output of the problem that is present.
void linear_logp_forward(const core::LinearLogpProblem& problem);

}  // namespace samebits::ref
