// The scalar twin of tc16.v1 (CONTRACT section 2), written from the text; nothing of src/order/tc16.h is in it.
#pragma once

#include <cstdint>

#include <samebits/dtype.h>

namespace samebits::ref {

// An operand of 16 bits: its exact value, and the exponent it has in a product, where a subnormal has the smallest
// normal one.
struct Tc16Number {
  double value = 0;
  int exponent = 0;
};

// `bits` as bfloat16 or float16.
Tc16Number tc16_number(DType dtype, std::uint16_t bits);

// One group step: acc' = step(acc, a[16], b[16]).
float tc16_step(float acc, const Tc16Number* a, const Tc16Number* b);

// One dot product over `depth` terms in segments; elements `a_stride` and `b_stride` apart.
float dot_tc16(const Tc16Number* a, std::int64_t a_stride, const Tc16Number* b, std::int64_t b_stride,
               std::int64_t depth);

}  // namespace samebits::ref
