#include "cli/safetensors.h"

#include "cli_fixtures.h"

namespace samebits::cli {
namespace {

SafetensorsFile read(const std::string& file) { return read_safetensors(as_file(file), "x.st"); }

void expect_st_refusal(const std::string& header, std::size_t data_bytes, const std::string& part) {
  const std::string file = safetensors(header, data_bytes);
  expect_refusal([&] { read(file); }, part);
  EXPECT_NE(refusal([&] { read(file); }).find("'x.st'"), std::string::npos);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         '}';
}

TEST(SafetensorsTest, reads_tensors_and_metadata) {
  const std::string file = safetensors(
      "{\"__metadata__\":{\"a\":\"b\"}," + entry("y", "BF16", "[3]", "[8,14]") + ',' +
          entry("x", "I64", "[]", "[0,8]") + ',' + entry("none", "F32", "[4,0]", "[14,14]") + "}   ",
      14);
  const SafetensorsFile contents = read(file);
  ASSERT_EQ(contents.tensors.size(), 3u);
  EXPECT_EQ(contents.metadata.at("a"), "b");
  const FileTensor* y = contents.find("y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->type, ElementType::kBF16);
  EXPECT_EQ(y->elements, 3);
  EXPECT_EQ(y->data.data(), as_file(file).data() + file.size() - 6);
  EXPECT_EQ(contents.find("none")->elements, 0);
  EXPECT_EQ(contents.find("z"), nullptr);
}

TEST(SafetensorsTest, reads_every_element_type_of_the_format) {
  for (int i = 0; i <= static_cast<int>(ElementType::kF6E3M2); ++i) {
    const auto type = static_cast<ElementType>(i);
    const int bytes = 4 * element_bits(type) / 8;
    const std::string name(element_type_name(type));
    const auto contents =
        read(safetensors('{' + entry("t", name, "[4]", "[0," + std::to_string(bytes) + "]") + '}', bytes));
    EXPECT_EQ(contents.tensors.at(0).type, type) << name;
  }
  expect_st_refusal('{' + entry("t", "F4", "[3]", "[0,1]") + '}', 1, "not representable");
  expect_st_refusal('{' + entry("t", "F128", "[1]", "[0,16]") + '}', 16, "unknown dtype 'F128'");
}

TEST(SafetensorsTest, refuses_ranges_that_overlap_leave_holes_or_leave_the_file) {
  const auto two = [](const std::string& a, const std::string& b) {
    return '{' + entry("a", "F32", "[2]", a) + ',' + entry("b", "F32", "[2]", b) + '}';
  };
  EXPECT_EQ(read(safetensors(two("[8,16]", "[0,8]"), 16)).tensors.size(), 2u);
  expect_st_refusal(two("[0,8]", "[0,8]"), 8, "overlap or hole");
  expect_st_refusal(two("[0,8]", "[4,12]"), 12, "overlap or hole");
  expect_st_refusal(two("[0,8]", "[12,20]"), 20, "overlap or hole");
  expect_st_refusal(two("[4,12]", "[12,20]"), 20, "overlap or hole");
  expect_st_refusal(two("[0,8]", "[8,16]"), 17, "1 bytes after the last tensor");
  expect_st_refusal(two("[0,8]", "[8,16]"), 15, "outside the 15 bytes");
  expect_st_refusal(two("[8,0]", "[8,16]"), 16, "outside");
  expect_st_refusal(two("[0,8]", "[8,9223372036854775807]"), 16, "outside");
  expect_st_refusal(two("[0,8]", "[8,18446744073709551615]"), 16, "too large");
  expect_st_refusal(two("[0,8]", "[8,18446744073709551617]"), 16, "too large");
}

TEST(SafetensorsTest, refuses_shapes_that_do_not_match_or_overflow) {
  const auto shaped = [](const std::string& shape) { return '{' + entry("t", "F32", shape, "[0,16]") + '}'; };
  EXPECT_EQ(read(safetensors(shaped("[2,2]"), 16)).tensors[0].elements, 4);
  expect_st_refusal(shaped("[2,3]"), 16, "needs 24 bytes");
  // 2^62 * 4 elements of 4 bytes wrap to 0 modulo 2^64; 2^32 * 2^32 does so in elements already.
  expect_st_refusal(shaped("[4611686018427387904,4]"), 16, "not representable");
  expect_st_refusal(shaped("[4294967296,4294967296]"), 16, "not representable");
  expect_st_refusal(shaped("[4611686018427387905]"), 16, "not representable");
  expect_st_refusal(shaped("[4294967296,4294967296,0]"), 16, "not representable");
  expect_st_refusal(shaped("[-1,-4]"), 16, "negative number");
  expect_st_refusal(shaped("[2.0,2]"), 16, "non-integer");
  expect_st_refusal(shaped("[1e0,4]"), 16, "non-integer");
  std::string deep = "[";
  for (int i = 0; i < 33; ++i) deep += i == 0 ? "1" : ",1";
  expect_st_refusal(shaped(deep + ']'), 16, "more than 32");
}

TEST(SafetensorsTest, refuses_headers_that_are_not_the_format) {
  const std::string good = entry("t", "F32", "[1]", "[0,4]");
  const std::pair<std::string, const char*> bad[] = {
      {"", "does not begin with '{'"},
      {" {" + good + '}', "does not begin with '{'"},
      {"[]", "does not begin with '{'"},
      {'{' + good, "not valid JSON"},
      {'{' + good + "}}", "not valid JSON"},
      {'{' + good + ",}", "not valid JSON"},
      {'{' + good + ',' + good + '}', "'t' occurs twice"},
      {R"({"__metadata__":{"a":"b","a":"c"}})", "'a' occurs twice"},
      {R"({"__metadata__":{"a":1}})", "a number"},
      {R"({"__metadata__":{"a":{"b":"c"}}})", "an object"},
      {R"({"__metadata__":{},"__metadata__":{}})", "occurs twice"},
      {R"({"__metadata__":null})", "a null"},
      {R"({"t":[]})", "an array"},
      {R"({"t":1})", "a number"},
      {R"({"t":{}})", "is missing"},
      {R"({"t":{"dtype":"F32","shape":[1]}})", "is missing"},
      {R"({"t":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "repeated field"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", "unexpected"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "not two numbers"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "not two numbers"},
      {R"({"t":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "an array"},
      {R"({"t":{"dtype":"F32","shape":{"x":1},"data_offsets":[0,4]}})", "an object"},
      {R"({"t":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", "an array"},
      {R"({"t":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}})", "a boolean"},
      {"{\"\xff\xfe\":1}", "not valid JSON"},
      {std::string("{\"a\0b\":1}", 9), "not valid JSON"},
  };
  for (const auto& [header, part] : bad) expect_st_refusal(header, 4, part);
}

TEST(SafetensorsTest, deep_nesting_is_refused_at_its_first_level) {
  std::string deep = R"({"t":)";
  for (int i = 0; i < 1'000'000; ++i) deep += '[';
  expect_st_refusal(deep, 0, "an array where the format has none");
  std::string objects = "{";
  for (int i = 0; i < 500'000; ++i) objects += R"("a":{)";
  expect_st_refusal(objects, 0, "unexpected");
}

TEST(SafetensorsTest, refuses_every_truncation) {
  const std::string file = safetensors('{' + entry("t", "F32", "[2,2]", "[0,16]") + '}', 16);
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(refusal([&] { read(file.substr(0, size)); }), "") << size;
  }
}

TEST(SafetensorsTest, refuses_huge_header_lengths) {
  for (const std::uint64_t length :
       {std::uint64_t{100'000'001}, UINT64_MAX, UINT64_MAX - 7, std::uint64_t{1} << 63}) {
    expect_refusal([&] { read(little_endian(length, 8) + "{}"); }, "more than 100000000");
  }
  expect_refusal([&] { read(little_endian(3, 8) + "{}"); }, "truncated");
}

TEST(SafetensorsTest, hostile_names_stay_one_harmless_line) {
  const std::string name(100'000, 'x');
  const std::string message =
      refusal([&] { read(safetensors('{' + entry(name + "\\u0007\\n", "F32", "[1]", "[0,3]") + '}', 3)); });
  EXPECT_LT(message.size(), 500u);
  expect_st_refusal('{' + entry("\\u001b[2J\\n", "F32", "[1]", "[0,3]") + '}', 3, "\\x1b[2J\\x0a");
}

}  // namespace
}  // namespace samebits::cli
