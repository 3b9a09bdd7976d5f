// What an audit found, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/comparison.h"
#include "cli/logp_job.h"
#include "cli/record.h"

namespace samebits::cli {

struct AuditFindings {
  std::vector<Comparison> comparisons;  // of the tensors that the record holds
  std::vector<RecordedInput> inputs;    // that it identifies
  std::string recorded_provenance;      // JSON: who made the record, and under which contract
  std::string judge;                    // backend, or the scalar twin
  std::int64_t first_row = 0;           // where this run began; before that, an earlier one
  std::int64_t computed = 0;            // rows that took part in this run
  double seconds = 0;                   // of this run

  bool all_same() const;
};

/// One line for each tensor or input that differs, or the one line that all is the same.
void print_findings(const AuditFindings& findings, const LogpJob& job);

/// The same, with the rate and both provenances: of the record, and of what was recomputed.
std::string findings_json(const AuditFindings& findings, const LogpJob& job);

}  // namespace samebits::cli
