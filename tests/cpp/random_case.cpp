#include "random_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace samebits::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Largest finite value and smallest subnormal of a floating type.
double largest(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 65504;
    case DType::kBFloat16: return 0x1.fep127;
    case DType::kFloat32: return 0x1.fffffep127;
    default: return std::numeric_limits<double>::max();
  }
}
double smallest(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0x1p-24;
    case DType::kBFloat16: return 0x1p-133;
    case DType::kFloat32: return 0x1p-149;
    default: return 0x1p-1074;
  }
}

void set_raw(Values& values, std::int64_t index, std::uint64_t bits) {
  const auto size = static_cast<std::size_t>(dtype_size(values.dtype));
  std::memcpy(values.bytes.data() + static_cast<std::size_t>(index) * size, &bits, size);
}

// A NaN of either sign, quiet or signalling, with any payload.
std::uint64_t random_nan(Rng& rng, DType dtype) {
  const int width = static_cast<int>(8 * dtype_size(dtype));
  const int significand = dtype == DType::kFloat64   ? 52
                          : dtype == DType::kFloat32 ? 23
                          : dtype == DType::kFloat16 ? 10
                                                     : 7;
  const std::uint64_t payload =
      1 + static_cast<std::uint64_t>(rng.below((std::int64_t{1} << significand) - 1));
  const std::uint64_t exponent = ((1ull << (width - 1 - significand)) - 1) << significand;
  return ((rng.bits() & 1) << (width - 1)) | exponent | payload;
}

}  // namespace

void random_logits(Rng& rng, Values& x, std::int64_t begin, std::int64_t count) {
  const auto fill = [&](auto value) {
    for (std::int64_t i = begin; i < begin + count; ++i) set_element(x, i, value());
  };
  const auto any = [&] { return begin + rng.below(count); };
  const double top = rng.normal() * 10;
  switch (rng.below(18)) {
    case 0: fill([&] { return rng.normal(); }); break;
    case 1: fill([&] { return rng.normal() * 6; }); break;
    case 2: fill([&] { return rng.normal() * 30; }); break;
    case 3: fill([&] { return rng.normal() * 300; }); break;
    case 4: fill([&] { return top; }); break;                                      // all equal
    case 5: fill([&] { return top - static_cast<double>(rng.below(4)); }); break;  // many ties
    case 6:                                                                        // one far above the rest
      fill([&] { return rng.normal(); });
      set_element(x, any(), rng.pick({17.0, 100.0, 10000.0}));
      break;
    case 7:  // a mask: few columns are finite
      fill([&] { return rng.chance(20) ? rng.normal() : -kInfinity; });
      break;
    case 8: fill([&] { return -kInfinity; }); break;
    case 9:
      fill([&] { return -kInfinity; });
      set_element(x, any(), rng.normal());
      break;
    case 10:
      fill([&] { return rng.normal(); });
      set_raw(x, any(), random_nan(rng, x.dtype));
      break;
    case 11:
      fill([&] { return rng.normal(); });
      set_element(x, any(), kInfinity);
      if (rng.chance(3)) set_raw(x, any(), random_nan(rng, x.dtype));
      break;
    case 12: fill([&] { return smallest(x.dtype) * static_cast<double>(rng.between(-500, 500)); }); break;
    case 13: fill([&] { return largest(x.dtype) * (2 * rng.uniform() - 1); }); break;
    case 14: fill([&] { return rng.chance(2) ? 0.0 : -0.0; }); break;
    case 15:  // around the cut of e, where terms leave the sum
      fill([&] { return (x.dtype == DType::kFloat64 ? -708.39 : -87.3365) + rng.normal() * 0.05; });
      set_element(x, any(), 0);
      break;
    case 16: {  // terms just below half an ulp of the largest
      const double depth = rng.pick({16.6, 16.7, 17.33, 36.7, 37.5});
      fill([&] { return -depth - rng.uniform() * 0.2; });
      set_element(x, any(), 0);
      break;
    }
    default:  // raw bits, NaN and infinities seldom
      for (std::int64_t i = begin; i < begin + count; ++i) {
        set_raw(x, i, rng.bits());
        if (!std::isfinite(element_value(x, i)) && !rng.chance(200)) set_element(x, i, rng.normal());
      }
  }
}

