#include "cuda/probe_cases.h"

#include <algorithm>

#include "order/fp_env.h"
#include "order/tc16.h"

namespace samebits::cuda {
namespace {

using Bits = std::uint16_t;

// SplitMix64: numbers that are the same on every machine.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int count) { return static_cast<int>(next() % static_cast<std::uint64_t>(count)); }

 private:
  std::uint64_t state_;
};

// How the patterns of a 16-bit type are cut.
struct Format {
  int fraction, most_exponent;  // bits; the field of infinities and NaN
  int bias() const { return most_exponent / 2; }
};
constexpr Format format_of(DType dtype) { return dtype == DType::kFloat16 ? Format{10, 31} : Format{7, 255}; }

Bits pattern(Numbers& numbers, const Format& format, int exponent) {
  const std::uint64_t random = numbers.next();
  const auto fraction = static_cast<unsigned>(random) & ((1u << format.fraction) - 1u);
  const auto field = static_cast<unsigned>(std::clamp(exponent, 0, format.most_exponent - 1));
  return static_cast<Bits>((random >> 63 << 15) | (field << format.fraction) | fraction);
}

using Fill = void (*)(Numbers&, const Format&, ProbeCase&);

// Magnitudes around 1; of one sign, their sums drift under truncation.
void fill_normal(Numbers& numbers, const Format& format, ProbeCase& c) {
  for (auto* operand : {&c.a, &c.b})
    for (Bits& bits : *operand) bits = pattern(numbers, format, format.bias() - numbers.below(4));
}
void fill_one_sign(Numbers& numbers, const Format& format, ProbeCase& c) {
  fill_normal(numbers, format, c);
  for (auto* operand : {&c.a, &c.b})
    for (Bits& bits : *operand) bits &= 0x7fffu;
}

// Any finite pattern: overflow, and terms far apart.
void fill_wide(Numbers& numbers, const Format& format, ProbeCase& c) {
  for (auto* operand : {&c.a, &c.b})
    for (Bits& bits : *operand) bits = pattern(numbers, format, numbers.below(format.most_exponent));
}

// Products around the smallest results, operands that are subnormal.
void fill_subnormal(Numbers& numbers, const Format& format, ProbeCase& c) {
  const int span = format.most_exponent == 255 ? 40 : 4;
  for (Bits& bits : c.a) bits = pattern(numbers, format, numbers.below(span));
  const int centre = format.most_exponent == 255 ? 254 - 150 : 0;  // 2^-149 is such a product
  for (Bits& bits : c.b) bits = pattern(numbers, format, centre + numbers.below(span) - span / 2);
}

// A few infinities, NaN and zeros of both signs among numbers around 1.
void fill_special(Numbers& numbers, const Format& format, ProbeCase& c) {
  fill_normal(numbers, format, c);
  const auto infinity = static_cast<Bits>(format.most_exponent << format.fraction);
  const Bits choices[] = {infinity,
                          static_cast<Bits>(infinity | 0x8000u),
                          static_cast<Bits>(infinity | 1u),
                          0,
                          0x8000u,
                          0,
                          0x8000u,
                          0};
  for (auto* operand : {&c.a, &c.b})
    for (Bits& bits : *operand)
      if (numbers.below(100) == 0) bits = choices[numbers.below(8)];
}

// Every second product undoes the one before, but for the last bits of one operand.
void fill_cancelling(Numbers& numbers, const Format& format, ProbeCase& c) {
  const int spread = std::min(format.most_exponent - 2, 24);
  for (auto* operand : {&c.a, &c.b})
    for (std::size_t i = 0; i < operand->size(); i += 2) {
      (*operand)[i] = pattern(numbers, format, format.bias() + numbers.below(spread) - spread / 2);
      (*operand)[i + 1] = static_cast<Bits>((*operand)[i] ^ (operand == &c.a ? 0x8000u : numbers.below(2)));
    }
}

struct Family {
  const char* name;
  int rows, columns, depth;
  Fill fill;
};
constexpr Family kFamilies[] = {
    {"normal", 32, 32, 128, fill_normal},           {"wide exponents", 32, 32, 128, fill_wide},
    {"subnormal", 32, 32, 128, fill_subnormal},     {"inf, nan and zero", 32, 32, 64, fill_special},
    {"cancellation", 32, 32, 128, fill_cancelling}, {"long chains", 16, 8, 2688, fill_one_sign},
};

template <class T>
void compute(ProbeCase& c) {
  for (int i = 0; i < c.rows; ++i)
    for (int j = 0; j < c.columns; ++j) {
      float acc = 0;
      for (int k = 0; k < c.depth; k += order::Tc16::kGroup) {
        T x[order::Tc16::kGroup], y[order::Tc16::kGroup];
        for (int g = 0; g < order::Tc16::kGroup; ++g) {
          x[g].bits = c.a[static_cast<std::size_t>(i * c.depth + k + g)];
          y[g].bits = c.b[static_cast<std::size_t>(j * c.depth + k + g)];
        }
        acc = order::tc16_step(acc, x, y);
      }
      c.expected.push_back(order::bits_to<std::uint32_t>(acc));
    }
}

std::vector<ProbeCase> make_cases() {
  const order::FpEnvGuard guard;
  std::vector<ProbeCase> cases;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const Family& family : kFamilies) {
      ProbeCase c{family.name, dtype, family.rows, family.columns, family.depth, {}, {}, {}};
      c.a.resize(static_cast<std::size_t>(c.rows * c.depth));
      c.b.resize(static_cast<std::size_t>(c.columns * c.depth));
      Numbers numbers(cases.size() + 1);
      family.fill(numbers, format_of(dtype), c);
      dtype == DType::kFloat16 ? compute<order::Float16>(c) : compute<order::BFloat16>(c);
      cases.push_back(std::move(c));
    }
  return cases;
}

}  // namespace

const std::vector<ProbeCase>& probe_cases() {
  static const std::vector<ProbeCase> cases = make_cases();
  return cases;
}

}  // namespace samebits::cuda
