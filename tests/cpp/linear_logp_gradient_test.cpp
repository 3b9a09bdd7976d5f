// Gradients of linear_logp: the backends equal the twin, whatever the threads, layouts and what else is asked for.
#include <gtest/gtest.h>

#include "core/backend.h"
#include "head_random.h"
#include "run_case.h"

namespace samebits::test {
namespace {

class LinearLogpGradient : public ::testing::TestWithParam<std::string> {};

TEST_P(LinearLogpGradient, random_calls_equal_the_twin) {
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const DType dtype =
        rng.pick({DType::kFloat32, DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16});
    HeadCase head = random_head_case(rng, rng.between(0, 20), rng.between(1, 700), rng.between(1, 70), dtype);
    if (rng.chance(2)) head.contract = "fma";
    vary_head(head, rng);
    Wanted wanted;
    wanted.accumulate = rng.chance(4);
    ASSERT_TRUE(same_gradients(twin_gradients(head, wanted),
                               head_gradients(head, GetParam(), rng.pick({1, 2, 7}), wanted),
                               Finite::kPerhapsNone));
  }
}

TEST_P(LinearLogpGradient, every_vocab_size_and_thread_count_equals_the_twin) {
  for (const std::int64_t vocab : {1, 2, 15, 127, 128, 129, 1000, 1025, 9000}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " V = " + std::to_string(vocab));
      Rng rng(static_cast<std::uint64_t>(vocab));
      HeadCase head = random_head_case(rng, vocab > 1000 ? 3 : 30, vocab, 20, dtype);
      head.bias = normal_elements(rng, dtype, vocab);
      const HeadGradients expected = twin_gradients(head);
      for (const int threads : {1, 2, 7})
        ASSERT_TRUE(same_gradients(expected, head_gradients(head, GetParam(), threads)));
    }
  }
}

// Two segments of rows, several of occurrences, and a vocabulary whose slices have two segments.
TEST_P(LinearLogpGradient, segments_equal_the_twin) {
  for (const auto& [rows, vocab, size] : {std::array<std::int64_t, 3>{8300, 3, 2}, {2, 70000, 2}}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " rows " + std::to_string(rows));
      Rng rng(static_cast<std::uint64_t>(rows));
      HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
      head.bias = normal_elements(rng, dtype, vocab);
      for (const bool accumulate : {false, true}) {
        Wanted wanted;
        wanted.accumulate = accumulate;
        ASSERT_TRUE(
            same_gradients(twin_gradients(head, wanted), head_gradients(head, GetParam(), 2, wanted)));
      }
    }
  }
}

