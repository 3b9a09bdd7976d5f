// row_sum: block sums in the lanes of step 4, combined by a balanced binary tree over the block index; and the
// scale of probabilities. CONTRACT section 1, end.
#pragma once

#include "order/row.h"

namespace samebits::order {

// The sum of a block of `columns` <= 128 values; a missing column is +0.
template <class Real>
SAMEBITS_HD constexpr Real block_sum(const Real* values, int columns) {
  Real lane[kLanes] = {};
  for (int i = 0; i < columns; ++i) lane[i % kLanes] = lane[i % kLanes] + values[i];
  return combine_lanes(lane);
}

// The balanced tree (pairs 2i, 2i + 1), fed its leaves in order. It holds one sum per level: those of the subtrees
// that are complete. The leaves may be subtrees themselves, all of one height. A missing leaf is +0, and adding it
// changes nothing: sums start from +0, so none is -0.
template <class Real>
class TreeSum {
 public:
  SAMEBITS_HD constexpr void add(Real leaf) {
    int level = 0;
    for (std::uint32_t n = count_; n & 1u; n >>= 1) leaf = partial_[level++] + leaf;
    partial_[level] = leaf;
    ++count_;
  }

  SAMEBITS_HD constexpr Real total() const {
    Real sum = 0;
    int level = 0;
    for (std::uint32_t n = count_; n != 0; n >>= 1, ++level)
      if (n & 1u) sum = partial_[level] + sum;
    return sum;
  }

 private:
  static constexpr int kLevels = 17;  // 2^22 / kBlock = 2^15 leaves at most
  Real partial_[kLevels] = {};
  std::uint32_t count_ = 0;
};

// q: the probability of a column is e0(z - M) * q.
template <class Row>
SAMEBITS_HD constexpr typename Row::Real probability_scale(typename Row::Fixed sum) {
  using Real = typename Row::Real;
  return Real(1) / static_cast<Real>(Row::sum_to_double(sum) * Row::kScaleDown);
}

}  // namespace samebits::order
