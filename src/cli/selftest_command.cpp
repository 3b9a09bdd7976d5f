#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>

#include <samebits/plan.h>

#include "cli/app.h"
#include "cli/bits.h"
#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/golden.h"
#include "cli/selftest_case.h"
#include "cli/selftest_embedding.h"
#include "cli/selftest_head.h"
#include "cli/selftest_product.h"
#include "cli/twin.h"

namespace samebits::cli {
namespace {

constexpr const char* kExamples = R"(
Checks, for every backend this machine can run: the golden vectors built into the command, and random calls against the
scalar twin, once with one thread and once with all: logp forward and backward (every element type, masks, infinities,
NaN, all options), the product, linear_logp with its gradients, and the embedding with its. Exit status: 0 all bits the same, 1 some differ.

Examples:
  samebits selftest
  samebits selftest --cases 20000 --backend avx2
)";

struct SelftestArguments {
  std::int64_t cases = 1000;
  std::uint64_t seed = 1;
  bool print_golden = false;
  RunOptions run;
};

SelftestResult run_by_library(const SelftestCase& test, const std::string& backend, int threads) {
  ExecContext context;
  context.backend = backend;
  context.threads = threads;
  return run_selftest_case(
      test,
      [&](const auto& logits, const auto& targets, const auto& options, const auto& outputs) {
        logp_forward(logits, targets, options, outputs, context);
      },
      [&](const auto& logits, const auto& targets, const auto& options, const auto& stats,
          const auto& upstream, const auto& gradient) {
        logp_backward(logits, targets, options, stats, upstream, gradient, context);
      });
}

SelftestResult run_by_twin(const SelftestCase& test) {
  return run_selftest_case(test, twin_forward, twin_backward);
}

// Says where two results differ, once; true when nowhere.
bool same_result(const SelftestCase& test, const SelftestResult& twin, const SelftestResult& result,
                 const std::string& who) {
  for (std::size_t output = 0; output < twin.size(); ++output) {
    const std::size_t size = output_element_bytes(test, output);
    const auto at = first_difference(twin[output], result[output], size);
    if (!at) continue;
    const auto value = [&](const SelftestResult& from) {
      const auto bytes = std::span(from[output]).subspan(static_cast<std::size_t>(*at) * size, size);
      return size == 2 || output == 4 || output == 5 ? pattern_text(bytes) : value_text(bytes);
    };
    std::printf("%s differs from the twin: %s of %s, element %lld: %s, twin %s\n", who.c_str(),
                kSelftestOutputs[output], test.text().c_str(), static_cast<long long>(*at),
                value(result).c_str(), value(twin).c_str());
    return false;
  }
  return true;
}

// The product of a case and, where they exist, the log-probabilities fused with it and an embedding of its operands.
bool same_product(const ProductCase& test, const std::string& who, int threads) {
  ExecContext context;
  context.backend = who;
  context.threads = threads;
  const auto same = [&](const char* what, std::size_t size, const std::vector<std::byte>& twin,
                        const std::vector<std::byte>& result) {
    const auto at = first_difference(twin, result, size);
    if (!at) return true;
    const auto pattern = [&](const std::vector<std::byte>& from) {
      return pattern_text(std::span(from).subspan(static_cast<std::size_t>(*at) * size, size));
    };
    std::printf("%s differs from the twin: %s of %s, element %lld: %s, twin %s\n", who.c_str(), what,
                test.text().c_str(), static_cast<long long>(*at), pattern(result).c_str(),
                pattern(twin).c_str());
    return false;
  };
  const auto out_size = static_cast<std::size_t>(dtype_size(test.out_dtype));
  if (!same("matmul", out_size, product_by_twin(test), product_by_library(test, context))) return false;
  if (test.depth == 0) return true;
  if (!same("linear_logp", test.dtype == DType::kFloat64 ? 8 : 4, linear_logp_by_twin(test),
            linear_logp_by_library(test, context)))
    return false;
  if (!same("embedding", static_cast<std::size_t>(dtype_size(test.dtype)), embedding_by_twin(test),
            embedding_by_library(test, context)))
    return false;
  constexpr std::int64_t kShallow = 300;  // the twin is slow, and its gradients have no segments along depth
  return test.depth > kShallow ||
         same("gradients of linear_logp", static_cast<std::size_t>(dtype_size(test.dtype)),
              head_gradients_by_twin(test), head_gradients_by_library(test, context));
}

bool check_golden(const std::string& who, const std::function<SelftestResult(const SelftestCase&)>& run,
                  const std::function<std::vector<std::byte>(const ProductCase&)>& multiply) {
  bool same = true;
  for (const ProductGolden& golden : product_goldens()) {
    const std::string expected = product_golden_text(golden);
    const std::string found =
        product_golden_text(product_golden_of(golden, multiply(product_golden_case(golden))));
    if (expected == found) continue;
    std::printf("%s differs from a golden product:\n  recorded %s\n  computed %s\n", who.c_str(),
                expected.c_str(), found.c_str());
    same = false;
  }
  for (const Golden& golden : golden_vectors()) {
    const std::string expected = golden_text(golden);
    const std::string found = golden_text(golden_of(golden, run(golden_case(golden))));
    if (expected == found) continue;
    std::printf("%s differs from a golden vector:\n  recorded %s\n  computed %s\n", who.c_str(),
                expected.c_str(), found.c_str());
    same = false;
  }
  return same;
}

int run_selftest(const SelftestArguments& arguments) {
  if (arguments.print_golden) {
    for (const Golden& golden : golden_vectors()) {
      std::printf("    %s\n", golden_text(golden_of(golden, run_by_twin(golden_case(golden)))).c_str());
    }
    for (const ProductGolden& golden : product_goldens()) {
      const ProductGolden found = product_golden_of(golden, product_by_twin(product_golden_case(golden)));
      std::printf("    %s\n", product_golden_text(found).c_str());
    }
    return kSame;
  }
  std::vector<std::string> names;
  for (const BackendInfo& backend : backends()) {
    const bool asked = arguments.run.backend == "auto" || arguments.run.backend == backend.name;
    if (backend.available && asked) names.push_back(backend.name);
  }
  if (names.empty()) {  // let the library say which names there are
    PlanRequest request;
    request.backend = arguments.run.backend;
    throw CliError(plan(request).refusals.at(0));
  }

  std::map<std::string, std::int64_t> differing;
  differing["scalar twin"] = !check_golden("the scalar twin", run_by_twin, product_by_twin);
  for (const std::string& name : names) {
    ExecContext context;
    context.backend = name;
    differing[name] = !check_golden(
        name, [&](const SelftestCase& test) { return run_by_library(test, name, 1); },
        [&](const ProductCase& test) { return product_by_library(test, context); });
  }

  Progress progress(arguments.run.progress(), "selftest", "cases", arguments.cases);
  Random random(arguments.seed);
  for (std::int64_t i = 0; i < arguments.cases; ++i) {
    const SelftestCase test = random_selftest_case(random);
    const SelftestResult twin = run_by_twin(test);
    const ProductCase product = random_product_case(random);
    for (const std::string& name : names) {
      for (const int threads : {1, arguments.run.threads}) {
        // Ten messages a backend tell as much as ten thousand.
        if (differing[name] >= 10) continue;
        differing[name] += !same_result(test, twin, run_by_library(test, name, threads), name);
        differing[name] += !same_product(product, name, threads);
      }
    }
    progress.advance(1);
  }
  std::int64_t total = 0;
  for (const auto& [name, count] : differing) {
    total += count;
    if (arguments.run.quiet) continue;
    std::printf("%-12s %zu golden vectors%s: %s\n", name.c_str(),
                golden_vectors().size() + product_goldens().size(),
                name == "scalar twin"
                    ? ""
                    : (", " + std::to_string(arguments.cases) + " random calls of logp and matmul").c_str(),
                count == 0    ? "same bits"
                : count >= 10 ? "stopped after 10 differences"
                              : "DIFFERS");
  }
  return total == 0 ? kSame : kDiffers;
}

}  // namespace

void add_selftest(CLI::App& app, int& status) {
  auto arguments = std::make_shared<SelftestArguments>();
  CLI::App* command =
      app.add_subcommand("selftest", "golden vectors, and every backend against the scalar twin");
  command->footer(kExamples);
  command->add_option("--cases", arguments->cases, "random calls")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "seed of the random calls")->capture_default_str();
  command
      ->add_flag("--print-golden", arguments->print_golden, "print the golden table as the twin computes it")
      ->group("");
  arguments->run.add_to(*command);
  command->callback([arguments, &status] { status = run_selftest(*arguments); });
}

}  // namespace samebits::cli
