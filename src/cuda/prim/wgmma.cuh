// The tensor core instruction of SM90a: a warpgroup multiplies tiles in shared memory into its registers.
//
// Thread t of the warpgroup (warp w = t / 32, lane l) holds of D [64, N], at d[4 j + 2 h + e], the element of row
// 16 w + l / 4 + 8 h and column 8 j + 2 (l % 4) + e.
#pragma once

#include <cstdint>

#include "cuda/prim/pair.cuh"

namespace samebits::cuda {

// Registers are about to be used by products / products issued so far form a group / at most `pending` groups run.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// How a tile of 16-bit elements lies in shared memory, in rows of 128 bytes with the swizzle of the copy engine.
// `chunk_bytes`: between runs of 64 elements along M or N, where those are the dense axis.
__device__ __forceinline__ std::uint64_t tile_descriptor(std::uint32_t address, int chunk_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | (static_cast<std::uint64_t>(chunk_bytes / 16) << 16) |
         ((address & 0x3ffff) / 16);
}

#define SAMEBITS_WGMMA_128(type)                                                                         \
  asm volatile(                                                                                          \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                       \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                       \
      " {"                                                                                               \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20,  " \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39,  " \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58,  " \
      "%59, %60, %61, %62, %63"                                                                          \
      "}, %64, %65, p, 1, 1, %67, %68;\n}\n"                                                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),         \
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),       \
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),       \
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),       \
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),       \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),       \
        "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),       \
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])        \
      : "l"(a), "l"(b), "r"(accumulate), "n"(transposed_a), "n"(transposed_b))

#define SAMEBITS_WGMMA_192(type)                                                                         \
  asm volatile(                                                                                          \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"                                                       \
      "wgmma.mma_async.sync.aligned.m64n192k16.f32." type "." type                                       \
      " {"                                                                                               \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20,  " \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39,  " \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58,  " \
      "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77,  " \
      "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"         \
      "}, %96, %97, p, 1, 1, %99, %100;\n}\n"                                                            \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),         \
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),       \
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),       \
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),       \
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),       \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),       \
        "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),       \
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),       \
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]),       \
        "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),       \
        "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]),       \
        "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),       \
        "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])                                               \
      : "l"(a), "l"(b), "r"(accumulate), "n"(transposed_a), "n"(transposed_b))

// d += A B over one step of 16 products (accumulate 0: d = A B). `transposed`: M or N, not K, is the dense axis.
template <class T, int n, int transposed_a, int transposed_b>
__device__ __forceinline__ void wgmma(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int accumulate) {
  if constexpr (n == 128) {
    if constexpr (kIsBFloat16<T>)
      SAMEBITS_WGMMA_128("bf16");
    else
      SAMEBITS_WGMMA_128("f16");
  } else {
    static_assert(n == 192);
    if constexpr (kIsBFloat16<T>)
      SAMEBITS_WGMMA_192("bf16");
    else
      SAMEBITS_WGMMA_192("f16");
  }
}

#undef SAMEBITS_WGMMA_128
#undef SAMEBITS_WGMMA_192

}  // namespace samebits::cuda
