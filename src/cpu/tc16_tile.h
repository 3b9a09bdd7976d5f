// One tile of a product under tc16.v1, complete over K: what TileWorker is to fma.v1.
#pragma once

#include "cpu/matmul_tile.h"
#include "cpu/tc16_kernels.h"

namespace samebits::cpu {

// The kernels of one instruction set that a tile needs.
struct Tc16TileKernels {
  const Tc16Kernels& tc16;
  const DotKernels<float>& f32;  // transposes pairs of operands as words of 32 bits
};

class Tc16TileWorker {
 public:
  using Real = float;
  using Kernels = Tc16TileKernels;

  // Bytes for tiles of `shape` over `depth`; a multiple of 64.
  static std::size_t scratch_bytes(const TileShape& shape, std::int64_t depth) {
    return static_cast<std::size_t>(Layout(shape, depth).total) * 4;
  }

  // `scratch` is aligned to 64 bytes and holds scratch_bytes. The operands are bfloat16 or float16.
  Tc16TileWorker(const Kernels& kernels, const TileOperands& operands, const TileShape& shape,
                 std::byte* scratch);

  // As TileWorker::compute; every NaN is the canonical one already unless segments were added.
  Tile<float> compute(const void* const* a_rows, std::int64_t rows, std::int64_t column,
                      std::int64_t columns);

 private:
  // Where the parts of the scratch are, in words of 32 bits.
  struct Layout {
    Layout(const TileShape& shape, std::int64_t depth);
    std::int64_t chunks_of_a, a, a_exponents, b, b_exponents, words, staging, acc, total_of_segments, total,
        acc_stride;
  };

  // A chunk of `depth` elements, padded with +0 to whole groups.
  void unpack_a(const void* const* a_rows, std::int64_t rows, std::int64_t k, std::int64_t depth,
                std::int64_t slot);
  void unpack_b(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth);
  void multiply(std::int64_t depth, std::int64_t slot, std::int64_t rows, float* acc, bool first);
  float* floats(std::int64_t at) const { return reinterpret_cast<float*>(scratch_) + at; }
  std::uint32_t* words(std::int64_t at) const { return reinterpret_cast<std::uint32_t*>(scratch_) + at; }

  const Kernels kernels_;
  const TileOperands& operands_;
  Layout layout_;
  const int format_;  // index of the unpacking kernels
  std::byte* scratch_;
};

}  // namespace samebits::cpu
