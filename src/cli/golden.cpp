#include "cli/golden.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "cli/digest.h"

namespace samebits::cli {
namespace {

// Recorded from the scalar twin by `samebits selftest --print-golden`.
constexpr Golden kGolden[] = {
    {DType::kFloat32, 1, 1.0, 0x0, 0xc1000000, 0x0, 0x9b74d54d5819ff2f},
    {DType::kFloat32, 129, 1.0, 0xc10c8fc7, 0x411f8fc7, 0x40454ec5, 0x0f79dc2f3ec603f3},
    {DType::kFloat32, 1000, 0.7, 0xc1032fc5, 0x41729d7c, 0x4098e4d7, 0xa56368bc7db007e4},
    {DType::kFloat32, 32001, 1.3, 0xc152cf8a, 0x415fe33b, 0x410dd008, 0x484519ce3f789766},
    {DType::kBFloat16, 129, 1.0, 0xc10c8fc7, 0x411f8fc7, 0x40454ec5, 0xeda583aa44f6c9f8},
    {DType::kBFloat16, 32001, 0.7, 0xc188e142, 0x419505d4, 0x4103e996, 0xbf8b72de5ab17094},
    {DType::kFloat16, 129, 1.0, 0xc10c8fc7, 0x411f8fc7, 0x40454ec5, 0x086863bba13c9a98},
    {DType::kFloat16, 32001, 0.7, 0xc188e142, 0x419505d4, 0x4103e996, 0x726d3335dff23ca2},
    {DType::kFloat64, 1, 1.0, 0x0, 0xc020000000000000, 0x0, 0x418d5030e726d8b4},
    {DType::kFloat64, 129, 1.0, 0xc02191f8e7d246b6, 0x4023f1f8e7d246b6, 0x4008a9d89b6ea4d6,
     0x2d19f2967b62824f},
    {DType::kFloat64, 32001, 0.7, 0xc0311c28388cb0b3, 0x4032a0ba81b142fc, 0x40207d32b656833d,
     0xe97e471dd8333018},
};

std::uint64_t load(const std::vector<std::byte>& bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

}  // namespace

std::span<const Golden> golden_vectors() { return kGolden; }

SelftestCase golden_case(const Golden& golden) {
  SelftestCase test;
  test.dtype = golden.dtype;
  test.columns = golden.vocab;
  test.logits.resize(static_cast<std::size_t>(golden.vocab * dtype_size(golden.dtype)));
  for (std::int64_t i = 0; i < golden.vocab; ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761 + golden.vocab);
    store_element(test.logits, golden.dtype, i, (mixed >> 24) / 16.0 - 8);
  }
  test.targets = {golden.vocab / 3};
  test.grad_logp = {1};
  test.grad_lse = {0.5};
  test.grad_entropy = {-0.25};
  test.options.temperature = golden.temperature;
  return test;
}

Golden golden_of(const Golden& golden, const SelftestResult& result) {
  return {golden.dtype,    golden.vocab,    golden.temperature,   load(result[0]),
          load(result[1]), load(result[2]), row_digest(result[6])};
}

std::string golden_text(const Golden& golden) {
  char text[200];
  std::snprintf(text, sizeof text,
                "{DType::%s, %" PRId64 ", %.1f, 0x%" PRIx64 ", 0x%" PRIx64 ", 0x%" PRIx64 ", 0x%016" PRIx64
                "},",
                dtype_enumerator(golden.dtype), golden.vocab, golden.temperature, golden.logp, golden.lse,
                golden.entropy, golden.gradient);
  return text;
}

}  // namespace samebits::cli
