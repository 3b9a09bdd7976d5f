// Prepares sums over the positions with one id: what kernel/segment_sum.cuh needs beside the order of the ids.
#pragma once

#include "cuda/kernel/segment_sum.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {

// Bytes of the sums of long runs over `columns`, which are a multiple of the width of their Terms.
template <class Real>
std::size_t long_run_bytes(std::int64_t capacity, std::int64_t columns) {
  return static_cast<std::size_t>(long_rows(capacity) * columns) * sizeof(Real);
}

// Sums the segments of the runs that have more than one, into `partial` of that many bytes (null when there are none).
// Whoever calls sum_run afterwards gives it the result.
template <class Terms>
LongRuns<typename Terms::Real> launch_long_runs(const Terms& terms, const IdRuns& runs, std::int64_t columns,
                                                void* partial, const core::DeviceCall& call) {
  using Real = typename Terms::Real;
  const LongRuns<Real> result{static_cast<Real*>(partial), columns};
  const std::int64_t parts = (columns + kSumThreads * Terms::kWidth - 1) / (kSumThreads * Terms::kWidth);
  if (parts == 0) return result;
  in_ranges(long_rows(runs.capacity), std::max<std::int64_t>(kMaxItems / parts, 1),
            [&](std::int64_t first, std::int64_t rows) {
              launch("sum_long_runs", sum_long_runs<Terms>, behind(rows * parts, kSumThreads), call, terms,
                     runs, result, columns, parts, first);
            });
  return result;
}

}  // namespace samebits::cuda
