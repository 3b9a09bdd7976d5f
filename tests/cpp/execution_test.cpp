// How a call is run: injected pools, several callers at once, forced backends. None of it may change a bit.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "random_case.h"

namespace samebits::test {
namespace {

LogpCase a_case(std::uint64_t seed, std::int64_t rows, std::int64_t vocab) {
  Rng rng(seed);
  LogpCase c = plain_case(rows, vocab, DType::kBFloat16);
  for (std::int64_t i = 0; i < rows * vocab; ++i) set_element(c.logits, i, rng.normal() * 5);
  for (std::int64_t& target : c.targets) target = rng.below(vocab);
  c.grad_logp = Values(DType::kFloat32, rows);
  for (std::int64_t row = 0; row < rows; ++row) set_element(c.grad_logp, row, rng.normal());
  return c;
}

TEST(Execution, an_injected_parallel_for_changes_nothing) {
  // Last range first, in uneven pieces, some of them on other threads.
  const auto backwards = [](void* state, std::int64_t tasks, TaskBody body, void* argument) {
    ++*static_cast<int*>(state);
    std::vector<std::thread> threads;
    for (std::int64_t end = tasks; end > 0;) {
      const std::int64_t begin = std::max<std::int64_t>(0, end - 1 - end % 3);
      if (end % 2 == 0)
        threads.emplace_back([=] { body(argument, begin, end); });
      else
        body(argument, begin, end);
      end = begin;
    }
    for (std::thread& thread : threads) thread.join();
  };
  for (const auto& [rows, vocab] : {std::pair<std::int64_t, std::int64_t>{1, 200000}, {40, 3000}}) {
    const LogpCase c = a_case(1, rows, vocab);
    const LogpResult expected = twin(c);
    int calls = 0;
    ExecContext context;
    context.threads = 7;
    context.parallel_for = {backwards, &calls};
    EXPECT_TRUE(same_result(expected, run_case(c, expected, {}, context)));
    EXPECT_GT(calls, 0) << "the pool given was not used";
  }
}

TEST(Execution, several_callers_at_once_get_their_own_bits) {
  std::vector<LogpCase> cases;
  std::vector<LogpResult> expected;
  for (int i = 0; i < 4; ++i) {
    cases.push_back(a_case(10 + static_cast<std::uint64_t>(i), 6, 20000 + 1000 * i));
    expected.push_back(twin(cases.back()));
  }
  std::vector<int> differing(cases.size());
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    callers.emplace_back([&, i] {
      ExecContext context;
      context.threads = 2;
      for (int repeat = 0; repeat < 20; ++repeat)
        if (!same_result(expected[i], run_case(cases[i], expected[i], {}, context))) ++differing[i];
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(differing, std::vector<int>(cases.size()));
}

TEST(Execution, on_invalid_raise_passes_rows_that_take_no_part) {
  LogpCase c = a_case(3, 4, 50);
  c.targets = {1, -100, 50, 2};
  c.ignore_index = -100;
  c.selected = {{0, 1, 3}};
  c.on_invalid = OnInvalid::kRaise;
  const LogpResult expected = twin(c);
  EXPECT_TRUE(same_result(expected, run_case(c, expected)));
}

// The choice is made once per process, so each of these runs in a process of its own.
TEST(ForcedBackendDeathTest, the_environment_picks_the_backend_of_auto) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const std::string& name : available_backends()) {
    EXPECT_EXIT(
        {
          setenv("SAMEBITS_FORCE_BACKEND", name.c_str(), 1);
          std::exit(plan({}).backend == name ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
  }
}

TEST(ForcedBackendDeathTest, an_unknown_name_is_refused_with_the_choices) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("SAMEBITS_FORCE_BACKEND", "fast", 1);
        try {
          const LogpCase c = plain_case(1, 4);
          run_case(c, LogpResult(c));
        } catch (const Error& error) {
          std::fputs(error.what(), stderr);
          std::exit(3);
        }
      },
      ::testing::ExitedWithCode(3), "SAMEBITS_FORCE_BACKEND: is 'fast'.*'scalar'");
}

}  // namespace
}  // namespace samebits::test
