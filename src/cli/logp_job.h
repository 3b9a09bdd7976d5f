// A whole file of logits run through logp in chunks of rows: what `logp` and `audit` share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <samebits/logp.h>
#include <samebits/plan.h>

#include "cli/file_tensor.h"
#include "cli/logp_settings.h"
#include "cli/mapped_file.h"
#include "cli/progress.h"

namespace samebits::cli {

/// What is computed besides logp.
struct Wanted {
  bool lse = false;
  bool entropy = false;
};

/// Inputs of the job, checked against each other by the constructor of LogpJob.
struct LogpInputs {
  const MappedFile* file = nullptr;           // that holds the logits
  FileTensor logits;                          // [..., vocab]
  FileTensor targets;                         // [...]
  std::optional<FileTensor> row_temperature;  // [...]
  std::optional<FileTensor> rows;             // [any]
};

/// Who computes a chunk: the library, or the scalar twin.
using ForwardFunction = std::function<void(const ConstTensorView& logits, const ConstTensorView& targets,
                                           const LogpOptions& options, const LogpOutputs& outputs)>;

/// Results of the rows [first_row, first_row + rows), in the element type of the contract.
struct ChunkResult {
  std::int64_t first_row;
  std::int64_t rows;
  std::span<const std::byte> logp, lse, entropy;  // the last two empty unless wanted
};

class LogpJob {
 public:
  /// Throws CliError naming the argument when shapes or element types do not fit, when the library refuses the request,
  /// or when on_invalid is "raise" and a target of a selected row is invalid.
  LogpJob(LogpInputs inputs, const LogpSettings& settings, Wanted wanted, const std::string& backend);

  const Plan& plan() const { return plan_; }
  const LogpInputs& inputs() const { return inputs_; }
  std::int64_t rows() const { return rows_; }
  std::vector<std::int64_t> leading_shape() const;
  bool wants_lse() const { return wanted_.lse; }
  bool wants_entropy() const { return wanted_.entropy; }
  /// F32, or F64 under row64.v1.
  ElementType result_type() const;
  /// {"dtype":"BF16","shape":[4,17,32000],"digest":"0123456789abcdef"}; before run() the digest is zeros.
  std::string logits_json() const;
  std::string digest_hex() const;

  /// Computes all rows, chunk by chunk in row order, and hands each chunk to `sink`.
  void run(const ForwardFunction& forward, ProgressMode progress, const std::string& label,
           const std::function<void(const ChunkResult&)>& sink);

 private:
  struct Buffers;
  void check_targets(const LogpSettings& settings) const;
  void run_chunk(const ForwardFunction& forward, std::int64_t first_row, std::int64_t rows, Buffers& buffers);
  std::span<const std::byte> row_bytes(std::int64_t row) const;

  LogpInputs inputs_;
  LogpOptions options_;
  Wanted wanted_;
  Plan plan_;
  std::int64_t rows_ = 0, columns_ = 0, vocab_ = 0, row_bytes_ = 0;
  std::vector<std::int64_t> targets_;
  std::vector<double> temperature_;     // per row, or empty
  std::vector<std::int64_t> selected_;  // ascending, without repetition, when a row list was given
  std::uint64_t digest_ = 0;
};

}  // namespace samebits::cli
