// A tensor laid out in memory in any way a caller may choose, with a pattern in every gap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <samebits/view.h>

#include "bits.h"

namespace samebits::test {

// What outputs hold before a call, and what lies in gaps before and after it.
inline constexpr std::byte kFill{0x5a};

// How the leading dimensions of a tensor lie in memory.
struct Placement {
  std::vector<int> order = {};  // dimensions from the slowest to the fastest; empty: as they are
  std::int64_t gap = 0;         // unused elements between neighbours of the fastest leading dimension
  bool reversed = false;        // the fastest leading dimension runs backwards
  bool expanded = false;        // all leading strides are 0: the caller promises equal rows
  std::int64_t offset = 0;      // elements between a 64-byte boundary and the first one used
};

// Where a call finds the tensors of a test: here in host memory; the GPU tests put copies on a device.
class Residence {
 public:
  virtual ~Residence() = default;
  // `view`, which lies within `storage`, as the call gets to see it.
  virtual TensorView enter(std::span<std::byte> storage, const TensorView& view) {
    (void)storage;
    return view;
  }
  // Scratch memory for the call.
  virtual std::span<std::byte> workspace(std::size_t bytes) {
    workspace_.resize(bytes);
    return workspace_;
  }
  // After the call: whatever was written is in the storages.
  virtual void bring_back() {}

 private:
  std::vector<std::byte> workspace_;
};

class Strided {
 public:
  // `leading` extents; `inner` >= 0 adds a last dimension of contiguous elements, -1 adds none.
  Strided(DType dtype, const std::vector<std::int64_t>& leading, std::int64_t inner,
          const Placement& placement = {});
  Strided(const Strided&) = delete;
  Strided& operator=(const Strided&) = delete;

  // Rows in row-major order of the leading dimensions, one after the other.
  void scatter(const Values& dense);
  Values gather() const;

  TensorView view();
  // Every byte there is, the elements and what lies between them.
  std::span<std::byte> storage() { return storage_; }

  // No byte outside the elements was written.
  bool gaps_are_untouched() const;
  // No byte at all was written since the last scatter.
  bool is_untouched() const { return storage_ == snapshot_; }

 private:
  // Byte in `storage_` where row `row` of the leading dimensions starts.
  std::int64_t byte_of(std::int64_t row) const;

  DType dtype_;
  std::vector<std::int64_t> leading_, strides_;
  std::int64_t inner_, rows_ = 1, row_bytes_, base_ = 0;
  std::vector<std::byte> storage_, snapshot_;
};

}  // namespace samebits::test
