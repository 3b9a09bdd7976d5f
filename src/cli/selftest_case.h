// One logp call of the self-test, with everything it computes, as raw bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <samebits/logp.h>

namespace samebits::cli {

/// splitmix64: the same numbers everywhere, without a library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  /// 0 to limit - 1.
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(limit));
  }
  /// Within [-1, 1), a multiple of 2^-52.
  double signed_unit() { return static_cast<double>(static_cast<std::int64_t>(next()) >> 11) * 0x1p-52; }

 private:
  std::uint64_t state_;
};

struct SelftestCase {
  DType dtype = DType::kFloat32;
  std::int64_t rows = 1, columns = 1;
  std::vector<std::byte> logits;                          // [rows, columns]
  std::vector<std::int64_t> targets;                      // [rows]
  std::vector<double> grad_logp, grad_lse, grad_entropy;  // [rows], before rounding to the result type
  LogpOptions options;
  std::vector<double> row_temperature;  // [rows], or empty for the scalar of `options`
  std::vector<std::int64_t> selected;   // row list, when there is one
  bool has_selection = false;

  bool wide() const { return dtype == DType::kFloat64 || options.precision == Precision::kFloat64; }
  /// "bfloat16 [3, 1000]"
  std::string text() const;
};

/// Stores `value`, rounded toward zero, as element `index` of `data`.
void store_element(std::vector<std::byte>& data, DType dtype, std::int64_t index, double value);

/// "kFloat32", as the golden tables spell it.
const char* dtype_enumerator(DType dtype);

/// A random case: small and large rows, several families of logits (masks, infinities, NaN and raw bit patterns among
/// them), all options, invalid ids.
SelftestCase random_selftest_case(Random& random);

/// Forward results and the gradient, one vector of raw bytes per name in kSelftestOutputs.
using SelftestResult = std::vector<std::vector<std::byte>>;
inline constexpr const char* kSelftestOutputs[] = {
    "logp", "lse", "entropy", "row maximum", "row sum", "row entropy sum", "gradient"};

using SelftestForward = std::function<void(const ConstTensorView&, const ConstTensorView&, const LogpOptions&,
                                           const LogpOutputs&)>;
using SelftestBackward =
    std::function<void(const ConstTensorView&, const ConstTensorView&, const LogpOptions&, const LogpStats&,
                       const LogpUpstream&, const TensorView&)>;

/// Runs a case forward and then backward from its own statistics.
SelftestResult run_selftest_case(const SelftestCase& test, const SelftestForward& forward,
                                 const SelftestBackward& backward);

/// Bytes of one element of output `output` of a case.
std::size_t output_element_bytes(const SelftestCase& test, std::size_t output);

}  // namespace samebits::cli
