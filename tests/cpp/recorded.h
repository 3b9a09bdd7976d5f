// Products and steps that a tensor core computed, as tests/golden holds them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "matmul_case.h"

namespace samebits::test {

// The next number of recorded bytes.
template <class T>
T take(const char*& data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  data += sizeof value;
  return value;
}

// The bytes of a recorded file behind its magic of four letters.
std::vector<char> recorded(const std::string& name, const std::string& magic);

// out = a @ b, b seen as the transpose of its rows.
struct RecordedProduct {
  std::string name;
  Matrix a, rows_of_b;
  Values out;  // float32
};
std::vector<RecordedProduct> recorded_products();

}  // namespace samebits::test
