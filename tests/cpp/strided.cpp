#include "strided.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace samebits::test {

Strided::Strided(DType dtype, const std::vector<std::int64_t>& leading, std::int64_t inner,
                 const Placement& placement)
    : dtype_(dtype), leading_(leading), strides_(leading.size(), 0), inner_(inner) {
  const std::int64_t elements = inner < 0 ? 1 : inner;
  row_bytes_ = elements * dtype_size(dtype);
  for (const std::int64_t extent : leading) rows_ *= extent;

  std::vector<int> order = placement.order;
  if (order.size() != leading.size()) {
    order.resize(leading.size());
    std::iota(order.begin(), order.end(), 0);
  }
  std::int64_t step = elements + placement.gap;
  for (auto dimension = order.rbegin(); dimension != order.rend(); ++dimension) {
    strides_[*dimension] = placement.expanded ? 0 : step;
    if (!placement.expanded) step *= std::max<std::int64_t>(leading[*dimension], 1);
  }
  std::int64_t first = placement.offset;
  if (placement.reversed && !placement.expanded && !order.empty()) {
    const int fastest = order.back();
    first += strides_[fastest] * std::max<std::int64_t>(leading[fastest] - 1, 0);
    strides_[fastest] = -strides_[fastest];
  }

  // Room to find a 64-byte boundary, and a margin at the end.
  storage_.assign(static_cast<std::size_t>((step + placement.offset) * dtype_size(dtype)) + 192, kFill);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  base_ = static_cast<std::int64_t>((64 - address % 64) % 64) + first * dtype_size(dtype);
  snapshot_ = storage_;
}

std::int64_t Strided::byte_of(std::int64_t row) const {
  std::int64_t element = 0;
  for (std::size_t i = leading_.size(); i-- > 0;) {
    element += row % leading_[i] * strides_[i];
    row /= leading_[i];
  }
  return base_ + element * dtype_size(dtype_);
}

void Strided::scatter(const Values& dense) {
  for (std::int64_t row = 0; row < rows_; ++row)
    std::copy_n(dense.bytes.data() + row * row_bytes_, row_bytes_, storage_.data() + byte_of(row));
  snapshot_ = storage_;
}

Values Strided::gather() const {
  Values dense(dtype_, rows_ * row_bytes_ / dtype_size(dtype_));
  for (std::int64_t row = 0; row < rows_; ++row)
    std::copy_n(storage_.data() + byte_of(row), row_bytes_, dense.bytes.data() + row * row_bytes_);
  return dense;
}

TensorView Strided::view() {
  std::vector<std::int64_t> shape = leading_, strides = strides_;
  if (inner_ >= 0) {
    shape.push_back(inner_);
    strides.push_back(1);
  }
  return {storage_.data() + base_, dtype_, std::span<const std::int64_t>(shape),
          std::span<const std::int64_t>(strides)};
}

bool Strided::gaps_are_untouched() const {
  std::vector<std::byte> gaps = storage_;
  for (std::int64_t row = 0; row < rows_; ++row)
    std::memcpy(gaps.data() + byte_of(row), snapshot_.data() + byte_of(row),
                static_cast<std::size_t>(row_bytes_));
  return gaps == snapshot_;
}

}  // namespace samebits::test
