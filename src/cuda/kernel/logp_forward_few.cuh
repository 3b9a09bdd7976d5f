// Forward pass of row.v1 where rows are few, so that every step that waits for another one counts. A cluster takes a row.
//
// What needs no memory happens while the kernel ahead ends; then all loads are under way before anything else. Each warp
// tells all CTAs of the cluster its maximum before it computes exponentials, so that M is there when its blocks are; then
// it sends one integer to the first CTA, where a warp adds these up and ends the row.
#pragma once

#include "cuda/kernel/row_finish.cuh"
#include "cuda/kernel/row_spread.cuh"
#include "cuda/prim/kernel_order.cuh"
#include "cuda/prim/tma.cuh"

namespace samebits::cuda {

// Warps of a CTA at most, and of one whose warps take one unit each, where as many as possible help. (Plain 16-bit code for
// no more than 16 would take all registers that they may have, and start later; with a temperature it needs them.)
inline constexpr int kFewWarps = 16;
template <class T, bool scaled>
inline constexpr int kFewWarpsOfOne = sizeof(T) == 4 ? 32
                                      : scaled       ? kFewWarps
                                                     : 22;

// An array of one value per row, evenly spaced.
template <class Void>
struct EvenRows {
  Void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t stride = 0;

  __host__ __device__ explicit operator bool() const { return data != nullptr; }
  template <class T>
  __device__ auto* at(std::int64_t row) const {
    using Pointer = std::conditional_t<std::is_const_v<Void>, const T, T>;
    return static_cast<Pointer*>(data) + row * stride;
  }
};

// The problem, small: parameters of a kernel have to be fetched too.
struct FewProblem : core::RowRules {
  EvenRows<const void> logits, targets, row_temperature;
  double temperature;
  EvenRows<void> logp, lse, entropy;
  void *row_max, *row_sum, *row_entropy_sum;

  __device__ double tau(std::int64_t row) const {
    if (!row_temperature) return temperature;
    return row_temperature.dtype == DType::kFloat32 ? *row_temperature.at<float>(row)
                                                    : *row_temperature.at<double>(row);
  }
  // Ahead of the asynchronous copies that follow: the compiler would put it behind them, did warps not meet here, and it
  // would come when all of them have.
  __device__ __forceinline__ std::int64_t target_first(const void* at) const {
    std::int64_t id;
    if (targets.dtype == DType::kInt32)
      id = *static_cast<const volatile std::int32_t*>(at);
    else
      id = *static_cast<const volatile std::int64_t*>(at);
    __syncwarp();
    return id;
  }
  __device__ __forceinline__ const void* target_at(std::int64_t row) const {
    return static_cast<const char*>(targets.data) +
           row * targets.stride * (targets.dtype == DType::kInt32 ? 4 : 8);
  }
};

// A row is cut into as many pieces as its cluster has CTAs, and these into units, of which each warp takes `units`: one
// beside the other, so that the copies under way are of memory in a row.
struct FewShape {
  int cluster, units;
};

// Shared memory beyond the staging: sums and maxima of all warps of the cluster, and blocks of this CTA's ones.
__host__ __device__ inline int few_bytes(int warps, const FewShape& shape, int unit_blocks, bool entropy) {
  return warps * shape.cluster * 20 + warps * shape.units * unit_blocks * (entropy ? 12 : 8);
}

// The units of one warp, one lane's columns of them, one after the other. `staged`: the copy engine brings a unit into shared
// memory while the warp computes on the one before it. More of them under way are slower: the first one comes later.
template <class T, bool staged>
struct FewLoads {
  using Part = Spread<T>;
  static constexpr int kWarpBytes = staged ? Part::kUnitBytes : 0;
  const T* from;   // the unit that is loaded next; not staged, the lane's first column of it
  int left;        // columns of the row from that unit's first one on, the same for the warp
  int step;        // columns from one unit to the next
  uint4* staging;  // of the warp
  Barrier* came;   // of the warp; a phase for each unit
  int phase = 0;
  Part held;

