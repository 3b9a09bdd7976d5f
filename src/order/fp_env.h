// The floating-point environment of a CPU worker. CONTRACT section 0.
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#else
#include <cstdint>
#endif

namespace samebits::order {

// Round to nearest even, subnormals kept, exceptions masked; what was found is restored on the way out.
class FpEnvGuard {
 public:
#if defined(__x86_64__) || defined(_M_X64)
  FpEnvGuard() : saved_(_mm_getcsr()) { _mm_setcsr(kDefaultMxcsr); }
  ~FpEnvGuard() { _mm_setcsr((saved_ & ~kStatusFlags) | (_mm_getcsr() & kStatusFlags)); }
#elif defined(__aarch64__)
  FpEnvGuard() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    const std::uint64_t plain = 0;
    asm volatile("msr fpcr, %0" : : "r"(plain));
  }
  ~FpEnvGuard() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
#error "samebits: no floating-point environment guard for this CPU"
#endif
  FpEnvGuard(const FpEnvGuard&) = delete;
  FpEnvGuard& operator=(const FpEnvGuard&) = delete;

 private:
#if defined(__x86_64__) || defined(_M_X64)
  static constexpr unsigned kDefaultMxcsr = 0x1f80;  // all exceptions masked, RN, no FTZ, no DAZ
  static constexpr unsigned kStatusFlags = 0x3f;
  unsigned saved_;
#else
  std::uint64_t saved_;
#endif
};

}  // namespace samebits::order