// field-failures A11: what else is asked for changes nothing.
TEST_P(LinearLogpGradient, a11_each_gradient_alone_has_the_same_bits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    Rng rng(11);
    HeadCase head = random_head_case(rng, 1300, 150, 5, dtype);
    head.bias = normal_elements(rng, dtype, 150);
    head.logp.grad_entropy = normal_elements(rng, head.logp.real(), 1300);
    const HeadGradients all = head_gradients(head, GetParam(), 2);
    for (int which = 0; which < 8; ++which) {
      const Wanted wanted{(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
      HeadGradients expected = all;
      if (!wanted.hidden) expected.hidden = {};
      if (!wanted.weight) expected.weight = {};
      if (!wanted.bias) expected.bias = {};
      ASSERT_TRUE(same_gradients(expected, head_gradients(head, GetParam(), 2, wanted))) << which;
    }
  }
}

// field-failures A14 and A16: padded, packed and listed rows of the same tokens.
TEST_P(LinearLogpGradient, layouts_of_the_same_tokens_give_the_same_bits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    Rng rng(16);
    const HeadCase packed = random_head_case(rng, 60, 200, 12, dtype);
    // Every other row is padding, whatever it holds.
    HeadCase padded = random_head_case(rng, 120, 200, 12, dtype);
    padded.weight = packed.weight;
    const std::int64_t row_bytes = 12 * dtype_size(dtype), real_bytes = dtype_size(packed.logp.real());
    for (std::int64_t row = 0; row < 60; ++row) {
      std::copy_n(packed.hidden.bytes.data() + row * row_bytes, row_bytes,
                  padded.hidden.bytes.data() + 2 * row * row_bytes);
      std::copy_n(packed.logp.grad_logp.bytes.data() + row * real_bytes, real_bytes,
                  padded.logp.grad_logp.bytes.data() + 2 * row * real_bytes);
      padded.logp.targets[2 * row] = packed.logp.targets[row];
    }
    set_element(padded.hidden, 12, NAN);  // of padding
    HeadCase listed = padded;
    listed.logp.selected.emplace();
    for (std::int64_t row = 118; row >= 0; row -= 2) listed.logp.selected->push_back(row);
    for (std::int64_t row = 1; row < 120; row += 2) padded.logp.targets[row] = -100;

    const HeadGradients expected = head_gradients(packed, GetParam(), 2);
    for (const HeadCase* other : {&padded, &listed}) {
      HeadGradients actual = head_gradients(*other, GetParam(), 2);
      std::vector<std::int64_t> kept, dropped;
      for (std::int64_t row = 0; row < 120; ++row) (row % 2 == 0 ? kept : dropped).push_back(row);
      EXPECT_TRUE(same_bits(Values(dtype, 60 * 12), take(actual.hidden, 12, dropped)));
      actual.hidden = take(actual.hidden, 12, kept);
      EXPECT_TRUE(same_gradients(expected, actual));
    }
  }
}

// field-failures A4: gradients exist and are exactly zero.
TEST_P(LinearLogpGradient, a4_a_batch_without_targets_has_zero_gradients) {
  for (const std::int64_t rows : {0, 4}) {
    Rng rng(4);
    HeadCase head = random_head_case(rng, rows, 16, 8, DType::kFloat32);
    head.bias = normal_elements(rng, DType::kFloat32, 16);
    for (std::int64_t& target : head.logp.targets) target = -100;
    const HeadGradients zero{Values(DType::kFloat32, rows * 8), Values(DType::kFloat32, 16 * 8),
                             Values(DType::kFloat32, 16)};
    EXPECT_TRUE(same_gradients(zero, head_gradients(head, GetParam(), 2)));
  }
}

// Rows and weights that are not finite, one at a time.
TEST_P(LinearLogpGradient, edge_rows_equal_the_twin) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const char* edge : kHeadEdges) {
      SCOPED_TRACE(edge);
      const HeadCase head = edge_head_case(edge, dtype);
      ASSERT_TRUE(
          same_gradients(twin_gradients(head), head_gradients(head, GetParam(), 2), Finite::kPerhapsNone));
    }
  }
}

// field-failures A11, A25: no buffer of a whole weight, nor of all probabilities.
TEST(LinearLogpGradientMemory, scratch_is_bounded) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  core::LinearLogpGradient problem;
  problem.head.logp.rows = 65536;
  problem.head.hidden_size = 1024;
  float somewhere = 0;
  const auto bytes = [&](std::int64_t vocab, bool hidden, bool weight) {
    problem.head.logp.vocab = vocab;
    problem.grad_hidden.data = hidden ? &somewhere : nullptr;
    problem.grad_weight = weight ? &somewhere : nullptr;
    return static_cast<std::int64_t>(
        core::pick_backend("auto").linear_logp_backward_scratch_bytes(problem, 8));
  };
  const std::int64_t counts = 8 * problem.head.logp.rows * problem.head.hidden_size;
  const std::int64_t rows = 256 * problem.head.logp.rows;
  EXPECT_LE(bytes(131072, true, false), counts + rows + 96 * kMiB);
  EXPECT_LE(bytes(131072, false, true), rows + 160 * kMiB);
  EXPECT_LE(bytes(131072, true, true), counts + rows + 416 * kMiB);
  EXPECT_EQ(bytes(131072, true, true), bytes(1048576, true, true));
}

INSTANTIATE_TEST_SUITE_P(backends, LinearLogpGradient, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
