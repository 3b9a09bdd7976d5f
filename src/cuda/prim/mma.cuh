// The warp's tensor-core product and the loads that feed it (SM80 and newer).
#pragma once

#include <type_traits>

#include "order/number.h"

namespace samebits::cuda {

// Four 8x8 matrices of 16-bit elements from shared memory. Lane l gives the address of row l % 8 of matrix l / 8; of matrix
// i, words[i] holds the elements 2 * (l % 4) and the next of row l / 4. With kTranspose they are those of column l / 4.
template <bool kTranspose>
__device__ __forceinline__ void load_matrices(std::uint32_t (&words)[4], std::uint32_t shared) {
  if constexpr (kTranspose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared)
                 : "memory");
}

// One step of tc16.v1 in each of 16 x 8 accumulators: acc[0], acc[1] are row l / 4, columns 2 * (l % 4) and the next;
// acc[2], acc[3] lie 8 rows below.
template <class T>
__device__ __forceinline__ void mma_step(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b_low,
                                         std::uint32_t b_high) {
  if constexpr (std::is_same_v<T, order::BFloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

}  // namespace samebits::cuda
