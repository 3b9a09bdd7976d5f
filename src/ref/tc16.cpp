#include "ref/tc16.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "order/number.h"

namespace samebits::ref {
namespace {

constexpr int kGroupSize = 16;
constexpr std::int64_t kSegmentColumns = 8192;

// An addend aligned to E and truncated to 25 fraction bits, as an integer.
std::int64_t aligned(double value, int E) {
  return static_cast<std::int64_t>(std::trunc(std::ldexp(value, 25 - E)));
}

float normalised(std::int64_t sum, int E) {
  if (sum == 0) return 0.0f;
  auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const int surplus = std::bit_width(magnitude) - 24;
  if (surplus > 0) magnitude = (magnitude >> surplus) << surplus;
  double value = std::ldexp(static_cast<double>(magnitude), E - 25);
  if (value < FLT_MIN) value = std::ldexp(std::trunc(std::ldexp(value, 149)), -149);
  const float result = value > FLT_MAX ? INFINITY : static_cast<float>(value);
  if (result == 0) return 0.0f;
  return sum < 0 ? -result : result;
}

}  // namespace

Tc16Number tc16_number(DType dtype, std::uint16_t bits) {
  const bool fp16 = dtype == DType::kFloat16;
  const double value = fp16 ? order::to_float(order::Float16{bits}) : order::to_float(order::BFloat16{bits});
  return {value, std::max(std::isfinite(value) ? std::ilogb(value) : 0, fp16 ? -14 : -126)};
}

float tc16_step(float acc, const Tc16Number* a, const Tc16Number* b) {
  bool finite = std::isfinite(acc);
  double ieee = acc;
  for (int k = 0; k < kGroupSize; ++k) {
    finite = finite && std::isfinite(a[k].value) && std::isfinite(b[k].value);
    ieee += a[k].value * b[k].value;
  }
  if (!finite) return std::isnan(ieee) ? order::canonical_nan<float>() : static_cast<float>(ieee);

  int E = -133;
  for (int k = 0; k < kGroupSize; ++k)
    if (a[k].value != 0 && b[k].value != 0) E = std::max(E, a[k].exponent + b[k].exponent);
  if (acc != 0) E = std::max(E, std::max(std::ilogb(acc), -126));

  std::int64_t sum = aligned(acc, E);
  for (int k = 0; k < kGroupSize; ++k) sum += aligned(a[k].value * b[k].value, E);
  return normalised(sum, E);
}

float dot_tc16(const Tc16Number* a, std::int64_t a_stride, const Tc16Number* b, std::int64_t b_stride,
               std::int64_t depth) {
  float total = 0;
  for (std::int64_t begin = 0; begin < depth; begin += kSegmentColumns) {
    const std::int64_t end = std::min(begin + kSegmentColumns, depth);
    float acc = 0;
    for (std::int64_t start = begin; start < end; start += kGroupSize) {
      Tc16Number x[kGroupSize] = {}, y[kGroupSize] = {};  // the tail is +0
      for (std::int64_t k = start; k < std::min(start + kGroupSize, end); ++k) {
        x[k - start] = a[k * a_stride];
        y[k - start] = b[k * b_stride];
      }
      acc = tc16_step(acc, x, y);
    }
    total = total + acc;
  }
  return total;
}

}  // namespace samebits::ref
