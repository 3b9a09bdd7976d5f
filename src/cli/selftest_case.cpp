#include "cli/selftest_case.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace samebits::cli {
namespace {

// fp16 by hand, toward zero; subnormals become zero. Enough for test data.
std::uint16_t half_bits(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  if (std::isnan(value)) return 0x7e00;
  if (exponent >= 31) return sign | 0x7c00;
  if (exponent <= 0) return sign;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

// A logit of one of the families; `family` is fixed for a row.
double random_logit(Random& random, std::int64_t family) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double unit = random.signed_unit();
  switch (family) {
    case 0: return unit;
    case 1: return unit * 8;
    case 2: return unit * 100;
    case 3: return std::floor(unit * 4);                       // ties
    case 4: return random.below(10) == 0 ? unit : -kInfinity;  // a masked row
    case 5: return unit * 60000;
    case 6: return random.below(500) == 0 ? (unit < 0 ? std::nan("") : kInfinity) : unit;
    default: return -87.0 + unit;  // beside a maximum of 0, at the cut
  }
}

std::int64_t random_width(Random& random) {
  constexpr std::int64_t kWidths[] = {1, 2, 31, 33, 127, 128, 129, 255, 257, 1000};
  if (random.below(40) == 0) return 32001;
  return random.below(2) == 0 ? kWidths[random.below(std::size(kWidths))] : 1 + random.below(700);
}

template <class Real>
std::vector<std::byte> rounded(const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(Real));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Real value = static_cast<Real>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(Real), &value, sizeof(Real));
  }
  return bytes;
}

}  // namespace

std::string SelftestCase::text() const {
  return std::string(dtype_name(dtype)) + " [" + std::to_string(rows) + ", " + std::to_string(columns) + "]" +
         (wide() ? " under row64.v1" : "");
}

void store_element(std::vector<std::byte>& data, DType dtype, std::int64_t index, double value) {
  std::byte* at = data.data() + index * dtype_size(dtype);
  const float single = static_cast<float>(value);
  const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16);
  const std::uint16_t half = half_bits(value);
  switch (dtype) {
    case DType::kFloat64: std::memcpy(at, &value, 8); break;
    case DType::kFloat32: std::memcpy(at, &single, 4); break;
    case DType::kBFloat16: std::memcpy(at, &upper, 2); break;
    default: std::memcpy(at, &half, 2); break;
  }
}

const char* dtype_enumerator(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "kFloat32";
    case DType::kBFloat16: return "kBFloat16";
    case DType::kFloat16: return "kFloat16";
    default: return "kFloat64";
  }
}

SelftestCase random_selftest_case(Random& random) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64};
  SelftestCase test;
  test.dtype = kTypes[random.below(4)];
  test.rows = 1 + random.below(4);
  test.columns = random_width(random);
  test.logits.resize(static_cast<std::size_t>(test.rows * test.columns * dtype_size(test.dtype)));
  if (random.below(8) == 0) {
    for (std::byte& byte : test.logits) byte = static_cast<std::byte>(random.next());  // raw patterns
  } else {
    for (std::int64_t row = 0; row < test.rows; ++row) {
      const std::int64_t family = random.below(8);
      for (std::int64_t i = 0; i < test.columns; ++i) {
        store_element(test.logits, test.dtype, row * test.columns + i, random_logit(random, family));
      }
      if (family == 7) store_element(test.logits, test.dtype, row * test.columns, 0);
    }
  }
  if (random.below(3) == 0) test.options.vocab_size = 1 + random.below(test.columns);
  const std::int64_t vocab = test.options.vocab_size.value_or(test.columns);
  for (std::int64_t row = 0; row < test.rows; ++row) {
    test.targets.push_back(random.below(8) == 0 ? -1 - random.below(100) : random.below(vocab));
    test.grad_logp.push_back(random.signed_unit() * 2);
    test.grad_lse.push_back(random.signed_unit());
    test.grad_entropy.push_back(random.below(2) == 0 ? 0 : random.signed_unit());
  }
  constexpr double kTemperatures[] = {1, 1, 0.7, 2.5, 1e-3, 1e6};
  test.options.temperature = kTemperatures[random.below(std::size(kTemperatures))];
  if (random.below(4) == 0) {
    for (std::int64_t row = 0; row < test.rows; ++row)
      test.row_temperature.push_back(0.25 + std::abs(random.signed_unit()));
  }
  if (random.below(4) == 0) {
    for (std::int64_t i = random.below(4); i > 0; --i)
      test.selected.emplace_back(random.below(test.rows + 2) - 1);
    test.has_selection = true;
  }
  if (random.below(4) == 0) test.options.ignore_index = test.targets[0];
  test.options.on_invalid = random.below(2) == 0 ? OnInvalid::kZero : OnInvalid::kNan;
  test.options.precision = random.below(6) == 0 ? Precision::kFloat64 : Precision::kFromLogits;
  return test;
}

SelftestResult run_selftest_case(const SelftestCase& test, const SelftestForward& forward,
                                 const SelftestBackward& backward) {
  const DType real = test.wide() ? DType::kFloat64 : DType::kFloat32;
  const std::int64_t words = test.wide() ? 2 : 1;
  SelftestResult result(std::size(kSelftestOutputs));
  const auto view = [&](std::size_t output, DType dtype, std::int64_t per_row) {
    result[output].resize(static_cast<std::size_t>(test.rows * per_row * dtype_size(dtype)));
    if (per_row == 1) return TensorView(result[output].data(), dtype, {test.rows});
    return TensorView(result[output].data(), dtype, {test.rows, per_row});
  };
  LogpOutputs outputs;
  outputs.logp = view(0, real, 1);
  outputs.lse = view(1, real, 1);
  outputs.entropy = view(2, real, 1);
  outputs.row_max = view(3, real, 1);
  outputs.row_sum = view(4, DType::kInt64, words);
  outputs.row_entropy_sum = view(5, DType::kInt64, words);
  result[6].resize(test.logits.size());
  const TensorView gradient(result[6].data(), test.dtype, {test.rows, test.columns});

  const ConstTensorView logits(test.logits.data(), test.dtype, {test.rows, test.columns});
  const ConstTensorView targets(test.targets.data(), DType::kInt64, {test.rows});
  const auto upstream = [&](const std::vector<double>& values) {
    return test.wide() ? rounded<double>(values) : rounded<float>(values);
  };
  const std::vector<std::byte> g = upstream(test.grad_logp), h = upstream(test.grad_lse),
                               e = upstream(test.grad_entropy);
  LogpOptions options = test.options;
  if (!test.row_temperature.empty()) {
    options.row_temperature = ConstTensorView(test.row_temperature.data(), DType::kFloat64, {test.rows});
  }
  if (test.has_selection) {
    options.rows = ConstTensorView(test.selected.data(), DType::kInt64,
                                   {static_cast<std::int64_t>(test.selected.size())});
  }
  forward(logits, targets, options, outputs);
  backward(logits, targets, options, {outputs.row_max, outputs.row_sum, outputs.row_entropy_sum},
           {ConstTensorView(g.data(), real, {test.rows}), ConstTensorView(h.data(), real, {test.rows}),
            ConstTensorView(e.data(), real, {test.rows})},
           gradient);
  return result;
}

std::size_t output_element_bytes(const SelftestCase& test, std::size_t output) {
  if (output == 6) return static_cast<std::size_t>(dtype_size(test.dtype));
  return test.wide() || output == 4 || output == 5 ? 8 : 4;
}

}  // namespace samebits::cli
