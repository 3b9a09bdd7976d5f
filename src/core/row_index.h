// From a flat row number to an element offset, for any leading shape and any strides.
#pragma once

#include <array>
#include <cstdint>

#include <samebits/view.h>

#include "order/config.h"

namespace samebits::core {

// The leading dimensions of a view, with neighbours that step evenly merged: nearly always one is left.
struct RowIndex {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape = {};
  std::array<std::int64_t, kMaxRank> strides = {};

  // The first `leading` dimensions of `view`.
  template <class Void>
  static RowIndex of(const BasicTensorView<Void>& view, int leading) {
    RowIndex index;
    for (int i = 0; i < leading; ++i) {
      if (view.shape[i] == 1) continue;
      const bool merges = index.rank > 0 && index.strides[index.rank - 1] == view.strides[i] * view.shape[i];
      if (merges) {
        index.shape[index.rank - 1] *= view.shape[i];
        index.strides[index.rank - 1] = view.strides[i];
      } else {
        index.shape[index.rank] = view.shape[i];
        index.strides[index.rank++] = view.strides[i];
      }
    }
    return index;
  }

  SAMEBITS_HD std::int64_t offset(std::int64_t row) const {
    if (rank <= 1) return rank == 0 ? 0 : row * strides[0];
    std::int64_t sum = 0;
    SAMEBITS_ROLLED
    for (int i = rank - 1; i >= 0; --i) {
      sum += (row % shape[i]) * strides[i];
      row /= shape[i];
    }
    return sum;
  }
};

// A one-value-per-row array of any of the types a caller may pass; absent when data is null.
template <class Void>
struct RowArray {
  Void* data = nullptr;
  DType dtype = DType::kFloat32;
  RowIndex index = {};

  SAMEBITS_HD explicit operator bool() const { return data != nullptr; }

  template <class T>
  SAMEBITS_HD auto* at(std::int64_t row) const {
    using Pointer = std::conditional_t<std::is_const_v<Void>, const T, T>;
    return static_cast<Pointer*>(data) + index.offset(row);
  }
};

}  // namespace samebits::core
