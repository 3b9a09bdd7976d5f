// Row sums in fixed point: integers add in any order. CONTRACT section 1, step 5.
#pragma once

#include "order/number.h"

namespace samebits::order {

using Fixed64 = std::uint64_t;
using Fixed128 = unsigned __int128;

// row.v1: llrint(value * 2^40), for 0 <= value < 2^11. Adding 2^52 to a smaller binary64 rounds it to an integer.
inline constexpr double kFixed64Scale = 0x1p40;
SAMEBITS_HD constexpr Fixed64 to_fixed64(float value) {
  const double shifted = static_cast<double>(value) * kFixed64Scale + 0x1p52;
  return bits_to<std::uint64_t>(shifted) & 0xfffffffffffffull;
}
SAMEBITS_HD constexpr double fixed64_to_double(Fixed64 sum) { return static_cast<double>(sum); }

// row64.v1: the same with 96 fraction bits, for 0 <= value < 2^31.
inline constexpr int kFixed128Bits = 96;
SAMEBITS_HD constexpr Fixed128 to_fixed128(double value) {
  const std::uint64_t bits = bits_to<std::uint64_t>(value);
  const int biased = static_cast<int>(bits >> 52);
  if (biased == 0) return 0;  // zero and subnormals are far below 2^-97
  const std::uint64_t significand = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
  const int shift = biased - 1075 + kFixed128Bits;
  if (shift >= 0) return static_cast<Fixed128>(significand) << shift;
  const int drop = -shift;
  if (drop > 54) return 0;
  const std::uint64_t kept = significand >> drop;
  const std::uint64_t rest = significand & ((1ull << drop) - 1);
  const std::uint64_t half = 1ull << (drop - 1);
  return kept + ((rest > half || (rest == half && (kept & 1))) ? 1 : 0);
}
SAMEBITS_HD constexpr double fixed128_to_double(Fixed128 sum) {
  const std::uint64_t high = static_cast<std::uint64_t>(sum >> 64);
  if (high == 0) return static_cast<double>(static_cast<std::uint64_t>(sum));
  // Keep 64 leading bits, the last one sticky, and let one conversion round.
  const int shift = 64 - __builtin_clzll(high);
  std::uint64_t top = static_cast<std::uint64_t>(sum >> shift);
  if ((static_cast<Fixed128>(top) << shift) != sum) top |= 1;
  double scale = 1.0;
  for (int i = 0; i < shift; ++i) scale *= 2.0;
  return static_cast<double>(top) * scale;
}

}  // namespace samebits::order
