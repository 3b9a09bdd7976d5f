// Embedding: the backends equal the twin, whatever the threads and layouts; the gradient's accuracy.
#include <gtest/gtest.h>

#include <cmath>

#include "embedding_case.h"
#include "head_case.h"
#include "logp_case.h"
#include "ref/oracle.h"
#include "run_case.h"

namespace samebits::test {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

class Embedding : public BackendTest {};

TEST_P(Embedding, random_calls_equal_the_twin) {
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const EmbeddingCase c = random_embedding_case(rng);
    const EmbeddingLayout layout = random_embedding_layout(rng, c);
    ASSERT_TRUE(same_embedding(embedding_twin(c), embedding_call(c, layout, context(rng.pick({1, 2, 7}))),
                               Finite::kPerhapsNone));
  }
}

// One, two and three segments of one id, and next to it others, some of more than one segment too.
TEST_P(Embedding, segments_equal_the_twin) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t most : {1023, 1024, 1025, 2047, 2048, 2049, 5000}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(most));
      Rng rng(static_cast<std::uint64_t>(most));
      EmbeddingCase c = embedding_case(rng, most, 5, 19, dtype);
      for (std::int64_t i = 0; i < most; ++i) c.ids[static_cast<std::size_t>(i)] = 2;
      for (int i = 0; i < 1500; ++i) c.ids.push_back(rng.pick<std::int64_t>({0, 1, 1, 1, 1, 1, 4, -1}));
      for (std::size_t i = c.ids.size(); i > 1; --i)
        std::swap(c.ids[i - 1], c.ids[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
      c.grad = normal_elements(rng, dtype, static_cast<std::int64_t>(c.ids.size()) * c.columns);
      for (const bool accumulate : {false, true}) {
        c.accumulate = accumulate;
        const EmbeddingResult expected = embedding_twin(c);
        for (const int threads : {1, 3})
          ASSERT_TRUE(
              same_embedding(expected, embedding_call(c, {}, context(threads)), Finite::kPerhapsNone));
      }
    }
}

TEST_P(Embedding, no_ids_give_zeros_and_leave_an_accumulator_alone) {
  for (const DType dtype : kDTypes) {
    Rng rng(1);
    EmbeddingCase c = embedding_case(rng, 0, 7, 5, dtype);
    const Values zeros(dtype, 7 * 5);
    EXPECT_TRUE(same_bits(zeros, embedding_call(c, {}, context(2)).gradient));
    c.accumulate = true;
    EXPECT_TRUE(same_embedding(embedding_twin(c), embedding_call(c, {}, context(2))));
  }
}

// The sum of one id does not see which other ids there are, nor where in the batch its positions lie.
TEST_P(Embedding, ids_do_not_see_each_other) {
  for (const DType dtype : kDTypes) {
    Rng rng(5);
    const EmbeddingCase all = embedding_case(rng, 3000, 11, 12, dtype);
    const EmbeddingResult together = embedding_call(all, {}, context(2));
    for (std::int64_t id = 0; id < all.vocab; ++id) {
      EmbeddingCase one = all;
      one.ids.clear();
      one.grad = Values(dtype, 0);
      const std::int64_t row_bytes = all.columns * dtype_size(dtype);
      for (std::size_t i = 0; i < all.ids.size(); ++i) {
        if (all.ids[i] != id) continue;
        one.ids.push_back(id);
        const std::byte* row = all.grad.bytes.data() + static_cast<std::int64_t>(i) * row_bytes;
        one.grad.bytes.insert(one.grad.bytes.end(), row, row + row_bytes);
      }
      const Values alone = embedding_call(one, {}, context(2)).gradient;
      for (std::int64_t k = 0; k < all.columns; ++k)
        EXPECT_EQ(element_text(alone, id * all.columns + k),
                  element_text(together.gradient, id * all.columns + k));
    }
  }
}

// A22, A23: a sum in a 16-bit type stalls at 256 or 2048; this one does not.
TEST_P(Embedding, a23_many_ones_add_up) {
  for (const auto& [dtype, count] : {std::pair{DType::kBFloat16, 1000}, {DType::kFloat16, 3000}}) {
    Rng rng(2);
    EmbeddingCase c = embedding_case(rng, count, 9, 4, dtype);
    for (std::int64_t& id : c.ids) id = 6;
    for (std::int64_t i = 0; i < c.grad.count(); ++i) set_element(c.grad, i, 1);
    const Values gradient = embedding_call(c, {}, context(2)).gradient;
    for (std::int64_t i = 0; i < gradient.count(); ++i)
      EXPECT_EQ(element_value(gradient, i), i / 4 == 6 ? count : 0) << dtype_name(dtype);
  }
}

// A term passes at most 1024 additions of its segment and one for each segment; each is off by at most half an ulp of
// what it adds up. The result is rounded once more.
TEST_P(Embedding, the_error_is_that_of_the_additions) {
  for (const DType dtype : kDTypes) {
    Rng rng(3);
    const EmbeddingCase c = embedding_case(rng, 5000, 3, 8, dtype);
    const Values gradient = embedding_call(c, {}, context(2)).gradient;
    for (std::int64_t at = 0; at < gradient.count(); ++at) {
      ref::Quad exact = 0, magnitude = 0;
      for (std::size_t i = 0; i < c.ids.size(); ++i) {
        if (c.ids[i] != at / 8) continue;
        const double term = element_value(c.grad, static_cast<std::int64_t>(i) * 8 + at % 8);
        exact += term;
        magnitude += std::abs(term);
      }
      const double unit = dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
      const double last = dtype == DType::kBFloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : unit;
      const double bound = (1024 + 5) * unit * double(magnitude);
      const double error = std::abs(double(ref::Quad(element_value(gradient, at)) - exact));
      EXPECT_LE(error, bound + last * (std::abs(double(exact)) + bound));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(backend, Embedding, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
