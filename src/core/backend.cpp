#include "core/backend.h"

#include <cstdlib>
#include <string>

#include <samebits/error.h>
#include <samebits/plan.h>
#include <samebits/version.h>

#include "core/thread_pool.h"

namespace samebits {

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> list;
  for (const core::Backend& backend : core::cpu_backends()) {
    const bool available = backend.available();
    list.push_back({backend.name, available, available ? "" : backend.requirement});
  }
  return list;
}

std::string_view version() { return kVersion; }

namespace core {
namespace {

std::string choices() {
  std::string text = "may be 'auto'";
  for (const Backend& backend : cpu_backends())
    if (backend.available()) text += std::string(", '") + backend.name + "'";
  return text + " on this machine";
}

const Backend& named(std::string_view name, const char* argument) {
  for (const Backend& backend : cpu_backends()) {
    if (name != backend.name) continue;
    if (backend.available()) return backend;
    throw Error(ErrorCode::kUnsupported, argument,
                "is '" + std::string(name) + "', which needs " + backend.requirement + "; " + choices());
  }
  throw Error(ErrorCode::kInvalidArgument, argument, "is '" + std::string(name) + "'; " + choices());
}

const Backend& automatic() {
  if (const char* forced = std::getenv("SAMEBITS_FORCE_BACKEND"); forced != nullptr && *forced != '\0')
    return named(forced, "SAMEBITS_FORCE_BACKEND");
  for (const Backend& backend : cpu_backends())
    if (backend.available()) return backend;
  throw Error(ErrorCode::kUnsupported, "backend", "none of this build can run here");
}

}  // namespace

const Backend& pick_backend(std::string_view name) {
  if (name != "auto") return named(name, "backend");
  static const Backend& best = automatic();
  return best;
}

// Far above any machine that gains from it; keeps a slip of the pen from starting a million threads.
constexpr int kMaxThreads = 4096;

Executor make_executor(const ExecContext& context) {
  if (context.threads < 0 || context.threads > kMaxThreads)
    throw Error(ErrorCode::kInvalidArgument, "threads",
                "is " + std::to_string(context.threads) + "; must be 0 (as many as the machine has) to " +
                    std::to_string(kMaxThreads));
  Executor executor;
  executor.threads = context.threads > 0 ? context.threads : hardware_threads();
  executor.parallel_for =
      context.parallel_for.run != nullptr ? context.parallel_for : pool_parallel_for(executor.threads);
  executor.workspace = context.workspace;
  return executor;
}

}  // namespace core
}  // namespace samebits
