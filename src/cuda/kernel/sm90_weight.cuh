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
  // Of a warp: 16 rows of 64 columns on their way out, 16 bytes of row r at place (i ^ r % 8).
  static constexpr int kBufferBytes = accumulate ? 0 : 16 * 128;
  static constexpr int kStagingBytes = 4 * kConsumers * kBufferBytes;
  static constexpr bool kParts = false, kLong = true;
  template <class Tile>
  static constexpr bool kPairs = false;
  // Room for the rows of one tile that wait, of a warpgroup.
  static constexpr int kRoomColumns = 192, kRoomElements = 128 * kRoomColumns;
  using Out = std::conditional_t<accumulate, float, T>;
  float* total;       // [rows, H]; with `first` kRoomElements for each warpgroup
  std::int64_t size;  // H
  bool first;         // the product has the first segment
  WeightFinish end_;

  // What a lane knows of its row of the tile before the products, so that nobody waits for it behind them: each warp has 32
  // rows, 16 of each half. Most often one position adds to a row.
  struct Prepared {
    IdRun run;
    const T* hidden;  // of the first position
    float y;
    std::uint32_t largest_scale;
  };
  __device__ __forceinline__ static int own_row() { return local_row_of(lane(), warp()); }
  __device__ __forceinline__ Prepared prepare(const TileAt& tile, const LiveShape& live) const {
    Prepared own{{}, nullptr, 0, end_.scalars->largest_scale};
    if (!tile.last) return own;
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
  __device__ __forceinline__ void run(float (&d)[n], int half, const TileAt& tile, const LiveShape& live,
                                      char* staging, const Prepared& own) const {
    static_assert(2 * n == kRoomColumns);
    const PowerOf2 up = power(own.largest_scale);
    const unsigned waiting = __ballot_sync(kWarp, own.run.first != own.run.end) >> 16 * half & 0xffff;
    if (!first || tile.step > 0) add_total(d, half, tile, live);
    if (!tile.last) return keep_rows(d, half, tile, 0xffff);
    if (waiting != 0) keep_rows(d, half, tile, waiting);
    if constexpr (!accumulate)
      if (end_.out_in_chunks)
        return write_chunks(d, tile, live, staging + warp() * kBufferBytes, waiting, up);
    write_pairs(d, tile, live, waiting, up);
  }

  // Behind the last half of a tile: all lanes finish the rows that wait, two at a time.
  __device__ __forceinline__ void after(const TileAt& tile, const Prepared& own) const {
    if (!tile.last) return;
    __syncwarp();
    const int lane = FinishWeight::lane(), warp = FinishWeight::warp();
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
    __syncwarp();  // before rows of the next tile wait in the same place
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
  // The same of a row to which nobody adds: the +0 makes a -0 of the scaling +0, and no number is lost at the second factor.
  __device__ __forceinline__ static float alone(float value, const PowerOf2& up) {
    return order::fma(value * up.most, up.rest, 0.0f);
  }

  static constexpr int kUnit = 32;  // a thread's elements of 64 rows x 64 columns
  __device__ __forceinline__ static int lane() { return thread_number() % 32; }
  __device__ __forceinline__ static int warp() { return thread_number() / 32 % 4; }
  __device__ __forceinline__ static bool waits(unsigned waiting, int h) {
    return (waiting >> (lane() / 4 + 8 * h) & 1) != 0;
  }

  // Adds this segment to those before it.
  template <int n>
  __device__ __forceinline__ void add_total(float (&d)[n], int half, const TileAt& tile,
                                            const LiveShape& live) const {
    const Fragment at(tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = at.row + 8 * h;
      if (row >= live.rows) continue;
      const auto* sum = reinterpret_cast<const float2*>(
          kept(kHalfRows * half + row - tile.row, row, at.column - tile.column, at.column));
#pragma unroll
      for (int j = 0; j < n / 4; ++j) {
        if (at.column + 8 * j >= size) break;
        const float2 before = sum[4 * j];
        d[4 * j + 2 * h] = before.x + d[4 * j + 2 * h];
        d[4 * j + 2 * h + 1] = before.y + d[4 * j + 2 * h + 1];
      }
    }
  }

  template <int n>
  __device__ __forceinline__ void keep_rows(const float (&d)[n], int half, const TileAt& tile,
                                            unsigned waiting) const {
    const Fragment at(tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (!waits(waiting, h)) continue;
      const int row = at.row + 8 * h;
      auto* to = reinterpret_cast<float2*>(
          kept(kHalfRows * half + row - tile.row, row, at.column - tile.column, at.column));
#pragma unroll
      for (int j = 0; j < n / 4; ++j)
        if (at.column + 8 * j < size) to[4 * j] = {d[4 * j + 2 * h], d[4 * j + 2 * h + 1]};
    }
  }

  // Rows that do not wait.
  template <int n>
  __device__ __forceinline__ void write_pairs(const float (&d)[n], const TileAt& tile, const LiveShape& live,
                                              unsigned waiting, const PowerOf2& up) const {
    const Fragment at(tile);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = at.row + 8 * h;
      if (row >= live.rows || waits(waiting, h)) continue;
      Out* out = static_cast<Out*>(end_.out) + row * end_.stride + at.column;
#pragma unroll
      for (int j = 0; j < n / 4; ++j)
        if (at.column + 8 * j < size)
          write(out + 8 * j, alone(d[4 * j + 2 * h], up), alone(d[4 * j + 2 * h + 1], up));
    }
  }

  // The same through shared memory, so that lines of memory are written whole: 64 columns at a time, 16 bytes a lane.
  template <int n>
  __device__ __forceinline__ void write_chunks(const float (&d)[n], const TileAt& tile, const LiveShape& live,
                                               char* buffer, unsigned waiting, const PowerOf2& up) const {
    // Matrix i of four: rows 8 (i % 2), columns 8 (i / 2) of a run of 16 columns.
    const int in_matrix = lane() % 8, to_column = lane() / 16;
    const std::uint32_t to = shared_address(buffer) + (in_matrix + 8 * (lane() / 8 % 2)) * 128;
    const int from_row = lane() / 8, chunk = lane() % 8;
    const char* const from = buffer + from_row * 128 + (chunk ^ from_row) * 16;
    const int first_row = tile.row + 16 * warp(), room = static_cast<int>(size) - tile.column - 8 * chunk;
    const int rows = min(max(live.rows - first_row, 0), 16);
    const unsigned left_out = (waiting | ~0u << rows) >> from_row;
    uint4* out = reinterpret_cast<uint4*>(static_cast<T*>(end_.out) + (first_row + from_row) * end_.stride +
                                          tile.column) +
                 chunk;
    const std::int64_t step = end_.stride / 2;  // of 4 rows
#pragma unroll
    for (int unit = 0; unit < n / kUnit; ++unit, out += 8) {
      const auto pair = [&](int j, int h) {
        const int i = unit * kUnit + 4 * j + 2 * h;
        return pair_of<T>(alone(d[i], up), alone(d[i + 1], up));
      };
#pragma unroll
      for (int j = 0; j < 8; j += 2)
        store_matrices(to + ((j + to_column) ^ in_matrix) * 16, pair(j, 0), pair(j, 1), pair(j + 1, 0),
                       pair(j + 1, 1));
      __syncwarp();
      uint4 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)  // row 4 i further: its place is the same, but for the 4 of (i ^ row % 8)
        words[i] = *reinterpret_cast<const uint4*>(
            i % 2 == 0 ? from + i * 512 : buffer + (from_row + 4 * i) * 128 + (chunk ^ (from_row + 4)) * 16);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if ((left_out >> 4 * i & 1) == 0 && room > 64 * unit) out[i * step] = words[i];
    }
  }

  // Where an element waits, or the sum of the segments before: at (local row, local column) of the warpgroup's room, or at
  // its place in the total.
  __device__ __forceinline__ float* kept(int local_row, int row, int local_column, int column) const {
    if (!first) return total + row * size + column;
    const int consumer = thread_number() / 128 - 1;
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
    // Of its i-th column; what lies beyond the last one is nobody's.
    __device__ __forceinline__ std::int64_t at(std::int64_t column, int i) const {
      return min(column + i / 2 * 64, epilogue.size - 2) + i % 2;
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
    sum_run(LaneTerms{*this}, end_.order.position, run, end_.long_runs, waiting.column, own);
    waiting.write(*this, up, own);
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
