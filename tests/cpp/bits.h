// Comparison on raw bits: signed zeros and NaN patterns included. Tolerances have no place here.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <samebits/dtype.h>

namespace samebits::test {

// A dense run of elements of one type: what a tensor holds, apart from how it lies in memory.
struct Values {
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes;

  Values() = default;
  Values(DType type, std::int64_t count, std::byte fill = std::byte{0})
      : dtype(type), bytes(static_cast<std::size_t>(count * dtype_size(type)), fill) {}

  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / dtype_size(dtype); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

// Whether a comparison may consist of NaN and infinities only. Elsewhere that means the test tests nothing.
enum class Finite { kSome, kPerhapsNone };

// Success when every bit is equal. The failure names the first index, both values in hex, and their distance in ulp.
::testing::AssertionResult same_bits(const Values& expected, const Values& actual,
                                     Finite finite = Finite::kSome);

// The exact binary64 value of an element of a floating type.
double element_value(const Values& values, std::int64_t index);

// "-0x1.8p+1 (c0400000)".
std::string element_text(const Values& values, std::int64_t index);

// Values that lie between two elements of a floating type, counted in steps of the type.
std::string ulp_distance(const Values& a, const Values& b, std::int64_t index);

}  // namespace samebits::test
