// The GPU = the scalar twin on the CPU: every dtype, kind of row, option, layout and way of cutting rows.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "device.h"
#include "random_case.h"

namespace samebits::test {
namespace {

// `rows` rows of every kind of data, valid and invalid ids, per-row temperatures and all upstreams.
LogpCase batch_case(Rng& rng, std::int64_t rows, std::int64_t vocab, DType dtype, Precision precision) {
  LogpCase c = plain_case(rows, vocab, dtype);
  c.precision = precision;
  for (std::int64_t row = 0; row < rows; ++row) random_logits(rng, c.logits, row * vocab, vocab);
  for (std::int64_t& target : c.targets)
    target = rng.chance(20) ? rng.pick<std::int64_t>({-1, vocab, (std::int64_t{1} << 32) + rng.below(vocab)})
                            : rng.below(vocab);
  if (rng.chance(2)) {
    c.row_temperature = Values(DType::kFloat64, rows);
    for (std::int64_t row = 0; row < rows; ++row)
      set_element(c.row_temperature, row, 0.25 + rng.uniform() * 2);
  } else if (rng.chance(2)) {
    c.temperature = 0.7;
  }
  for (Values* upstream : {&c.grad_logp, &c.grad_lse, &c.grad_entropy}) {
    if (upstream == &c.grad_entropy && rng.chance(2)) continue;
    *upstream = Values(c.real(), rows);
    for (std::int64_t row = 0; row < rows; ++row) set_element(*upstream, row, rng.normal());
  }
  return c;
}

// Twins are slow and independent: the machine's cores share them.
template <class Body>
void in_parallel(int count, Body body) {
  std::atomic<int> next{0};
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.emplace_back([&] {
      for (int k = next++; k < count; k = next++) body(k);
    });
  for (std::thread& worker : workers) worker.join();
}

struct Kind {
  const char* name;
  DType dtype;
  Precision precision;
};
class LogpCudaBits : public ::testing::TestWithParam<Kind> {};

// At least 100,000 rows of each kind, forward, backward and probability; batches with few rows and with many.
TEST_P(LogpCudaBits, hundred_thousand_rows_equal_the_twin) {
  constexpr int kBatches = 400;
  const auto rows_of = [](int batch) -> std::int64_t { return batch % 16 == 0 ? 1030 : 256; };
  const auto [name, dtype, precision] = GetParam();
  std::vector<LogpCase> cases(kBatches);
  std::vector<std::unique_ptr<LogpResult>> expected(kBatches);
  in_parallel(kBatches, [&](int i) {
    Rng rng(static_cast<std::uint64_t>(i) * 16 + static_cast<std::uint64_t>(dtype));
    const std::int64_t vocab =
        rng.chance(3) ? rng.pick<std::int64_t>({8, 128, 256, 1024, 136}) : rng.between(1, 400);
    cases[static_cast<std::size_t>(i)] = batch_case(rng, rows_of(i), vocab, dtype, precision);
    expected[static_cast<std::size_t>(i)] =
        std::make_unique<LogpResult>(twin(cases[static_cast<std::size_t>(i)]));
  });
  std::int64_t rows = 0;
  for (int i = 0; i < kBatches; ++i) {
    rows += rows_of(i);
    SCOPED_TRACE("batch " + std::to_string(i));
    const LogpCase& c = cases[static_cast<std::size_t>(i)];
    const LogpResult& wanted = *expected[static_cast<std::size_t>(i)];
    Layout layout;
    layout.with_entropy = i % 2 == 0;
    DeviceResidence residence;
    const LogpResult actual = run_case(c, wanted, layout, {}, residence);
    ASSERT_TRUE(same_result(expected_of(c, wanted, layout), actual, Finite::kPerhapsNone));
    if (HasFailure()) return;
  }
  RecordProperty("rows", static_cast<int>(rows));
}

// Vocabularies of the field, one or few rows: rows are cut into parts, and the last part is short.
TEST_P(LogpCudaBits, long_rows_cut_into_parts_equal_the_twin) {
  const auto [name, dtype, precision] = GetParam();
  const std::vector<std::int64_t> vocabs = {1000,   4096,   32001,  50257,   131072,
                                            151936, 262144, 300000, 1048576, 4194304};
  std::vector<LogpCase> cases(2 * vocabs.size());
  std::vector<std::unique_ptr<LogpResult>> expected(cases.size());
  in_parallel(static_cast<int>(cases.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Rng rng(0x10a6u + at);
    LogpCase& c = cases[at];
    const std::int64_t vocab = vocabs[at / 2];
    c = plain_case(at % 2 == 0 || vocab > 1048576 ? 1 : 3, vocab, dtype);
    c.precision = precision;
    if (rng.chance(2)) c.temperature = 1.3;
    for (std::int64_t k = 0; k < c.rows * vocab; ++k) set_element(c.logits, k, rng.normal() * 6);
    for (std::int64_t& target : c.targets) target = rng.below(vocab);
    c.targets.back() = vocab - 1;
    for (Values* upstream : {&c.grad_logp, &c.grad_lse, &c.grad_entropy}) {
      *upstream = Values(c.real(), c.rows);
      for (std::int64_t row = 0; row < c.rows; ++row) set_element(*upstream, row, rng.normal());
    }
    expected[at] = std::make_unique<LogpResult>(twin(c));
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("V = " + std::to_string(cases[i].vocab) + ", rows " + std::to_string(cases[i].rows));
    for (const bool with_entropy : {true, false}) {
      Layout layout;
      layout.with_entropy = with_entropy;
      DeviceResidence residence;
      const LogpResult actual = run_case(cases[i], *expected[i], layout, {}, residence);
      ASSERT_TRUE(same_result(expected_of(cases[i], *expected[i], layout), actual));
    }
  }
}

// Few rows, of which every kind takes part: clusters of every size, warps with one, two and more pieces of a row each.
TEST_P(LogpCudaBits, few_rows_in_clusters_equal_the_twin) {
  const auto [name, dtype, precision] = GetParam();
  struct Shape {
    std::int64_t rows, vocab;
  };
  std::vector<Shape> shapes;
  for (const std::int64_t rows : {1, 2, 4, 5, 16, 17, 33, 66, 67})
    for (const std::int64_t vocab : {1024, 3848, 20000, 131072}) shapes.push_back({rows, vocab});
  for (const std::int64_t rows : {7, 8, 15, 22, 30, 39}) shapes.push_back({rows, 70000});
  std::vector<LogpCase> cases(shapes.size());
  std::vector<std::unique_ptr<LogpResult>> expected(shapes.size());
  in_parallel(static_cast<int>(shapes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Rng rng(0xfe3u + at);
    cases[at] = batch_case(rng, shapes[at].rows, shapes[at].vocab, dtype, precision);
    expected[at] = std::make_unique<LogpResult>(twin(cases[at]));
  });
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE("V = " + std::to_string(shapes[i].vocab) + ", rows " + std::to_string(shapes[i].rows));
    for (const bool with_entropy : {true, false}) {
      Layout layout;
      layout.with_entropy = with_entropy;
      DeviceResidence residence;
      const LogpResult actual = run_case(cases[i], *expected[i], layout, {}, residence);
      ASSERT_TRUE(same_result(expected_of(cases[i], *expected[i], layout), actual, Finite::kPerhapsNone));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(kind, LogpCudaBits,
                         ::testing::Values(Kind{"float32", DType::kFloat32, Precision::kFromLogits},
                                           Kind{"bfloat16", DType::kBFloat16, Precision::kFromLogits},
                                           Kind{"float16", DType::kFloat16, Precision::kFromLogits},
                                           Kind{"float64", DType::kFloat64, Precision::kFromLogits},
                                           Kind{"bfloat16_in_float64", DType::kBFloat16,
                                                Precision::kFloat64}),
                         [](const auto& info) { return info.param.name; });

// More long rows than a GPU works on at a time, of every kind: none is cut. A short last block; rows that begin on no
// boundary of 16 bytes.
TEST(LogpCuda, many_long_rows_equal_the_twin) {
  struct Shape {
    std::int64_t rows, vocab, gap;  // the gap leaves some rows aligned
  };
  const std::vector<Shape> shapes = {
      {267, 70004, 4}, {266, 50260, 0}, {265, 50258, 2}, {266, 129, 3}, {300, 2052, 0}};
  std::vector<LogpCase> cases(shapes.size());
  std::vector<std::unique_ptr<LogpResult>> expected(shapes.size());
  in_parallel(static_cast<int>(shapes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Rng rng(0x57e4u + at);
    cases[at] = batch_case(rng, shapes[at].rows, shapes[at].vocab, DType::kFloat32, Precision::kFromLogits);
    expected[at] = std::make_unique<LogpResult>(twin(cases[at]));
  });
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE("V = " + std::to_string(shapes[i].vocab) + ", rows " + std::to_string(shapes[i].rows));
    for (const bool with_entropy : {true, false}) {
      Layout layout;
      layout.logits.gap = shapes[i].gap;
      layout.with_entropy = with_entropy;
      DeviceResidence residence;
      const LogpResult actual = run_case(cases[i], *expected[i], layout, {}, residence);
      ASSERT_TRUE(same_result(expected_of(cases[i], *expected[i], layout), actual, Finite::kPerhapsNone));
    }
  }
}

// Zeros of both signs as upstream gradients of the first rows, in every combination.
void signed_zeros(LogpCase& c) {
  const auto zero = [](std::int64_t bit) { return bit != 0 ? -0.0 : 0.0; };
  for (std::int64_t row = 0; row < 8; ++row) {
    set_element(c.grad_logp, row, zero(row & 1));
    set_element(c.grad_lse, row, zero(row & 2));
    set_element(c.grad_entropy, row, zero(row & 4));
  }
}

// Several steps and chunks of a CTA of backward, with targets at their ends, with and without an entropy; gaps leave all or
// only some rows on boundaries of 16 bytes. Rows are prepared by a kernel of their own, or by each CTA.
TEST(LogpCuda, many_rows_of_several_steps_equal_the_twin) {
  struct Shape {
    std::int64_t rows, columns, padding;
    DType dtype;
  };
  std::vector<Shape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    for (const auto& [rows, columns, padding] :
         {std::tuple{1030, 20000, 0}, {250, 60003, 5}, {600, 20008, 2001}})
      shapes.push_back({rows, columns, padding, dtype});
  std::vector<LogpCase> cases(shapes.size());
  std::vector<std::unique_ptr<LogpResult>> expected(shapes.size());
  in_parallel(static_cast<int>(shapes.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Rng rng(0x3ec7u + at);
    cases[at] =
        batch_case(rng, shapes[at].rows, shapes[at].columns, shapes[at].dtype, Precision::kFromLogits);
    cases[at].vocab -= shapes[at].padding;
    std::size_t row = 0;
    for (const std::int64_t target : {0,    3,    4,    7,    8,     1023,  1024,  3071,  3072,  4095, 4096,
                                      6143, 6144, 8191, 8192, 12287, 12288, 16384, 18431, 18432, 19999})
      cases[at].targets[row++] = target;
    if (cases[at].grad_entropy.count() > 0) signed_zeros(cases[at]);
    expected[at] = std::make_unique<LogpResult>(twin(cases[at]));
  });
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (const std::int64_t gap : {0, 2, 5, 8}) {
      SCOPED_TRACE(std::string(dtype_name(shapes[i].dtype)) + ", rows " + std::to_string(shapes[i].rows) +
                   ", gap " + std::to_string(gap));
      Layout layout;
      layout.logits.gap = layout.grad.gap = gap;
      DeviceResidence residence;
      const LogpResult actual = run_case(cases[i], *expected[i], layout, {}, residence);
      ASSERT_TRUE(same_result(expected_of(cases[i], *expected[i], layout), actual, Finite::kPerhapsNone));
    }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    LogpCase& plain = cases[i];
    plain.grad_entropy = {};
    const LogpResult wanted = twin(plain);
    DeviceResidence residence;
    ASSERT_TRUE(same_result(wanted, run_case(plain, wanted, {}, {}, residence), Finite::kPerhapsNone));
  }
}

// Strides, offsets, gaps, expanded rows, id widths, row lists, workspaces: the suite of the CPU backends.
TEST(LogpCuda, random_calls_equal_the_twin) {
  constexpr int kCases = 4000;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i));
    const LogpCase c = random_case(rng, 3000);
    const LogpResult expected = twin(c);
    const Layout layout = random_layout(rng, c);
    DeviceResidence residence;
    const LogpResult actual = run_case(c, expected, layout, {}, residence);
    ASSERT_TRUE(same_result(expected_of(c, expected, layout), actual, Finite::kPerhapsNone));
    if (HasFailure()) return;
  }
}

