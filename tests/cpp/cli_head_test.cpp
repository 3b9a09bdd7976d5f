// Parts of an audit of heads: where a tensor is found, rows of a weight in parts, what is kept of an audit.
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include <samebits/plan.h>

#include "cli/atomic_file.h"
#include "cli/audit_state.h"
#include "cli/comparison.h"
#include "cli/head.h"
#include "cli/logp_settings.h"
#include "cli/progress.h"
#include "cli_fixtures.h"

namespace samebits::cli {
namespace {

// A float32 matrix of the numbers first, first + 1, ..., behind `padding` bytes of another tensor.
std::string matrix_file(std::int64_t rows, std::int64_t columns, float first, std::size_t padding = 0) {
  std::string data;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const float value = first + static_cast<float>(i);
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const std::string begin = std::to_string(padding), end = std::to_string(padding + data.size());
  std::string header = R"({"pad":{"dtype":"U8","shape":[)" + begin + R"(],"data_offsets":[0,)" + begin +
                       R"(]},"lm_head.weight":{"dtype":"F32","shape":[)" + std::to_string(rows) + "," +
                       std::to_string(columns) + R"(],"data_offsets":[)" + begin + "," + end + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return little_endian(header.size(), 8) + header + std::string(padding, 'p') + data;
}

struct HeadTest : ::testing::Test {
  TemporaryFolder folder;

  std::string matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float first,
                     std::size_t padding = 0) {
    write_all(folder / name, matrix_file(rows, columns, first, padding));
    return folder / name;
  }
};

TEST_F(HeadTest, parts_are_one_weight) {
  const std::string whole = matrix("whole", 7, 3, 0), a = matrix("a", 2, 3, 0), b = matrix("b", 5, 3, 6, 3);
  const Head one({whole}, ""), two({a, b}, "");
  EXPECT_TRUE(one.is_whole());
  EXPECT_FALSE(two.is_whole());
  EXPECT_EQ(two.vocab(), 7);
  EXPECT_EQ(two.width(), 3);
  for (const std::int64_t vocab : {1, 2, 3, 7}) EXPECT_EQ(one.weight_digest(vocab), two.weight_digest(vocab));
  EXPECT_NE(one.weight_digest(6), one.weight_digest(7));

  std::vector<std::byte> buffer;
  for (std::int64_t first = 0; first < 7; ++first) {
    const ConstTensorView rows = two.weight_rows(first, 4, buffer);
    EXPECT_EQ(rows.shape[0], first < 2 ? 2 - first : std::min<std::int64_t>(4, 7 - first));
    EXPECT_EQ(std::memcmp(rows.data, static_cast<const float*>(one.weight().data) + 3 * first,
                          static_cast<std::size_t>(rows.numel()) * 4),
              0)
        << first;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows.data) % 4, 0u);
  }
}

TEST_F(HeadTest, a_head_that_lies_across_elements_is_not_whole) {
  EXPECT_TRUE(Head({matrix("aligned", 4, 3, 1, 8)}, "").is_whole());
  EXPECT_FALSE(Head({matrix("odd", 4, 3, 1, 5)}, "").is_whole());
}

TEST_F(HeadTest, a_place_with_colons_in_its_name_is_a_place) {
  const std::string path = matrix("a::b", 4, 3, 1);
  EXPECT_EQ(locate_tensor(path, "lm_head.weight", "--weight").tensor.elements, 12);
  EXPECT_EQ(locate_tensor(path + "::pad", "lm_head.weight", "--weight").tensor.elements, 0);
  expect_refusal([&] { locate_tensor("::x", "lm_head.weight", "--weight"); }, "PLACE or PLACE::NAME");
}

TEST_F(HeadTest, a_large_index_is_refused_before_it_is_parsed) {
  write_all(folder / "index.json", "{");
  std::filesystem::resize_file(folder / "index.json", 100'000'001);
  expect_refusal([&] { locate_tensor(folder / "index.json", "w", "--weight"); }, "more than 100000000");
}

TEST(ProvenanceOfHeadTest, the_library_s_own_is_understood) {
  PlanRequest request;
  request.op = "linear_logp";
  request.vocab = 1000;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const char* contract : {"auto", "fma"}) {
      request.dtype = dtype;
      request.contract = contract;
      const RecordedMeaning meaning = meaning_from_provenance(plan(request).provenance_json, "x");
      EXPECT_TRUE(meaning.head);
      EXPECT_EQ(meaning.settings.precision, Precision::kFromLogits);
      request.contract = meaning.product();
      EXPECT_EQ(plan(request).contract, meaning.contract);
    }
  }
}

