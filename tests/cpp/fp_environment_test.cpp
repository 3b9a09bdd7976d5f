// A caller's rounding mode and flush-to-zero flags change no bit, and are found again after the call.
#include <gtest/gtest.h>

#include <cfenv>

#include "random_case.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace samebits::test {
namespace {

struct Environment {
  int rounding;
  bool flush;
};

unsigned control_bits() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

void set_environment(const Environment& environment) {
  std::fesetround(environment.rounding);
#if defined(__x86_64__)
  _mm_setcsr(environment.flush ? _mm_getcsr() | 0x8040u : _mm_getcsr() & ~0x8040u);
#endif
}

TEST(FpEnvironment, of_the_caller_changes_no_bit_and_is_restored) {
  for (const std::string& backend : available_backends()) {
    for (const Environment& environment :
         {Environment{FE_UPWARD, false}, Environment{FE_DOWNWARD, true}, Environment{FE_TOWARDZERO, true},
          Environment{FE_TONEAREST, true}}) {
      for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(backend + ", rounding " + std::to_string(environment.rounding) + ", case " +
                     std::to_string(i));
        Rng rng(0xf9e00u + static_cast<std::uint64_t>(i));
        const LogpCase c = random_case(rng);
        const LogpResult expected = twin(c);
        ExecContext context;
        context.backend = backend;
        context.threads = rng.pick({1, 2});
        set_environment(environment);
        const unsigned before = control_bits();
        const LogpResult actual = run_case(c, expected, {}, context);
        const unsigned after = control_bits();
        set_environment({FE_TONEAREST, false});
        ASSERT_EQ(before, after);
        ASSERT_TRUE(same_result(expected, actual, Finite::kPerhapsNone));
      }
    }
  }
}

TEST(FpEnvironment, is_restored_when_a_call_is_refused) {
  set_environment({FE_UPWARD, true});
  const unsigned before = control_bits();
  const float logits[2] = {0, 1};
  const std::int64_t target = 0;
  float logp = 0;
  LogpOptions options;
  options.temperature = -1;
  LogpOutputs outputs;
  outputs.logp = {&logp, DType::kFloat32, {1}};
  const bool refused = [&] {
    try {
      logp_forward({logits, DType::kFloat32, {1, 2}}, {&target, DType::kInt64, {1}}, options, outputs);
      return false;
    } catch (const Error&) {
      return true;
    }
  }();
  const unsigned after = control_bits();
  set_environment({FE_TONEAREST, false});
  EXPECT_TRUE(refused);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace samebits::test