// Batches cut in any way: a row's bits do not depend on how many rows ride with it.
TEST(LogpCuda, rows_do_not_see_each_other) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Rng rng(0xba7c4u);
    const std::int64_t rows = 4096, vocab = 8000;
    LogpCase c = plain_case(rows, vocab, dtype);
    for (std::int64_t k = 0; k < rows * vocab; ++k)
      set_element(c.logits, k, 20 * (rng.uniform() + rng.uniform() - 1));
    for (std::int64_t& target : c.targets) target = rng.below(vocab);
    c.grad_logp = Values(DType::kFloat32, rows);
    for (std::int64_t row = 0; row < rows; ++row) set_element(c.grad_logp, row, rng.normal());
    DeviceResidence whole_residence, again_residence;
    const LogpResult blank(c);
    LogpResult statistics = run_case(c, blank, {}, {}, whole_residence);
    const LogpResult whole = run_case(c, statistics, {}, {}, again_residence);
    for (const std::int64_t batch : {1, 2, 7, 64, 255, 257}) {
      for (std::int64_t first = 0; first < std::min<std::int64_t>(rows, 8 * batch); first += batch) {
        std::vector<std::int64_t> picked(static_cast<std::size_t>(std::min(batch, rows - first)));
        std::iota(picked.begin(), picked.end(), first);
        const LogpCase part = take_rows(c, picked);
        LogpResult expected(part);
        expected.logp = take(whole.logp, 1, picked);
        expected.lse = take(whole.lse, 1, picked);
        expected.entropy = take(whole.entropy, 1, picked);
        expected.row_max = take(whole.row_max, 1, picked);
        expected.row_sum = take(whole.row_sum, 1, picked);
        expected.row_entropy_sum = take(whole.row_entropy_sum, 1, picked);
        expected.grad = take(whole.grad, vocab, picked);
        expected.probabilities = take(whole.probabilities, vocab, picked);
        DeviceResidence residence;
        ASSERT_TRUE(same_result(expected, run_case(part, expected, {}, {}, residence))) << "batch " << batch;
      }
    }
  }
}

}  // namespace
}  // namespace samebits::test
