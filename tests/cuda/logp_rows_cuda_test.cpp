// The GPU = the scalar twin where many long rows share few in memory: ids without a part, and rows that start last.
#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "device.h"
#include "random_case.h"

namespace samebits::test {
namespace {

// One long row in memory under many ids, of which some, none or nearly all are valid and listed.
TEST(LogpCuda, rows_without_a_part_do_not_hold_up_the_others) {
  const std::int64_t rows = 1500, vocab = 100000;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const LogpCase one = normal_case(1, vocab, dtype);
    // Of each kind of row one: three ids, an invalid one, and a row that is not listed.
    const std::vector<std::int64_t> ids = {7, vocab - 1, 54321, -1, 8};
    LogpCase kinds = take_rows(one, {0, 0, 0, 0, 0});
    kinds.targets = ids;
    kinds.selected = {0, 1, 2, 3};
    const LogpResult expected = twin(kinds);
    const DeviceBytes logits(one.logits.bytes.size()), target_bytes(8 * rows), listed_bytes(8 * rows);
    cuda_check(
        cudaMemcpy(logits.data(), one.logits.bytes.data(), one.logits.bytes.size(), cudaMemcpyHostToDevice));
    using Pattern = std::int64_t (*)(std::int64_t);
    for (const Pattern kind_of : std::initializer_list<Pattern>{
             [](std::int64_t) { return std::int64_t{3}; }, [](std::int64_t) { return std::int64_t{4}; },
             [](std::int64_t row) { return row % 5; },
             [](std::int64_t row) { return row == 0 ? 0 : row % 2 + 3; },
             [](std::int64_t row) { return row == rows - 1 ? 1 : row % 2 + 3; },
             [](std::int64_t row) { return row < rows / 2 ? row % 3 : 3; },
             [](std::int64_t row) { return row < rows / 2 ? 4 : row % 3; }}) {
      std::vector<std::int64_t> picked, targets, listed;
      for (std::int64_t row = 0; row < rows; ++row) {
        picked.push_back(kind_of(row));
        targets.push_back(ids[static_cast<std::size_t>(picked.back())]);
        if (picked.back() != 4) listed.push_back(row);
      }
      cuda_check(cudaMemcpy(target_bytes.data(), targets.data(), 8 * targets.size(), cudaMemcpyHostToDevice));
      cuda_check(cudaMemcpy(listed_bytes.data(), listed.data(), 8 * listed.size(), cudaMemcpyHostToDevice));
      const DeviceBytes logp(4 * rows), entropy(4 * rows);
      LogpOutputs outputs;
      outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows}, kGpu);
      outputs.entropy = TensorView(entropy.data(), DType::kFloat32, {rows}, kGpu);
      LogpOptions options;
      options.rows = ConstTensorView(listed_bytes.data(), DType::kInt64,
                                     {static_cast<std::int64_t>(listed.size())}, kGpu);
      logp_forward(ConstTensorView(logits.data(), dtype, {rows, vocab}, {0, 1}, kGpu),
                   ConstTensorView(target_bytes.data(), DType::kInt64, {rows}, kGpu), options, outputs);
      cuda_check(cudaDeviceSynchronize());
      for (const auto& [bytes, wanted] : {std::pair{&logp, &expected.logp}, {&entropy, &expected.entropy}}) {
        Values got(DType::kFloat32, rows);
        cuda_check(cudaMemcpy(got.bytes.data(), bytes->data(), got.bytes.size(), cudaMemcpyDeviceToHost));
        ASSERT_TRUE(same_bits(take(*wanted, 1, picked), got)) << dtype_name(dtype);
      }
    }
  }
}

// The same rows of every kind over and over: more than a GPU works on at a time, so that those that start last are cut.
constexpr std::int64_t kKinds = 59, kVocab = 70000;
bool is_listed(std::int64_t kind) { return kind % 10 != 9; }

