// What a warpgroup does with its tile of the last product of grad_weight: its end. CONTRACT section 4, point 6.
#pragma once

#include "cuda/kernel/sm90_store.cuh"
#include "cuda/kernel/target_terms.cuh"
#include "cuda/launch/head_weight.h"

namespace samebits::cuda {

// The last segment on top of the total, scaled and rounded. Columns of the head (rows here) that are somebody's target wait
// in fp32 until the registers of the tile are free, and then get what their rows add: there are few of them.
template <class T, bool accumulate>
struct FinishWeight {
  static constexpr int kStagingBytes = 0;
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = false;
  static constexpr int kAhead = 4;
  // Room for the rows of one tile that wait, of a warpgroup.
  static constexpr int kRoomColumns = 192, kRoomElements = 128 * kRoomColumns;
  using Out = std::conditional_t<accumulate, float, T>;
  float* total;       // [rows, H]; where this is the first segment, kRoomElements for each warpgroup
  std::int64_t size;  // H
  bool first;         // nothing in the total yet
  WeightFinish end_;

  // What a lane knows of its row of the tile before the products, so that nobody waits for it behind them: each warp has 32
  // rows, 16 of each half. Most often one position adds to a row.
  struct Prepared {
    IdRun run;
    const T* hidden;  // of the first position
    float y;
    std::uint32_t largest_scale;
  };
  __device__ __forceinline__ static int own_row() {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    return local_row_of(lane, warp);
  }
  __device__ __forceinline__ Prepared prepare(const TileAt& tile, const LiveShape& live) const {
    Prepared own{{}, nullptr, 0, end_.scalars->largest_scale};
    const int row = tile.row + own_row();
    if (row < live.rows) own.run = end_.run[row];
    if (own.run.first != own.run.end) {
      const std::int32_t position = end_.order.position[own.run.first];
      own.hidden = end_.hidden.template at<T>(end_.row[position]);
      own.y = end_.y[position];
    }
    return own;
  }