  __device__ __forceinline__ void start(int lane) {
    if constexpr (staged) {
      if (lane == 0) {
        const int bytes = max(min(left, Part::kUnit), 0) * static_cast<int>(sizeof(T));
        barrier_expect(came, bytes);
        if (bytes > 0) bulk_load(staging, from, bytes, came);
      }
    } else if (left >= Part::kUnit) {
#pragma unroll
      for (int k = 0; k < 4; ++k) held.vectors[k] = load_once(from + 32 * k);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        held.miss(k);
        if (Part::column_of(lane) + 32 * k < left) held.vectors[k] = load_once(from + 32 * k);
      }
    }
    from += step, left -= step;
  }
  // The unit that started last, to be had by all lanes.
  __device__ __forceinline__ void take(int lane) {
    if constexpr (staged) {
      wait();
      const uint4* const own = staging + Part::column_of(lane) / Part::kCount;
#pragma unroll
      for (int k = 0; k < 4; ++k) held.vectors[k] = own[k * 32 / Part::kCount];
      __syncwarp();  // the next one may come
      const int mine = left + step;
      if (mine >= Part::kUnit) return;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (Part::column_of(lane) + 32 * k >= mine) held.miss(k);
    }
  }
  // Until it has come.
  __device__ __forceinline__ void wait() {
    if constexpr (staged) barrier_wait(came, phase), phase ^= 1;
  }
};

// `staged`: warps take several units each.
template <class T, bool scaled, bool entropy, bool staged>
__global__ void __launch_bounds__(32 * (staged ? kFewWarps : kFewWarpsOfOne<T, scaled>),
                                  entropy || !staged ? 1 : 2)
    logp_forward_few(const __grid_constant__ FewProblem problem, const FewShape shape) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Row = order::RowV1;
  using Part = Spread<T>;
  extern __shared__ __align__(128) char dynamic[];
  __shared__ Barrier maxima_came, sums_came, unit_came[kFewWarps];
  let_kernel_behind_start();
  const int cluster = shape.cluster, rank = cluster_rank();
  const std::int64_t row = cluster_number();
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int warp = __shfl_sync(kWarp, threadIdx.x / 32, 0);  // the compiler knows then that it is the warp's
  const int number = rank * warps + warp, all_warps = warps * cluster, units = shape.units;
  auto* const sums =
      reinterpret_cast<std::uint64_t*>(dynamic + warps * FewLoads<T, staged>::kWarpBytes);  // S, then U
  auto* const maxima = reinterpret_cast<float*>(sums + 2 * all_warps);
  float* const stats = maxima + all_warps + warp * units * Part::kBlocks * (entropy ? 3 : 2);
  if (threadIdx.x == 0) {
    barrier_init(&maxima_came, 1);
    barrier_init(&sums_came, 1);
    barrier_init_done();
    barrier_expect(&maxima_came, all_warps * 4);
    barrier_expect(&sums_came, rank == 0 ? all_warps * (entropy ? 16 : 8) : 0);
  }
  if (staged && lane == 0) {
    barrier_init(&unit_came[warp], 1);
    barrier_init_done();
  }
  cluster_arrive();
  FewLoads<T, staged> loads;
  const int first = (rank * warps * units + warp) * Part::kUnit;
  loads.left = static_cast<int>(problem.vocab) - first;
  loads.step = warps * Part::kUnit;
  loads.from = problem.logits.template at<T>(row) + first + (staged ? 0 : Part::column_of(lane));
  loads.staging = reinterpret_cast<uint4*>(dynamic + warp * loads.kWarpBytes);
  loads.came = &unit_came[staged ? warp : 0];
  const void* id_at = problem.target_at(row);
  // The compiler would work these out, and fetch the parameters, only when the kernel ahead has ended.
  asm volatile("" : "+l"(loads.from), "+l"(id_at), "+r"(loads.left));
  wait_for_kernel_ahead();
  const std::int64_t id = problem.target_first(id_at);
  loads.start(lane);

  const core::RowKind kind = problem.kind(row, id);
  if (kind != core::RowKind::kLive) {
    loads.wait();
    cluster_wait();
    if (rank == 0 && threadIdx.x == 0) write_other_row<Row>(problem, row, kind);
    return;
  }
  const float it = scaled ? inverse_temperature<Row>(problem, row) : 1.0f;
  float z_target = 0;
  if (rank == 0 && threadIdx.x == 0) z_target = order::to_float(problem.logits.template at<T>(row)[id]) * it;

  float max = -order::infinity<float>(), m = max;
  BlockSums block{0, 0};
  float* to = stats + lane / Part::kLanes * (entropy ? 3 : 2);  // of the lane's block in the unit
