// Embedding on a GPU: the bits of the CPU, whatever the layout, the repeats and the size.
#include <gtest/gtest.h>

#include <algorithm>

#include "device.h"
#include "embedding_case.h"
#include "logp_case.h"

namespace samebits::test {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

EmbeddingResult on_gpu(const EmbeddingCase& c, const EmbeddingLayout& layout = {}) {
  DeviceResidence residence;
  return embedding_call(c, layout, {}, residence);
}

TEST(CudaEmbedding, random_calls_equal_the_twin) {
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const EmbeddingCase c = random_embedding_case(rng);
    ASSERT_TRUE(
        same_embedding(embedding_twin(c), on_gpu(c, random_embedding_layout(rng, c)), Finite::kPerhapsNone));
  }
}

// Runs of these many positions, one id after the other: segments begin everywhere in the windows that long runs are cut
// into, and two may begin in one.
TEST(CudaEmbedding, runs_of_any_length_equal_the_cpu) {
  const std::vector<std::int64_t> lengths[] = {
      {1024},       {1025},       {2048, 1},        {2049, 1023, 1024, 1025, 1, 1, 2047, 1030, 5000},
      {3, 1025, 7}, {1022, 1026}, {1, 100000, 999}, {1500, 1500, 1500, 1500, 1500, 1500, 1500},
      {128},        {129},        {127, 129, 130},  {1, 129, 129, 129, 129, 1153, 128, 1152, 1151, 200}};
  for (const DType dtype : kDTypes)
    for (const std::vector<std::int64_t>& runs : lengths) {
      std::int64_t count = 0;
      for (const std::int64_t run : runs) count += run;
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(count) + " ids");
      Rng rng(static_cast<std::uint64_t>(count));
      EmbeddingCase c = embedding_case(rng, 0, static_cast<std::int64_t>(runs.size()) + 2, 24, dtype);
      for (std::size_t id = 0; id < runs.size(); ++id)
        c.ids.insert(c.ids.end(), static_cast<std::size_t>(runs[id]), static_cast<std::int64_t>(id));
      for (std::size_t i = c.ids.size(); i > 1; --i)
        std::swap(c.ids[i - 1], c.ids[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
      c.grad = normal_elements(rng, dtype, count * c.columns);
      for (const bool accumulate : {false, true}) {
        c.accumulate = accumulate;
        const EmbeddingResult expected = embedding_call(c);
        EmbeddingLayout unaligned;
        unaligned.grad.offset = 1;
        ASSERT_TRUE(same_embedding(expected, on_gpu(c)));
        ASSERT_TRUE(same_embedding(expected, on_gpu(c, unaligned)));
      }
    }
}

TEST(CudaEmbedding, the_width_of_a_model_equals_the_cpu) {
  for (const DType dtype : kDTypes) {
    Rng rng(7);
    EmbeddingCase c = embedding_case(rng, 5000, 4096, 2688, dtype);
    c.options.padding_idx = 1;
    const EmbeddingResult expected = embedding_call(c);
    for (int repeat = 0; repeat < 3; ++repeat)
      ASSERT_TRUE(same_embedding(expected, on_gpu(c))) << dtype_name(dtype);
  }
}

TEST(CudaEmbedding, no_ids_give_zeros_and_leave_an_accumulator_alone) {
  for (const DType dtype : kDTypes) {
    Rng rng(1);
    EmbeddingCase c = embedding_case(rng, 0, 7, 5, dtype);
    EXPECT_TRUE(same_bits(Values(dtype, 7 * 5), on_gpu(c).gradient));
    c.accumulate = true;
    EXPECT_TRUE(same_embedding(embedding_twin(c), on_gpu(c)));
  }
}

TEST(CudaEmbedding, a_bad_id_is_named_with_its_position) {
  for (const bool narrow : {false, true}) {
    Rng rng(4);
    EmbeddingCase c = embedding_case(rng, 100, 7, 5, DType::kFloat32);
    c.ids[41] = -3;
    c.ids[77] = 7;
    c.options.on_invalid = OnInvalid::kRaise;
    EmbeddingLayout layout;
    layout.narrow_ids = narrow;
    try {
      on_gpu(c, layout);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "ids: has id -3 at position 41; ids must be within [0, 7)");
    }
  }
}

// A1: more than 2^31 elements looked up, and in a table.
TEST(CudaEmbedding, sizes_beyond_32_bits) {
  constexpr std::int64_t kMany = 800001, kColumns = 2688, kFew = 3;
  const auto bytes_of = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  DeviceBytes large(bytes_of(2 * kMany * kColumns)), small(bytes_of(2 * kFew * kColumns)),
      ids(bytes_of(8 * kMany));
  Rng rng(9);
  const Values rows = normal_elements(rng, DType::kBFloat16, kFew * kColumns);
  cuda_check(cudaMemcpy(small.data(), rows.bytes.data(), rows.bytes.size(), cudaMemcpyHostToDevice));
  const TensorView few(small.data(), DType::kBFloat16, {kFew, kColumns}, kGpu);
  const TensorView many(large.data(), DType::kBFloat16, {kMany, kColumns}, kGpu);
  const auto check_row = [&](std::int64_t at, const Values& source, std::int64_t row) {
    Values wanted(DType::kBFloat16, kColumns), got(DType::kBFloat16, kColumns);
    if (row >= 0) std::copy_n(source.bytes.data() + 2 * row * kColumns, 2 * kColumns, wanted.bytes.data());
    cuda_check(cudaMemcpy(got.bytes.data(), large.data() + 2 * at * kColumns, got.bytes.size(),
                          cudaMemcpyDeviceToHost));
    ASSERT_TRUE(same_bits(wanted, got)) << "row " << at;
  };

  std::vector<std::int64_t> wanted(bytes_of(kMany));
  for (std::int64_t& id : wanted) id = rng.below(kFew);
  cuda_check(cudaMemcpy(ids.data(), wanted.data(), ids.span().size(), cudaMemcpyHostToDevice));
  embedding_forward(TensorView(ids.data(), DType::kInt64, {kMany}, kGpu), few, many);
  cuda_check(cudaDeviceSynchronize());
  for (int i = 0; i < 500; ++i) {
    const std::int64_t at = i < 2 ? i * (kMany - 1) : rng.below(kMany);
    check_row(at, rows, wanted[bytes_of(at)]);
  }

  const std::int64_t places[kFew] = {kMany - 1, 5,
                                     798915};  // the last one begins before element 2^31 and ends behind it
  cuda_check(cudaMemcpy(ids.data(), places, sizeof places, cudaMemcpyHostToDevice));
  embedding_backward(TensorView(ids.data(), DType::kInt64, {kFew}, kGpu), few, {many, {}});
  cuda_check(cudaDeviceSynchronize());
  for (int i = 0; i < 500; ++i) {
    const std::int64_t at = i < kFew ? places[i] : rng.below(kMany);
    check_row(at, rows, std::find(places, places + kFew, at) - places == kFew ? -1 : i);
  }
}

}  // namespace
}  // namespace samebits::test