TEST(ComparisonTest, goes_on_from_what_it_gave) {
  const std::string values =
      little_endian(0x3f800000, 4) + little_endian(0x40000000, 4) + little_endian(0, 4);
  FileTensor recorded{"logp", ElementType::kF32, {3}, 3, as_file(values)};
  std::string other = values;
  other[4] ^= 1;
  other[8] ^= 1;
  Comparison whole{"logp", &recorded}, first{"logp", &recorded}, second{"logp", &recorded};
  whole.add(0, as_file(other));
  first.add(0, as_file(other).first(8));
  ASSERT_TRUE(second.restore(first.json({3})));
  second.add(2, as_file(other).subspan(8));
  EXPECT_EQ(second.json({3}), whole.json({3}));
  EXPECT_EQ(whole.differing, 2);
  EXPECT_EQ(whole.first_row, 1);
  EXPECT_EQ(whole.recomputed_value, "0x1.000002p+1 (40000001)");
  for (const char* text : {"{}", "[]", R"({"differing_rows": -1})", R"({"differing_rows": 1})"}) {
    EXPECT_FALSE(second.restore(nlohmann::ordered_json::parse(text))) << text;
  }
}

TEST(AuditStateTest, belongs_to_one_identity_and_leaves_nothing_else_behind) {
  const TemporaryFolder folder;
  const nlohmann::ordered_json mine = {{"a", 1}, {"b", {{"c", "x"}}}}, progress = {{"next_row", 5}};
  AuditState state(folder / "state", true, mine);
  EXPECT_EQ(state.load(), std::nullopt);
  state.save_at_times(progress, "");  // too early
  EXPECT_EQ(folder.entries(), 0u);
  state.save(progress, "");
  state.save(progress, "");
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_EQ(AuditState(folder / "state", true, mine).load(), progress);
  const auto refused = [&](const nlohmann::ordered_json& identity, const std::string& part) {
    AuditState other(folder / "state", true, identity);
    expect_refusal([&] { other.load(); }, part);
    other.remove();  // not its own: it stays
    EXPECT_EQ(folder.entries(), 1u);
  };
  refused({{"a", 1}, {"b", {{"c", "y"}}}}, R"('b' was {"c":"x"} and is {"c":"y"})");
  refused({{"a", 1}}, R"('b' was {"c":"x"} and is absent)");
  refused({{"a", 1}, {"b", {{"c", "x"}}}, {"d", 0}}, "'d' was absent and is 0");
  state.remove();
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(AuditStateTest, a_file_is_known_by_its_path_size_time_and_beginning) {
  const TemporaryFolder folder;
  write_all(folder / "a", "contents");
  const auto before = file_identity(MappedFile(folder / "a"));
  EXPECT_EQ(file_identity(MappedFile(folder / "a")), before);
  std::filesystem::last_write_time(folder / "a",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_NE(file_identity(MappedFile(folder / "a")), before);
  write_all(folder / "b", "contentS");
  EXPECT_NE(file_identity(MappedFile(folder / "b"))["beginning"], before["beginning"]);
}

TEST(AtomicFileTest, replaces_or_changes_nothing) {
  const TemporaryFolder folder;
  replace_file(folder / "a", "one");
  replace_file(folder / "a", "two");
  EXPECT_EQ(read_all(folder / "a"), "two");
  std::filesystem::create_directory(folder / "taken");
  expect_refusal([&] { replace_file(folder / "taken", "three"); }, "cannot be written");
  expect_refusal([&] { replace_file(folder / "no/such", "three"); }, "cannot be written: No such file");
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(ProgressTest, what_was_done_before_counts_for_the_share_alone) {
  Progress progress(ProgressMode::kNever, "audit", "tokens", 200);
  progress.start_at(100);
  EXPECT_EQ(progress.line(1), "audit [############............]  50%  100/200 tokens  0.0 tokens/s");
  progress.advance(50);
  EXPECT_EQ(progress.line(10),
            "audit [##################......]  75%  150/200 tokens  5.0 tokens/s  10.0 s left");
}

}  // namespace
}  // namespace samebits::cli
