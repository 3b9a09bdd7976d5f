// Launches of kernels that handle every column by itself: items (row, part of its columns).
#pragma once

#include "cuda/kernel/logp_backward.cuh"
#include "cuda/launch/launch.h"

namespace samebits::cuda {

// Kernels over whole vectors count columns in 32 bits.
inline constexpr std::int64_t kMost32BitColumns = std::int64_t{1} << 30;

// Steps of a CTA that walks over its columns: `most`, enough for what it does once per row to weigh little, fewer where few
// rows have to spread.
inline int steps_of(const core::LogpProblem& problem, int step_columns, int multiprocessors, int most = 4) {
  int steps = most;
  while (steps > 1 && problem.rows * (problem.columns / (steps * step_columns)) < 8 * multiprocessors)
    steps /= 2;
  return steps;
}

// Columns of a CTA in the kernels that take an element per thread and step.
inline constexpr int kAnyColumns = 8 * kGradientThreads;

// `rows_ahead`: ColumnSplit::rows, made by the kernel ahead. `shared_bytes`: of a CTA, dynamic.
inline void launch_columns(const char* name, void (*kernel)(core::LogpProblem, ColumnSplit),
                           const core::LogpProblem& problem, int part_columns, const core::DeviceCall& call,
                           const void* rows_ahead = nullptr, int shared_bytes = 0) {
  const std::int64_t parts = (problem.columns + part_columns - 1) / part_columns;
  in_ranges(problem.rows, kMaxItems / parts, [&](std::int64_t first, std::int64_t rows) {
    launch(name, kernel, {rows * parts, kGradientThreads, shared_bytes, 1, rows_ahead != nullptr}, call,
           problem, ColumnSplit{first, static_cast<int>(parts), part_columns, rows_ahead});
  });
}

}  // namespace samebits::cuda
