// tc16.v1 against what a tensor core computed: products recorded on a GPU, and single steps with any accumulator.
#include <gtest/gtest.h>

#include "cpu/tc16_kernels.h"
#include "matmul_case.h"
#include "order/fp_env.h"
#include "order/tc16.h"
#include "recorded.h"
#include "ref/tc16.h"
#include "run_case.h"

namespace samebits::test {
namespace {

class Tc16Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Tc16Golden, recorded_products_of_a_gpu) {
  for (const RecordedProduct& c : recorded_products()) {
    SCOPED_TRACE(c.name);
    const ConstTensorView a = c.a.view(), b = c.rows_of_b.transposed();
    EXPECT_TRUE(same_bits(c.out, twin_product(a, b, DType::kFloat32, {}, "tc16")));
    EXPECT_TRUE(same_bits(c.out, product(a, b, DType::kFloat32, GetParam(), 2, {}, "tc16")));
  }
}

struct Step {
  DType dtype;
  std::uint32_t acc;
  std::uint16_t a[16], b[16];
  std::uint32_t result;
};

std::vector<Step> recorded_steps() {
  const std::vector<char> file = recorded("tc16_steps.bin", "TCS1");
  const char* at = file.data();
  std::vector<Step> steps(take<std::uint32_t>(at));
  for (Step& step : steps) {
    step.dtype = take<std::uint32_t>(at) != 0 ? DType::kFloat16 : DType::kBFloat16;
    step.acc = take<std::uint32_t>(at);
    for (std::uint16_t& value : step.a) value = take<std::uint16_t>(at);
    for (std::uint16_t& value : step.b) value = take<std::uint16_t>(at);
    step.result = take<std::uint32_t>(at);
  }
  EXPECT_EQ(at, file.data() + file.size());
  EXPECT_GE(steps.size(), 4096u);
  return steps;
}

template <class T>
float step_of_order(const Step& step) {
  T a[16], b[16];
  for (int k = 0; k < 16; ++k) {
    a[k].bits = step.a[k];
    b[k].bits = step.b[k];
  }
  return order::tc16_step(order::bits_to<float>(step.acc), a, b);
}

float step_of_twin(const Step& step) {
  ref::Tc16Number a[16], b[16];
  for (int k = 0; k < 16; ++k) {
    a[k] = ref::tc16_number(step.dtype, step.a[k]);
    b[k] = ref::tc16_number(step.dtype, step.b[k]);
  }
  return ref::tc16_step(order::bits_to<float>(step.acc), a, b);
}

TEST(Tc16Steps, recorded_steps_of_a_gpu) {
  std::size_t index = 0;
  for (const Step& step : recorded_steps()) {
    SCOPED_TRACE("step " + std::to_string(index++));
    const float of_order = step.dtype == DType::kFloat16 ? step_of_order<order::Float16>(step)
                                                         : step_of_order<order::BFloat16>(step);
    ASSERT_EQ(order::bits_to<std::uint32_t>(of_order), step.result);
    ASSERT_EQ(order::bits_to<std::uint32_t>(step_of_twin(step)), step.result);
  }
}

cpu::Isa isa_of(const std::string& backend) {
  if (backend == "avx512") return cpu::Isa::kAvx512;
  if (backend == "avx2") return cpu::Isa::kAvx2;
  return backend == "neon" ? cpu::Isa::kNeon : cpu::Isa::kScalar;
}

// One row against a panel whose columns are all the same, from the accumulator that was recorded.
TEST_P(Tc16Golden, recorded_steps_through_the_kernels) {
  const cpu::Tc16Kernels& kernels = *cpu::tc16_kernels(isa_of(GetParam()));
  const int panel = kernels.panel_columns;
  std::vector<std::uint32_t> words(8 * panel), exponents(8 * panel);
  std::vector<float> significands(16 * panel), acc(panel);
  float row_significands[16];
  std::uint32_t row_exponents[16];
  const order::FpEnvGuard guard;
  for (const Step& step : recorded_steps()) {
    const int format = step.dtype == DType::kFloat16;
    for (int i = 0; i < 8 * panel; ++i) {
      const int k = 2 * (i / panel);
      words[i] = step.b[k] | static_cast<std::uint32_t>(step.b[k + 1]) << 16;
    }
    kernels.unpack_panel[format](words.data(), 8, significands.data(), exponents.data());
    kernels.unpack_row[format](step.a, 16, row_significands, row_exponents);
    std::fill(acc.begin(), acc.end(), order::bits_to<float>(step.acc));
    kernels.tile[1](1, row_significands, row_exponents, significands.data(), exponents.data(), acc.data(),
                    panel, false);
    for (const float value : acc) ASSERT_EQ(order::bits_to<std::uint32_t>(value), step.result);
  }
}

// Random patterns of every kind: the step of src/order is the twin's.
TEST(Tc16Steps, the_step_of_order_is_the_twins) {
  Rng rng(16);
  for (int i = 0; i < 100000; ++i) {
    Step step{};
    step.dtype = rng.chance(2) ? DType::kFloat16 : DType::kBFloat16;
    const int family = static_cast<int>(rng.below(4));
    step.acc = static_cast<std::uint32_t>(rng.bits());
    if (family == 0) step.acc = 0;
    if (family == 1) step.acc &= 0x80ffffffu;  // subnormal, or hardly normal
    for (int k = 0; k < 16; ++k) {
      step.a[k] = static_cast<std::uint16_t>(rng.bits());
      step.b[k] = static_cast<std::uint16_t>(rng.bits());
      if (family == 1 && step.dtype == DType::kBFloat16) {  // products around the smallest results
        const std::int64_t exponent = rng.between(1, 100),
                           other = rng.between(254 - 165, 254 - 128) - exponent;
        step.a[k] = static_cast<std::uint16_t>((step.a[k] & 0x807f) | (exponent << 7));
        step.b[k] =
            static_cast<std::uint16_t>((step.b[k] & 0x807f) | (std::max<std::int64_t>(other, 0) << 7));
      }
      if (family == 2) step.b[k] = static_cast<std::uint16_t>(step.b[k] & 0xbfffu);  // finite
      if (family == 2) step.a[k] = static_cast<std::uint16_t>(step.a[k] & 0xbfffu);
      if (rng.chance(8)) step.a[k] &= 0x8000u;
    }
    if ((step.acc & 0x7fffffffu) > 0x7f800000u) step.acc = 0x7fffffffu;
    if (step.acc == 0x80000000u) step.acc = 0;
    const float of_order = step.dtype == DType::kFloat16 ? step_of_order<order::Float16>(step)
                                                         : step_of_order<order::BFloat16>(step);
    ASSERT_EQ(order::bits_to<std::uint32_t>(of_order), order::bits_to<std::uint32_t>(step_of_twin(step)))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(backends, Tc16Golden, ::testing::ValuesIn(available_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace samebits::test