  template <int n>
  __device__ __forceinline__ void run(const float (&d)[n], int half, const TileAt& tile,
                                      const LiveShape& live, const Prepared& own) const {
    static_assert(2 * n == kRoomColumns);
    const Fragment at(tile);
    const PowerOf2 up = power(own.largest_scale);
    const unsigned waiting = __ballot_sync(kWarp, own.run.first != own.run.end) >> 16 * half;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = at.row + 8 * h;
      if (row >= live.rows) continue;
      const bool waits = (waiting >> (static_cast<int>(threadIdx.x) % 32 / 4 + 8 * h) & 1) != 0;
      const auto* sum = first ? nullptr : reinterpret_cast<const float2*>(total + row * size + at.column);
      auto* keep = reinterpret_cast<float2*>(
          kept(kHalfRows * half + row - tile.row, row, at.column - tile.column, at.column));
      Out* out = static_cast<Out*>(end_.out) + row * end_.stride + at.column;
#pragma unroll
      for (int from = 0; from < n / 4; from += kAhead) {
        // Of what is there, some at a time: no load passes a store.
        float2 before[kAhead] = {};
        if (sum != nullptr)
#pragma unroll
          for (int i = 0; i < kAhead; ++i)
            if (at.column + 8 * (from + i) < size) before[i] = sum[4 * (from + i)];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          const int j = from + i;
          if (at.column + 8 * j >= size) break;
          float2 value = {d[4 * j + 2 * h], d[4 * j + 2 * h + 1]};
          if (sum != nullptr) value = {before[i].x + value.x, before[i].y + value.y};
          if (waits)
            keep[4 * j] = value;
          else  // the +0 that no row adds makes a -0 of the scaling +0
            write(out + 8 * j, scaled(value.x, up) + 0.0f, scaled(value.y, up) + 0.0f);
        }
      }
    }
  }

  // Behind the last half of a tile: all lanes finish the rows that wait, two at a time.
  __device__ __forceinline__ void after(const TileAt& tile, const Prepared& own) const {
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const IdRun& run = own.run;
    const unsigned waiting = __ballot_sync(kWarp, run.first != run.end);
    const unsigned single = __ballot_sync(kWarp, run.end - run.first == 1);
    if (waiting == 0) return;
    const PowerOf2 up = power(own.largest_scale);
    for (unsigned left = waiting & single; left != 0; left &= left - 1) {
      const int i = __ffs(static_cast<int>(left)) - 1;
      left &= left - 1;
      const int j = left != 0 ? __ffs(static_cast<int>(left)) - 1 : i;
      const SingleRow first_row(*this, tile, own, i, warp, lane), second_row(*this, tile, own, j, warp, lane);
      first_row.write(*this, up);
      if (j != i) second_row.write(*this, up);
      if (left == 0) break;
    }
    for (unsigned left = waiting & ~single; left != 0; left &= left - 1) {
      const int i = __ffs(static_cast<int>(left)) - 1;
      const IdRun of{__shfl_sync(kWarp, run.first, i), __shfl_sync(kWarp, run.end, i)};
      finish_row(tile, local_row_of(i, warp), of, up, lane);
    }
  }
  __device__ void end() const {}

 private:
  // 2^n as two factors: rounded once, for the second one is 1 unless n is 128.
  struct PowerOf2 {
    float most, rest;
  };
  __device__ __forceinline__ static PowerOf2 power(std::uint32_t largest_scale) {
    const int exponent = order::weight_exponent(__uint_as_float(largest_scale));  // at most 128
    return {static_cast<float>(order::power_of_2(min(exponent, 127))), exponent > 127 ? 2.0f : 1.0f};
  }
  __device__ __forceinline__ static float scaled(float value, const PowerOf2& up) {
    return value * up.most * up.rest;
  }

  // Where an element waits: at (local row, local column) of the warpgroup's room, or at its place in the total.
  __device__ __forceinline__ float* kept(int local_row, int row, int local_column, int column) const {
    if (!first) return total + row * size + column;
    const int consumer = static_cast<int>(threadIdx.x) / 128 - 1;
    return total + (std::int64_t{blockIdx.x} * kConsumers + consumer) * kRoomElements +
           local_row * kRoomColumns + local_column;
  }

  // The two columns of a lane in each 64 of a row of the tile: 2 * lane, and 64 on, and 64 on.
  static constexpr int kLanePairs = kRoomColumns / 64;

  __device__ __forceinline__ static int local_row_of(int lane, int warp) {
    return lane / 16 * kHalfRows + 16 * warp + lane % 16;
  }
  __device__ __forceinline__ static const T* of_lane(const T* pointer, int lane) {
    return reinterpret_cast<const T*>(
        __shfl_sync(kWarp, reinterpret_cast<unsigned long long>(pointer), lane));
  }

  // What y times hidden adds to a lane's columns.
  struct LaneTerms {
    using Real = float;
    static constexpr int kWidth = 2 * kLanePairs, kAhead = 4;
    struct Values {
      float y;
      std::uint32_t pair[kLanePairs];
    };
    const FinishWeight& epilogue;

    __device__ __forceinline__ Values load(std::int64_t position, std::int64_t column) const {
      const WeightFinish& end = epilogue.end_;
      return load(end.hidden.template at<T>(end.row[position]), end.y[position], column);
    }
    __device__ __forceinline__ Values load(const T* from, float y, std::int64_t column) const {
      Values values{y, {}};
#pragma unroll
      for (int i = 0; i < kLanePairs; ++i)
        if (column + 64 * i < epilogue.size) values.pair[i] = epilogue.pair_at(from, column + 64 * i);
      return values;
    }
    __device__ __forceinline__ static void add(const Values& values, float (&sum)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        sum[i] = order::fma(values.y, pair_value<T>(values.pair[i / 2], i % 2), sum[i]);
    }
  };
  __device__ __forceinline__ std::uint32_t pair_at(const T* from, std::int64_t column) const {
    if (end_.hidden_in_pairs) return *reinterpret_cast<const std::uint32_t*>(from + column);
    return std::uint32_t{from[column * end_.hidden_stride].bits} |
           std::uint32_t{from[(column + 1) * end_.hidden_stride].bits} << 16;
  }

  // What waits of a row, in a lane's columns.
  struct Waiting {
    int row, column;
    float2 value[kLanePairs];
    __device__ __forceinline__ Waiting(const FinishWeight& epilogue, const TileAt& tile, int local_row,
                                       int lane)
        : row(tile.row + local_row), column(tile.column + 2 * lane) {
#pragma unroll
      for (int i = 0; i < kLanePairs; ++i)
        if (column + 64 * i < epilogue.size)
          value[i] = *reinterpret_cast<const float2*>(
              epilogue.kept(local_row, row, 2 * lane + 64 * i, column + 64 * i));
    }
    __device__ __forceinline__ void write(const FinishWeight& epilogue, const PowerOf2& up,
                                          const float (&own)[2 * kLanePairs]) const {
      Out* out = static_cast<Out*>(epilogue.end_.out) + row * epilogue.end_.stride + column;
#pragma unroll
      for (int i = 0; i < kLanePairs; ++i)
        if (column + 64 * i < epilogue.size)
          FinishWeight::write(out + 64 * i, scaled(value[i].x, up) + own[2 * i],
                              scaled(value[i].y, up) + own[2 * i + 1]);
    }
  };
  // A row to which one position adds: everything is loaded when it is made.
  struct SingleRow {
    Waiting waiting;
    typename LaneTerms::Values values;
    // The row of lane `of`.
    __device__ __forceinline__ SingleRow(const FinishWeight& epilogue, const TileAt& tile,
                                         const Prepared& own, int of, int warp, int lane)
        : waiting(epilogue, tile, local_row_of(of, warp), lane),
          values(LaneTerms{epilogue}.load(of_lane(own.hidden, of), __shfl_sync(kWarp, own.y, of),
                                          waiting.column)) {}
    __device__ __forceinline__ void write(const FinishWeight& epilogue, const PowerOf2& up) const {
      float own[2 * kLanePairs] = {};
      LaneTerms::add(values, own);
#pragma unroll
      for (float& value : own) value = 0.0f + value;  // as the end of sum_run
      waiting.write(epilogue, up, own);
    }
  };
  __device__ __forceinline__ void finish_row(const TileAt& tile, int local_row, const IdRun& run,
                                             const PowerOf2& up, int lane) const {
    const Waiting waiting(*this, tile, local_row, lane);
    float own[2 * kLanePairs];
    if (is_long(run)) {
      add_long(run, waiting.column, own);
    } else {
      sum_segment(LaneTerms{*this}, end_.order.position + run.first, run.end - run.first, waiting.column,
                  own);
#pragma unroll
      for (float& value : own) value = 0.0f + value;
    }
    waiting.write(*this, up, own);
  }

  // sum_run's of a long run.
  __device__ __forceinline__ void add_long(const IdRun& run, std::int64_t column,
                                           float (&own)[2 * kLanePairs]) const {
#pragma unroll
    for (float& value : own) value = 0;
    for (std::uint32_t first = run.first; first < run.end; first += kSumSegment) {
      const float* sum = end_.long_runs.partial + long_row(first, first == run.first) * end_.long_runs.stride;
#pragma unroll
      for (int i = 0; i < 2 * kLanePairs; ++i) {
        const std::int64_t at = column + i / 2 * 64 + i % 2;
        if (at < size) own[i] = own[i] + sum[at];
      }
    }
  }

  __device__ __forceinline__ static void write(Out* to, float low, float high) {
    if constexpr (accumulate) {
      float2* pair = reinterpret_cast<float2*>(to);
      const float2 before = *pair;
      *pair = {order::round_to<float>(before.x + low), order::round_to<float>(before.y + high)};
    } else {
      *reinterpret_cast<std::uint32_t*>(to) = pair_of<T>(low, high);
    }
  }
};

}  // namespace samebits::cuda
