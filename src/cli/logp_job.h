// A whole file of rows (logits, or hidden states with their head) run through logp in chunks: what `logp` and `audit`
// share.
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

#include "cli/digest.h"
#include "cli/file_tensor.h"
#include "cli/head.h"
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
  const MappedFile* file = nullptr;  // that holds the rows
  FileTensor source;                 // logits [..., vocab], or hidden states [..., H] when there is a head
  const Head* head = nullptr;
  std::string contract = "auto";              // of the head: as MatmulOptions::contract
  std::int64_t most_rows = 0;                 // of one call; 0: no limit but that of memory
  FileTensor targets;                         // [...]
  std::optional<FileTensor> row_temperature;  // [...]
  std::optional<FileTensor> rows;             // [any]
};

/// Whether a row of that target takes part, so far as its id says.
inline bool takes_part(std::int64_t id, const LogpOptions& options, std::int64_t vocab) {
  return id >= 0 && id < vocab && id != options.ignore_index;
}

/// Who computes a chunk of logits or hidden states: the library, or the scalar twin.
using ForwardFunction = std::function<void(const ConstTensorView& rows, const ConstTensorView& targets,
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
  /// Rows of [first, last) that take part: those that are computed.
  std::int64_t live_rows(std::int64_t first, std::int64_t last) const;
  std::int64_t vocab() const { return vocab_; }
  /// "logits", or "hidden" when there is a head.
  const char* source_name() const { return inputs_.head == nullptr ? "logits" : "hidden"; }
  std::vector<std::int64_t> leading_shape() const;
  bool wants_lse() const { return wanted_.lse; }
  bool wants_entropy() const { return wanted_.entropy; }
  /// F32, or F64 under row64.v1.
  ElementType result_type() const;
  /// Digest of the rows computed so far (the selected ones, of logits the true vocabulary alone).
  std::uint64_t digest() const { return digest_; }

  /// Where run() begins: nowhere, or where an earlier run() of the same job came to.
  struct Start {
    std::int64_t row = 0;
    std::uint64_t digest = Digest().value();
  };

  /// Computes all rows from `start` on, chunk by chunk in row order, and hands each chunk to `sink`.
  void run(const ForwardFunction& forward, ProgressMode progress, const std::string& label,
           const std::function<void(const ChunkResult&)>& sink, const Start& start);

 private:
  struct Buffers;
  void check_targets(const LogpSettings& settings) const;
  bool is_live(std::int64_t row) const;
  std::int64_t chunk_rows(std::int64_t first_row) const;
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
  std::uint64_t digest_ = Digest().value();
};

}  // namespace samebits::cli
