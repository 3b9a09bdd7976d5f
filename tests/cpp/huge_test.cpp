// T * V beyond 2^32 elements. The tensors are honest (every row has its own 64-bit offset) but most of their rows
// share memory: the same pages are mapped over and over, and only rows whose place matters have pages of their own.
#include <gtest/gtest.h>

#if defined(__linux__)

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "random_case.h"

namespace samebits::test {
namespace {

constexpr std::int64_t kVocab = 131072, kRows = 32771;  // 2^32 + 3 * 2^17 elements
constexpr std::int64_t kRowBytes = kVocab * 2;          // bf16
// Rows that share memory repeat with this period. It has no factor in common with 2^14 or 2^15, the rows at which
// offsets pass 2^31 and 2^32, so a wrapped offset finds another row than the right one.
constexpr std::int64_t kPeriod = 61;
constexpr std::int64_t kOwnRows[] = {0, 1, 16383, 16384, 16385, 32767, 32768, 32769, 32770};

// kRows rows of bf16 in one address range.
class RepeatedRows {
 public:
  RepeatedRows() {
    const int file = memfd_create("rows", 0);
    if (file < 0 || ftruncate(file, kPeriod * kRowBytes) != 0) return;
    void* range =
        mmap(nullptr, kRows * kRowBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return;
    base_ = static_cast<std::byte*>(range);
    bool mapped = true;
    const auto map = [&](std::int64_t row, std::int64_t rows, int flags, int from) {
      void* at = base_ + row * kRowBytes;
      mapped = mapped && mmap(at, static_cast<std::size_t>(rows * kRowBytes), PROT_READ | PROT_WRITE,
                              flags | MAP_FIXED, from, 0) == at;
    };
    for (std::int64_t row = 0; row < kRows; row += kPeriod)
      map(row, std::min(kPeriod, kRows - row), MAP_SHARED, file);
    for (const std::int64_t row : kOwnRows) map(row, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    close(file);
    ready_ = mapped;
  }
  ~RepeatedRows() {
    if (base_ != nullptr) munmap(base_, kRows * kRowBytes);
  }
  RepeatedRows(const RepeatedRows&) = delete;
  RepeatedRows& operator=(const RepeatedRows&) = delete;

  bool ready() const { return ready_; }
  std::byte* row(std::int64_t index) { return base_ + index * kRowBytes; }

 private:
  std::byte* base_ = nullptr;
  bool ready_ = false;
};

TEST(Huge, more_than_2_to_the_32_logits_forward_and_backward) {
  static_assert(kRows * kVocab > (std::int64_t{1} << 32));
  RepeatedRows logits, grad;
  ASSERT_TRUE(logits.ready() && grad.ready()) << "no room for two address ranges of 8.6 GB";

  Rng rng(32);
  LogpCase shared = plain_case(kPeriod, kVocab, DType::kBFloat16);
  LogpCase own = plain_case(std::size(kOwnRows), kVocab, DType::kBFloat16);
  for (LogpCase* c : {&shared, &own}) {
    for (std::int64_t i = 0; i < c->rows * kVocab; ++i) set_element(c->logits, i, 24 * (rng.uniform() - 0.5));
    c->grad_logp = Values(DType::kFloat32, c->rows);
    for (std::int64_t row = 0; row < c->rows; ++row) {
      c->targets[static_cast<std::size_t>(row)] = rng.below(kVocab);
      set_element(c->grad_logp, row, rng.normal());
    }
  }
  const LogpResult shared_twin = twin(shared), own_twin = twin(own);

  // Rows that share memory first, then those with pages of their own (mapped on top of them).
  for (std::int64_t row = kPeriod; row < 2 * kPeriod; ++row)
    std::memcpy(logits.row(row), shared.logits.bytes.data() + (row % kPeriod) * kRowBytes, kRowBytes);
  std::vector<std::int64_t> targets(kRows);
  std::vector<float> upstream(kRows), logp(kRows), row_max(kRows);
  std::vector<std::int64_t> row_sum(kRows);
  Values expected(DType::kFloat32, kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    targets[at] = shared.targets[at % kPeriod];
    upstream[at] = shared.grad_logp.as<float>()[at % kPeriod];
    expected.as<float>()[row] = shared_twin.logp.as<float>()[row % kPeriod];
  }
  for (std::size_t i = 0; i < std::size(kOwnRows); ++i) {
    const auto row = static_cast<std::size_t>(kOwnRows[i]);
    std::memcpy(logits.row(kOwnRows[i]), own.logits.bytes.data() + i * kRowBytes, kRowBytes);
    targets[row] = own.targets[i];
    upstream[row] = own.grad_logp.as<float>()[i];
    expected.as<float>()[row] = own_twin.logp.as<float>()[i];
  }

  const TensorView logits_view(logits.row(0), DType::kBFloat16, {kRows, kVocab});
  const ConstTensorView ids(targets.data(), DType::kInt64, {kRows});
  LogpOptions options;
#if defined(__SANITIZE_ADDRESS__)
  // Instrumented kernels are slow: only the rows that have memory of their own are computed. The others take the
  // zero form, forward and backward.
  const ConstTensorView rows(kOwnRows, DType::kInt64, {static_cast<std::int64_t>(std::size(kOwnRows))});
  options.rows = rows;
  for (std::int64_t row = 0; row < kRows; ++row)
    if (std::find(std::begin(kOwnRows), std::end(kOwnRows), row) == std::end(kOwnRows))
      expected.as<float>()[row] = 0;
#endif
  LogpOutputs outputs;
  outputs.logp = {logp.data(), DType::kFloat32, {kRows}};
  outputs.row_max = {row_max.data(), DType::kFloat32, {kRows}};
  outputs.row_sum = {row_sum.data(), DType::kInt64, {kRows}};
  logp_forward(logits_view, ids, options, outputs);
  Values actual(DType::kFloat32, kRows);
  std::memcpy(actual.bytes.data(), logp.data(), actual.bytes.size());
  EXPECT_TRUE(same_bits(expected, actual));

  LogpUpstream gradients;
  gradients.logp = {upstream.data(), DType::kFloat32, {kRows}};
  logp_backward(logits_view, ids, options, {outputs.row_max, outputs.row_sum, {}}, gradients,
                {grad.row(0), DType::kBFloat16, {kRows, kVocab}});
  for (std::size_t i = 0; i < std::size(kOwnRows); ++i) {
    Values row(DType::kBFloat16, kVocab);
    std::memcpy(row.bytes.data(), grad.row(kOwnRows[i]), kRowBytes);
    const Values right = take(own_twin.grad, kVocab, {static_cast<std::int64_t>(i)});
    EXPECT_TRUE(same_bits(right, row)) << "row " << kOwnRows[i];
  }
  // The inputs still hold what they held.
  for (std::int64_t row = kPeriod; row < 2 * kPeriod; ++row)
    ASSERT_EQ(
        0, std::memcmp(logits.row(row), shared.logits.bytes.data() + (row % kPeriod) * kRowBytes, kRowBytes));
}

}  // namespace
}  // namespace samebits::test

#endif