LogpCase kinds_of_rows(DType dtype, double temperature) {
  Rng rng(0x1a57u + static_cast<std::uint64_t>(dtype));
  LogpCase base = plain_case(kKinds, kVocab, dtype);
  base.temperature = temperature;
  for (std::int64_t row = 3; row < kKinds; ++row) random_logits(rng, base.logits, row * kVocab, kVocab);
  for (std::int64_t k = 0; k < kVocab; ++k) {
    set_element(base.logits, k, -0.0);
    set_element(base.logits, kVocab + k, -1 - rng.uniform() * 300);
    set_element(base.logits, 2 * kVocab + k,
                k / 128 % 3 == 0 ? -std::numeric_limits<double>::infinity() : rng.normal());
  }
  for (std::int64_t& target : base.targets) target = rng.chance(20) ? -1 : rng.below(kVocab);
  base.selected.emplace();
  for (std::int64_t kind = 0; kind < kKinds; ++kind)
    if (is_listed(kind)) base.selected->push_back(kind);
  return base;
}

// `times` times all of them, of which those in memory are `stride` columns apart.
void expect_all(const LogpCase& base, const LogpResult& expected, std::int64_t times, std::int64_t stride,
                const std::byte* logits) {
  const std::int64_t rows = times * kKinds;
  SCOPED_TRACE(std::string(dtype_name(base.logits.dtype)) + ", stride " + std::to_string(stride) + ", rows " +
               std::to_string(rows));
  std::vector<std::int64_t> picked, targets, listed;
  for (std::int64_t row = 0; row < rows; ++row) {
    picked.push_back(row % kKinds);
    targets.push_back(base.targets[static_cast<std::size_t>(row % kKinds)]);
    if (is_listed(row % kKinds)) listed.push_back(row);
  }
  const auto count = static_cast<std::size_t>(rows);
  const DeviceBytes target_bytes(8 * count), listed_bytes(8 * count);
  cuda_check(cudaMemcpy(target_bytes.data(), targets.data(), 8 * count, cudaMemcpyHostToDevice));
  cuda_check(cudaMemcpy(listed_bytes.data(), listed.data(), 8 * listed.size(), cudaMemcpyHostToDevice));
  LogpOptions options;
  options.temperature = base.temperature;
  options.rows =
      ConstTensorView(listed_bytes.data(), DType::kInt64, {static_cast<std::int64_t>(listed.size())}, kGpu);
  for (const bool with_entropy : {false, true}) {
    const DeviceBytes logp(4 * count), lse(4 * count), entropy(4 * count);
    LogpOutputs outputs;
    outputs.logp = TensorView(logp.data(), DType::kFloat32, {times, kKinds}, kGpu);
    outputs.lse = TensorView(lse.data(), DType::kFloat32, {times, kKinds}, kGpu);
    if (with_entropy) outputs.entropy = TensorView(entropy.data(), DType::kFloat32, {times, kKinds}, kGpu);
    logp_forward(ConstTensorView(logits, base.logits.dtype, {times, kKinds, kVocab}, {0, stride, 1}, kGpu),
                 ConstTensorView(target_bytes.data(), DType::kInt64, {times, kKinds}, kGpu), options,
                 outputs);
    cuda_check(cudaDeviceSynchronize());
    const auto same = [&](const DeviceBytes& bytes, const Values& wanted, const char* what) {
      Values got(DType::kFloat32, rows);
      cuda_check(cudaMemcpy(got.bytes.data(), bytes.data(), got.bytes.size(), cudaMemcpyDeviceToHost));
      EXPECT_TRUE(same_bits(take(wanted, 1, picked), got)) << what;
    };
    same(logp, expected.logp, "logp");
    same(lse, expected.lse, "lse");
    if (with_entropy) same(entropy, expected.entropy, "entropy");
  }
}

// On boundaries of 16 bytes and on none; with a temperature and without.
TEST(LogpCuda, rows_that_start_last_equal_the_twin) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    for (const double temperature : {1.0, 0.7}) {
      const LogpCase base = kinds_of_rows(dtype, temperature);
      const LogpResult expected = twin(base);
      for (const std::int64_t stride : {kVocab, kVocab + 3}) {
        const auto bytes_of = [&](std::int64_t columns) {
          return static_cast<std::size_t>(columns * dtype_size(dtype));
        };
        const DeviceBytes logits(bytes_of(kKinds * stride));
        cuda_check(cudaMemcpy2D(logits.data(), bytes_of(stride), base.logits.bytes.data(), bytes_of(kVocab),
                                bytes_of(kVocab), kKinds, cudaMemcpyHostToDevice));
        for (const std::int64_t times : {13, 14, 16, 20, 27, 29, 40}) {
          expect_all(base, expected, times, stride, logits.data());
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
}

}  // namespace
}  // namespace samebits::test
