#include <cmath>
#include <cstring>
#include <limits>

#include <samebits/plan.h>

#include "../fuzz/fuzz_bodies.h"
#include "cli/bits.h"
#include "cli/digest.h"
#include "cli/golden.h"
#include "cli/logp_settings.h"
#include "cli/progress.h"
#include "cli/selftest_case.h"
#include "cli/selftest_product.h"
#include "cli/twin.h"
#include "cli_fixtures.h"

namespace samebits::cli {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

TEST(BitsTest, differences_are_found_by_raw_bits) {
  const auto a = bytes_of<float>({1.0f, 0.0f, 2.0f, 3.0f});
  const auto b = bytes_of<float>({1.0f, -0.0f, 2.0f, 4.0f});
  EXPECT_EQ(first_difference(a, a, 4), std::nullopt);
  EXPECT_EQ(first_difference(a, b, 4), 1);
  EXPECT_EQ(count_differences(a, b, 4), 2);
  EXPECT_EQ(first_difference({}, {}, 4), std::nullopt);
}

TEST(BitsTest, distances_are_counted_across_zero_and_to_the_ends) {
  const auto distance = [](double x, double y) {
    return ulp_text(bytes_of<double>({x}), bytes_of<double>({y}));
  };
  const auto single = [](float x, float y) { return ulp_text(bytes_of<float>({x}), bytes_of<float>({y})); };
  EXPECT_EQ(single(1.0f, std::nextafter(1.0f, 2.0f)), "1 ulp");
  EXPECT_EQ(single(-1e-45f, 1e-45f), "2 ulp");
  EXPECT_EQ(single(0.0f, -0.0f), "0 ulp");
  EXPECT_EQ(single(-INFINITY, INFINITY), "4278190080 ulp");
  EXPECT_EQ(distance(-INFINITY, INFINITY), "18437736874454810624 ulp");
  EXPECT_EQ(single(NAN, 1.0f), "not comparable");
}

TEST(BitsTest, values_are_told_in_hex_float_and_hex) {
  EXPECT_EQ(value_text(bytes_of<float>({-3.0f})), "-0x1.8p+1 (c0400000)");
  EXPECT_EQ(value_text(bytes_of<double>({1.0})), "0x1p+0 (3ff0000000000000)");
}

TEST(DigestTest, depends_on_every_byte_the_length_and_the_order_of_rows) {
  std::string row(200, 'a');
  const std::uint64_t whole = row_digest(as_file(row));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] ^= 1;
    EXPECT_NE(row_digest(as_file(row)), whole) << i;
    row[i] ^= 1;
  }
  EXPECT_NE(row_digest(as_file(std::string(1, '\0'))), row_digest(as_file(std::string(2, '\0'))));
  Digest forward, backward;
  for (const std::uint64_t value : {1, 2}) forward.add(value);
  for (const std::uint64_t value : {2, 1}) backward.add(value);
  EXPECT_NE(forward.value(), backward.value());
}

TEST(ProvenanceTest, the_library_s_own_is_understood) {
  PlanRequest request;
  request.dtype = DType::kBFloat16;
  request.vocab = 1000;
  request.options.temperature = 0.5;
  request.options.ignore_index = -100;
  request.options.on_invalid = OnInvalid::kNan;
  request.options.precision = Precision::kFloat64;
  const RecordedMeaning meaning = meaning_from_provenance(plan(request).provenance_json, "x");
  EXPECT_EQ(meaning.contract, "row64.v1");
  EXPECT_EQ(meaning.settings.precision, Precision::kFloat64);
  EXPECT_EQ(meaning.settings.temperature, 0.5);
  EXPECT_EQ(meaning.settings.ignore_index, -100);
  EXPECT_EQ(meaning.settings.vocab_size, 1000);
  EXPECT_EQ(meaning.settings.on_invalid, OnInvalid::kNan);
  EXPECT_FALSE(meaning.rows || meaning.row_temperature);
}

