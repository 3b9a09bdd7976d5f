#include "recorded.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace samebits::test {
namespace {

Values take_values(const char*& data, DType dtype, std::int64_t count) {
  Values values(dtype, count);
  std::memcpy(values.bytes.data(), data, values.bytes.size());
  data += values.bytes.size();
  return values;
}

RecordedProduct read_product(const std::string& name) {
  const std::vector<char> file = recorded(name, "TC16");
  const char* at = file.data();
  const std::int64_t rows = take<std::uint32_t>(at), columns = take<std::uint32_t>(at);
  const std::int64_t depth = take<std::uint32_t>(at);
  const DType dtype = take<std::uint32_t>(at) != 0 ? DType::kFloat16 : DType::kBFloat16;
  const Values a = take_values(at, dtype, rows * depth), b = take_values(at, dtype, columns * depth);
  const Values out = take_values(at, DType::kFloat32, rows * columns);
  if (at != file.data() + file.size()) throw std::runtime_error(name + " has bytes left over");
  return {name, Matrix(a, rows, depth), Matrix(b, columns, depth), out};
}

}  // namespace

std::vector<char> recorded(const std::string& name, const std::string& magic) {
  // A test that was carried to another machine finds them from the root of a checkout.
  const std::string built = SAMEBITS_TEST_DATA;
  const std::string folder = std::filesystem::exists(built) ? built : "tests";
  std::ifstream file(folder + "/golden/" + name, std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  if (all.size() < 4 || std::string(all.data(), 4) != magic)
    throw std::runtime_error(folder + "/golden/" + name + " is not a record");
  return {all.begin() + 4, all.end()};
}

std::vector<RecordedProduct> recorded_products() {
  std::vector<RecordedProduct> products;
  for (const char* name : {"tc16_bf16_wide_exponents.bin", "tc16_fp16_wide_exponents.bin",
                           "tc16_bf16_inf_nan_zero.bin", "tc16_fp16_normal_k2688.bin"})
    products.push_back(read_product(name));
  return products;
}

}  // namespace samebits::test
