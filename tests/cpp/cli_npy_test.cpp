#include "cli/npy.h"

#include "cli_fixtures.h"

namespace samebits::cli {
namespace {

FileTensor read(const std::string& file) { return read_npy(as_file(file), "x.npy"); }

void expect_npy_refusal(const std::string& file, const std::string& part) {
  expect_refusal([&] { read(file); }, part);
  EXPECT_NE(refusal([&] { read(file); }).find("'x.npy'"), std::string::npos);
}

TEST(NpyTest, reads_every_version_and_element_type) {
  const std::pair<const char*, ElementType> types[] = {{"<f2", ElementType::kF16},
                                                       {"<f4", ElementType::kF32},
                                                       {"<f8", ElementType::kF64},
                                                       {"<i4", ElementType::kI32},
                                                       {"<i8", ElementType::kI64}};
  for (int version = 1; version <= 3; ++version) {
    for (const auto& [descr, type] : types) {
      const std::string header =
          std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (3, 5), }     \n";
      const std::string file = npy(header, static_cast<std::size_t>(15 * element_bits(type) / 8), version);
      const FileTensor tensor = read(file);
      EXPECT_EQ(tensor.type, type);
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{3, 5}));
      EXPECT_EQ(tensor.elements, 15);
      EXPECT_EQ(tensor.data.data() + tensor.data.size(), as_file(file).data() + file.size());
    }
  }
}

TEST(NpyTest, reads_scalars_vectors_and_empty_arrays) {
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4)).elements, 1);
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", 28)).elements, 7);
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }", 0)).elements, 0);
  // NumPy says True for a one-dimensional array that is both; the bytes are the same.
  EXPECT_EQ(read(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8)).elements, 2);
}

TEST(NpyTest, accepts_any_key_order_and_spacing) {
  const FileTensor tensor = read(npy("{\"shape\":(2,2),\"descr\":\"<i8\",'fortran_order':False}", 32));
  EXPECT_EQ(tensor.type, ElementType::kI64);
}

TEST(NpyTest, refuses_what_it_cannot_compute_on) {
  const auto with = [](const std::string& descr) {
    return npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (2, 2), }", 16);
  };
  expect_npy_refusal(with("'>f4'"), "big-endian");
  expect_npy_refusal(with("'|O'"), "Python objects");
  expect_npy_refusal(with("'<V2'"), "bfloat16");
  expect_npy_refusal(with("'<c8'"), "<f2, <f4, <f8, <i4 or <i8");
  expect_npy_refusal(with("[('a', '<f4')]"), "structured");
  expect_npy_refusal(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16), "Fortran");
}

TEST(NpyTest, refuses_malformed_headers) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  const char* bad[] = {
      "",
      "{",
      "}",
      "{}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'extra': 1, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2) }x",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 2], }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2",
      "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 1), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999, 999999999999999999), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999, 999999999999999999, 0), }",
  };
  for (const char* header : bad) {
    EXPECT_NE(refusal([&] { read(npy(header, 16)); }), "") << header;
  }
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 100; ++i) deep += "1, ";
  expect_npy_refusal(npy(deep + "), }", 4), "more than 32 dimensions");
  EXPECT_EQ(read(npy(good, 16)).elements, 4);
}

TEST(NpyTest, refuses_every_truncation_and_every_extension) {
  const std::string file = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 16);
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(refusal([&] { read(file.substr(0, size)); }), "") << size;
  }
  EXPECT_NE(refusal([&] { read(file + "x"); }), "");
}

TEST(NpyTest, refuses_huge_header_lengths_and_unknown_versions) {
  const std::string magic = std::string("\x93NUMPY") + '\2' + '\0';
  expect_npy_refusal(magic + little_endian(0xffffffff, 4) + "{}", "more than 65536");
  expect_npy_refusal(magic + little_endian(65536, 4) + "{}", "truncated");
  expect_npy_refusal(std::string("\x93NUMPY") + '\4' + '\0' + "    ", "version 4.0");
  expect_npy_refusal(std::string("\x93NUMPY") + '\1' + '\1' + "    ", "version 1.1");
  expect_npy_refusal("NUMPY", "magic");
}

TEST(NpyTest, a_hostile_name_stays_one_harmless_line) {
  const std::string hostile = npy("{'descr': '\x1b[2J\n<f4', 'fortran_order': False, 'shape': (), }", 4);
  expect_npy_refusal(hostile, "\\x1b[2J\\x0a<f4");
}

}  // namespace
}  // namespace samebits::cli
