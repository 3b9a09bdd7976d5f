// What every operator on logits does around its backend: logits and saved statistics in, row list, scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include <samebits/logp.h>

#include "core/backend.h"
#include "core/device_backend.h"

namespace samebits::core {

// Checks logits, targets and options.
LogpProblem logits_problem(const ConstTensorView& logits, const ConstTensorView& targets,
                           const LogpOptions& options);

// float64 under row64.v1, else float32: the type of statistics, upstreams and results.
inline DType real_dtype(const LogpProblem& problem) {
  return problem.binary64 ? DType::kFloat64 : DType::kFloat32;
}

// Checks the M and S that the forward pass saved, and U where it is needed or given.
void set_statistics(LogpProblem& problem, const LogpStats& stats, bool needs_entropy_sum);

// Checks the upstream gradients, which have the shape of `targets`.
void set_upstreams(LogpProblem& problem, const LogpUpstream& upstream, const ConstTensorView& targets);

// Checks that `output`, named `name`, is a dense buffer of the shape of the logits.
void check_like_logits(const TensorView& output, const char* name, DType dtype,
                       const ConstTensorView& logits);

// Bytes that the row list's bitmap takes ahead of a backend's scratch.
std::size_t selection_bytes(const LogpProblem& problem, const LogpOptions& options);

// Fills in the row list, refuses invalid ids if asked to, and runs `entry` with `scratch_bytes(problem, threads)`
// of scratch (null: none).
void run_rows(LogpProblem& problem, const LogpOptions& options, const ExecContext& context,
              std::size_t (*scratch_bytes)(const LogpProblem&, int),
              void (*entry)(const LogpProblem&, const Executor&));

// The same for operands on a device: its backend does all of that there, without waiting.
void run_rows_on_device(LogpProblem& problem, const LogpOptions& options, const ExecContext& context,
                        void (*DeviceBackend::*entry)(LogpProblem, const DeviceCall&));

}  // namespace samebits::core