#pragma unroll 1
  for (int i = 0; i < units; ++i) {
    const bool last = i == units - 1;
    loads.take(lane);
    const Extremes extreme = extremes(loads.held);
    if (staged && !last) loads.start(lane);  // all lanes have used what it overwrites
    m = scaled ? extreme.max * it : extreme.max;
    max = max_nan(max, m);
    if (last) {
      max = warp_max_nan(max);
      cluster_wait();
      if (lane < cluster)
        send(in_cta(shared_address(maxima + number), lane), max, in_cta(shared_address(&maxima_came), lane));
    }
    // Whether some d may lie below the cut; finding out costs fp32 as much as the clamp.
    const float lowest = (scaled ? extreme.min * it : extreme.min) - m;
    if (sizeof(T) == 4 || __any_sync(kWarp, lowest < Row::kCut))
      block = spread_sums<T, scaled, entropy, true>(loads.held, it, m, lane);
    else
      block = spread_sums<T, scaled, entropy, false>(loads.held, it, m, lane);
    if (!last && lane % Part::kLanes == 0) {
      to[0] = m, to[1] = block.s;
      if constexpr (entropy) to[2] = block.u;
    }
    to += Part::kBlocks * (entropy ? 3 : 2);
  }

  barrier_wait(&maxima_came, 0);
#pragma unroll 4  // loads beside each other
  for (int w = lane; w < all_warps; w += 32) max = max_nan(max, maxima[w]);
  max = warp_max_nan(max);
  RowSums<Row> total{0, 0};
  if (order::classify(max) == order::RowClass::kFinite) {
    if (lane % Part::kLanes == 0) {
      total.sum = order::block_to_sum<Row>(m, block.s, max);
      if constexpr (entropy) total.entropy_sum = order::block_to_entropy_sum<Row>(m, block.s, block.u, max);
    }
    __syncwarp();
    for (int b = lane; b < (units - 1) * Part::kBlocks; b += 32) {
      const float* const from = stats + b * (entropy ? 3 : 2);
      total.sum += order::block_to_sum<Row>(from[0], from[1], max);
      if constexpr (entropy)
        total.entropy_sum += order::block_to_entropy_sum<Row>(from[0], from[1], from[2], max);
    }
  }
  total.sum = warp_sum(total.sum);
  if constexpr (entropy) total.entropy_sum = warp_sum(total.entropy_sum);
  if (lane == 0) {
    const std::uint32_t to = in_cta(shared_address(sums + number), 0),
                        barrier = in_cta(shared_address(&sums_came), 0);
    send(to, total.sum, barrier);
    if constexpr (entropy) send(to + all_warps * 8, total.entropy_sum, barrier);
  }
  if (rank != 0 || warp != 0) return;

  barrier_wait(&sums_came, 0);
  total = {0, 0};
#pragma unroll 4
  for (int w = lane; w < all_warps; w += 32) {
    total.sum += sums[w];
    if constexpr (entropy) total.entropy_sum += sums[all_warps + w];
  }
  total.sum = warp_sum(total.sum);
  if constexpr (entropy) total.entropy_sum = warp_sum(total.entropy_sum);
  if (lane == 0) write_live_row<Row>(problem, row, max, total, z_target);
#endif
}

}  // namespace samebits::cuda