TEST(ProvenanceTest, what_may_decide_bits_and_is_not_known_is_refused) {
  const auto expect = [](const std::string& semantics, const std::string& part) {
    const std::string text = R"({"op":"logp","contract":"row.v1","semantics":)" + semantics + '}';
    expect_refusal([&] { meaning_from_provenance(text, "x"); }, part);
  };
  expect(R"({"softcap":30})", "'softcap'");
  expect(R"({"keep_unselected":true})", "cannot be audited");
  expect(R"({"temperature":"warm"})", "per_row");
  expect(R"({"vocab_size":1.5})", "not an integer");
  expect(R"({"vocab_size":18446744073709551615})", "not an integer");
  expect(R"({"rows":1})", "not true or false");
  expect("[]", "not a JSON object");
  expect_refusal([] { meaning_from_provenance(R"({"op":"logp"})", "x"); }, "'contract': is missing");
}

TEST(ProgressTest, says_share_rate_and_time_left) {
  Progress progress(ProgressMode::kNever, "logp", "rows", 200, 1e9);
  EXPECT_EQ(progress.line(0), "logp [........................]   0%  0/200 rows");
  progress.advance(50);
  EXPECT_EQ(progress.line(10), "logp [######..................]  25%  50/200 rows  5.0 GB/s  30.0 s left");
  progress.advance(150);
  EXPECT_EQ(progress.line(100), "logp [########################] 100%  200/200 rows  2.0 GB/s  1:40");
  EXPECT_EQ(duration_text(3725), "1:02:05");
  EXPECT_EQ(duration_text(1e9), "> 99 h");
}

// The judge that selftest relies on must itself notice.
TEST(SelftestTest, golden_vectors_hold_for_the_twin_and_tell_a_wrong_one) {
  for (const Golden& golden : golden_vectors()) {
    const SelftestCase test = golden_case(golden);
    const auto result = run_selftest_case(test, twin_forward, twin_backward);
    EXPECT_EQ(golden_text(golden_of(golden, result)), golden_text(golden));
    auto other = result;
    other[6][0] ^= std::byte{1};
    EXPECT_NE(golden_text(golden_of(golden, other)), golden_text(golden));
  }
}

TEST(SelftestTest, golden_products_hold_for_the_twin) {
  for (const ProductGolden& golden : product_goldens()) {
    const auto output = product_by_twin(product_golden_case(golden));
    EXPECT_EQ(product_golden_text(product_golden_of(golden, output)), product_golden_text(golden));
  }
}

// Values of the formula are small multiples of 1/16, so that a product of few terms is exact in double.
TEST(SelftestTest, the_golden_product_is_the_product) {
  const ProductCase test = product_golden_case({DType::kFloat64, false, 40, 0});
  const auto bytes = product_by_twin(test);
  const auto* out = reinterpret_cast<const double*>(bytes.data());
  const auto* a = reinterpret_cast<const double*>(test.a.data());
  const auto* b = reinterpret_cast<const double*>(test.b.data());
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) {
      double sum = 0;
      for (int k = 0; k < 40; ++k) sum += a[40 * i + k] * b[40 * j + k];
      EXPECT_EQ(out[5 * i + j], sum);
    }
  }
}

TEST(SelftestTest, random_cases_reach_every_dtype_and_most_results_are_finite) {
  Random random(3);
  int seen[6] = {}, finite = 0, rows = 0;
  for (int i = 0; i < 200; ++i) {
    const SelftestCase test = random_selftest_case(random);
    ++seen[static_cast<int>(test.dtype)];
    const auto result = run_selftest_case(test, twin_forward, twin_backward);
    for (std::int64_t row = 0; row < test.rows; ++row, ++rows) {
      float single;
      double wide;
      std::memcpy(&single, result[1].data() + row * (test.wide() ? 8 : 4), 4);
      std::memcpy(&wide, result[1].data() + (test.wide() ? row * 8 : 0), test.wide() ? 8 : 0);
      finite += test.wide() ? std::isfinite(wide) : std::isfinite(single);
    }
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    EXPECT_GT(seen[static_cast<int>(dtype)], 20);
  }
  EXPECT_GT(2 * finite, rows);
}

TEST(CorpusTest, every_seed_file_is_read_or_refused_cleanly) {
  const std::filesystem::path corpus = std::filesystem::path(SAMEBITS_TEST_DATA) / "fuzz" / "corpus";
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus)) {
    if (!entry.is_regular_file()) continue;
    const std::string contents = read_all(entry.path().string());
    fuzz_npy(as_file(contents));
    fuzz_safetensors(as_file(contents));
    ++files;
  }
  EXPECT_GE(files, 13);
}

}  // namespace
}  // namespace samebits::cli
