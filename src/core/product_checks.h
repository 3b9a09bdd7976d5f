// What products and linear_logp check alike, before anything is written.
#pragma once

#include <string>
#include <string_view>

#include "core/logp_checks.h"
#include "core/matmul_problem.h"

namespace samebits::core {

inline std::string name_of(DType dtype) { return std::string(dtype_name(dtype)); }
inline bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Whether `contract` means tc16 for operands of `dtype`; throws where it means nothing.
bool check_contract(std::string_view contract, DType dtype);

// Throws where linear_logp does not normalise operands of `dtype` in that precision.
void check_head_precision(Precision precision, DType dtype);

// Throws unless `view` is there and floating.
void check_operand(const ConstTensorView& view, const char* name);

// The same, and a matrix on `device`; `axes` names its axes.
void check_matrix(const ConstTensorView& view, const char* name, const char* axes, Device device);

// The longest sums of a product, and of a head's logits. Operands whose elements coincide may be longer than any memory, and
// would be worked on for ever.
inline constexpr std::int64_t kMostDepth = std::int64_t{1} << 36, kMostHidden = std::int64_t{1} << 31;

// Throws unless the sums over an axis of `view` are of at most so many products.
void check_depth(const ConstTensorView& view, const char* name, std::int64_t depth, std::int64_t most);

// The problem that operands make which were checked: a [M, K], b [K, N], out [M, N], bias [N] or absent.
MatmulProblem product_problem(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& bias,
                              bool tc16, const TensorView& out);

// Throws unless `view` has `dtype`, that of `other`.
void check_same_dtype(const ConstTensorView& view, const char* name, DType dtype, const char* other);

}  // namespace samebits::core
