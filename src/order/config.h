// What lets one header serve host, device and constant evaluation.
#pragma once

#include <bit>
#include <cstdint>

// SAMEBITS_ROLLED: a loop too rare to be unrolled into every kernel.
#if defined(__CUDACC__)
#define SAMEBITS_HD __host__ __device__
#define SAMEBITS_ROLLED _Pragma("unroll 1")
#else
#define SAMEBITS_HD
#define SAMEBITS_ROLLED
#endif

namespace samebits::order {

// One rounding, on every machine: the compiler may neither split nor form these by itself (-ffp-contract=off).
SAMEBITS_HD constexpr float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SAMEBITS_HD constexpr double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class To, class From>
SAMEBITS_HD constexpr To bits_to(From value) {
  return __builtin_bit_cast(To, value);
}

}  // namespace samebits::order
