// Runs a LogpCase through the public API, from tensors laid out in any way.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <samebits/samebits.h>

#include "logp_case.h"
#include "strided.h"

namespace samebits::test {

// How the tensors of a call lie in memory. Nothing here may change a bit.
struct Layout {
  std::vector<std::int64_t> leading = {};  // empty: [rows]
  Placement logits = {}, grad = {};        // `expanded` is taken where the rows are equal
  Placement per_row = {};                  // targets, temperatures and upstreams
  Placement outputs = {};                  // logp, lse, entropy
  bool narrow_ids = false;                 // int32 targets, when all fit
  bool narrow_rows = false;                // int32 row list
  enum class Workspace { kNone, kGiven, kTooSmall } workspace = Workspace::kNone;
  bool with_entropy = true;  // ask for entropy and U; otherwise both keep kFill in the result
  bool with_stats = true;    // ask for M, S and U
};

// Options of the case; row_temperature and rows are left to the caller.
LogpOptions options_of(const LogpCase& logp_case);

// Forward, then backward and probability with `saved` as statistics (the twin's). Fails the running test when a gap or an
// input was written.
LogpResult run_case(const LogpCase& logp_case, const LogpResult& saved, const Layout& layout = {},
                    const ExecContext& context = {});
LogpResult run_case(const LogpCase& logp_case, const LogpResult& saved, const Layout& layout,
                    const ExecContext& context, Residence& residence);

// What run_case is expected to give: the twin's answer with what was not asked for left at kFill.
LogpResult expected_of(const LogpCase& logp_case, const LogpResult& twin_result, const Layout& layout);

// The names of all backends this machine can run, fastest first.
std::vector<std::string> available_backends();

// A test of each of them: INSTANTIATE_TEST_SUITE_P over available_backends().
class BackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  ExecContext context(int threads = 2) const {
    ExecContext context;
    context.backend = GetParam();
    context.threads = threads;
    return context;
  }
};

}  // namespace samebits::test
