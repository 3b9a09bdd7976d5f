// The inner loops of tc16.v1, one set per instruction set.
//
// An operand is unpacked into a significand, a float in (-2, 2), and a 16-bit exponent, so that a product is
// (significand * significand) * 2^(exponent + exponent), exactly as the contract sees it.
#pragma once

#include <cstdint>

#include "cpu/row_kernels.h"
#include "order/tc16.h"

namespace samebits::cpu {

inline constexpr std::int64_t kTc16Chunk = 128;  // of K that is unpacked at a time, a multiple of a group
inline constexpr std::int64_t kTc16Stride =
    144;                                // between unpacked rows of A; rows side by side share no cache set
inline constexpr int kMaxTc16Rows = 4;  // rows of the largest register tile of any instruction set

struct Tc16Kernels {
  // Rows of A: significand[r * kTc16Stride + k], and the exponent in both halves of exponents[r * kTc16Stride + k].
  // A panel of B, `panel_columns` = 2 L wide: significand[k][column]; exponents[k][l] holds the exponent of column l
  // low and of column L + l high. acc[r][column] goes through `groups` steps; `first`: it starts from +0.
  using Tile = void (*)(std::int64_t groups, const float* a_significands, const std::uint32_t* a_exponents,
                        const float* b_significands, const std::uint32_t* b_exponents, float* acc,
                        std::int64_t acc_stride, bool first);
  // `count` (a multiple of 16) operands of a row of A.
  using UnpackRow = void (*)(const std::uint16_t* source, std::int64_t count, float* significands,
                             std::uint32_t* exponents);
  // A panel of B from words[pair][column], where a word holds the operands of k = 2 pair (low) and 2 pair + 1.
  using UnpackPanel = void (*)(const std::uint32_t* words, std::int64_t pairs, float* significands,
                               std::uint32_t* exponents);
  int tile_rows = 0;
  int panel_columns = 0;
  Tile tile[kMaxTc16Rows + 1] = {};  // by number of rows, 1 to tile_rows
  UnpackRow unpack_row[2] = {};      // bfloat16, float16
  UnpackPanel unpack_panel[2] = {};
};

// Null when this build does not have the instruction set.
const Tc16Kernels* tc16_kernels(Isa isa);

}  // namespace samebits::cpu