LogpCase random_case(Rng& rng, std::int64_t max_vocab) {
  const bool large = rng.chance(40);
  std::int64_t vocab = rng.chance(3)
                           ? rng.pick<std::int64_t>({1, 2, 3, 31, 32, 33, 127, 128, 129, 255, 256, 257, 260})
                           : rng.between(1, 290);
  if (large) vocab = rng.between(290, max_vocab);
  LogpCase c = plain_case(rng.chance(25) ? 0 : rng.between(1, large ? 4 : 9), vocab,
                          rng.pick({DType::kFloat32, DType::kFloat32, DType::kBFloat16, DType::kBFloat16,
                                    DType::kFloat16, DType::kFloat16, DType::kFloat64}));
  if (rng.chance(8)) c.precision = Precision::kFloat64;
  if (rng.chance(3)) c.columns = vocab + rng.pick<std::int64_t>({1, 7, 64, 128, 300});
  c.logits = Values(c.logits.dtype, c.rows * c.columns);
  for (std::int64_t i = 0; i < c.rows * c.columns; ++i)
    set_raw(c.logits, i, rng.bits());  // padding is anything
  const bool same_rows = rng.chance(8);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    if (row > 0 && same_rows) {
      const std::int64_t bytes = c.columns * dtype_size(c.logits.dtype);
      std::memcpy(c.logits.bytes.data() + row * bytes, c.logits.bytes.data(),
                  static_cast<std::size_t>(bytes));
    } else {
      random_logits(rng, c.logits, row * c.columns, vocab);
    }
  }

  const bool bad_ids = rng.chance(3);
  for (std::int64_t& target : c.targets) {
    target = same_rows ? c.targets.front() : rng.below(vocab);
    if (bad_ids && rng.chance(3))
      target = rng.pick<std::int64_t>(
          {-1, -100, vocab, vocab + 1, vocab + 64, (std::int64_t{1} << 32) + rng.below(vocab),
           std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
           std::numeric_limits<std::int32_t>::min()});
  }
  if (rng.chance(4)) c.ignore_index = rng.pick<std::int64_t>({-100, -1, 0, rng.below(vocab), vocab});
  if (rng.chance(3)) c.on_invalid = OnInvalid::kNan;

  const auto tau = [&] {
    return rng.pick({1.0, 0.5, 0.6, 2.0, 1.3, 0.1 + rng.uniform() * 3, 0x1p-64, 0x1p64, 1e-3});
  };
  if (rng.chance(3)) c.temperature = tau();
  if (rng.chance(4)) {
    c.row_temperature = Values(rng.pick({DType::kFloat32, DType::kFloat64}), c.rows);
    for (std::int64_t row = 0; row < c.rows; ++row) set_element(c.row_temperature, row, tau());
  }
  if (rng.chance(4)) {
    c.selected.emplace();
    for (std::int64_t i = rng.below(c.rows + 3); i > 0; --i)
      c.selected->push_back(rng.chance(5)
                                ? rng.pick<std::int64_t>({-1, c.rows, c.rows + 64, std::int64_t{1} << 40})
                                : rng.below(c.rows + 1));
    c.keep_unselected = rng.chance(2);
  }

  const auto upstream = [&](Values& values) {
    values = Values(c.real(), c.rows);
    const bool unusual = rng.chance(6);
    for (std::int64_t row = 0; row < c.rows; ++row) {
      double value = rng.normal();
      if (unusual)
        value = rng.pick({0.0, -0.0, 1.0, kInfinity, -kInfinity, std::nan(""), 1e-40, 1e38, value});
      set_element(values, row, value);
    }
  };
  if (!rng.chance(6)) upstream(c.grad_logp);
  if (rng.chance(2)) upstream(c.grad_lse);
  if (rng.chance(3)) upstream(c.grad_entropy);
  return c;
}

Layout random_layout(Rng& rng, const LogpCase& c) {
  Layout layout;
  for (const std::int64_t a : {2, 3}) {
    if (c.rows > 0 && c.rows % a == 0 && rng.chance(2)) layout.leading = {a, c.rows / a};
  }
  if (c.rows == 8 && rng.chance(2)) layout.leading = {2, 2, 2};
  if (layout.leading.size() < 3 && rng.chance(6)) {
    if (layout.leading.empty()) layout.leading = {c.rows};
    layout.leading.insert(
        layout.leading.begin() + rng.below(static_cast<std::int64_t>(layout.leading.size()) + 1), 1);
  }
  if (c.rows == 1 && rng.chance(2)) layout.leading = {1};

  const auto placement = [&](std::int64_t plain_gap) {
    Placement p;
    for (std::size_t i = 0; i < layout.leading.size(); ++i) p.order.push_back(static_cast<int>(i));
    if (rng.chance(2)) std::reverse(p.order.begin(), p.order.end());
    if (rng.chance(3)) p.gap = plain_gap;
    p.reversed = rng.chance(4);
    p.offset = rng.chance(2) ? rng.between(0, 17) : 0;
    return p;
  };
  layout.logits = placement(rng.pick<std::int64_t>({1, 5, 64}));
  layout.grad = placement(rng.pick<std::int64_t>({1, 5, 64}));
  layout.per_row = placement(rng.pick<std::int64_t>({1, 2}));
  layout.outputs = placement(rng.pick<std::int64_t>({1, 2}));
  layout.logits.expanded = rng.chance(2);  // taken where the rows are equal
  layout.per_row.expanded = rng.chance(4);
  layout.narrow_ids = rng.chance(2);
  layout.narrow_rows = rng.chance(2);
  layout.workspace =
      rng.pick({Layout::Workspace::kNone, Layout::Workspace::kGiven, Layout::Workspace::kTooSmall});
  layout.with_entropy = rng.chance(2);
  layout.with_stats = rng.chance(2);
  return layout;
}

}  // namespace samebits::test
