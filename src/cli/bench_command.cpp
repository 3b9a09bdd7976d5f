#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include <samebits/plan.h>

#include "cli/app.h"
#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/selftest_case.h"

namespace samebits::cli {
namespace {

constexpr const char* kExamples = R"(
A quick look, not a careful benchmark: medians of about half a second per cell. Forward counts one read of the logits,
backward one read and one write; the share is of the read bandwidth measured in the same run with the same threads.

Examples:
  samebits bench
  samebits bench --threads 1 --rows 1 64 1024 --vocab 131072 --json
)";

struct BenchArguments {
  std::vector<std::int64_t> rows = {1, 64, 256};
  std::int64_t vocab = 131072;
  double seconds = 0.5;
  bool json = false;
  RunOptions run;
};

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median time of a call, of as many as fit into `budget` seconds after a first that warms up.
double median_time(double budget, const std::function<void()>& body) {
  std::vector<double> times;
  double total = 0;
  body();
  while (total < budget || times.size() < 3) {
    times.push_back(seconds_of(body));
    total += times.back();
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

int thread_count(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Bytes a second that `threads` threads read from a buffer far larger than any cache.
double read_bandwidth(int threads, double budget) {
  constexpr std::size_t kWords = std::size_t{512} << 17;  // 512 MiB
  const std::vector<std::uint64_t> buffer(kWords, 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 8);
  const double time = median_time(budget, [&] {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const std::size_t begin =
            kWords * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads) / 8 * 8;
        const std::size_t end =
            kWords * static_cast<std::size_t>(t + 1) / static_cast<std::size_t>(threads) / 8 * 8;
        std::uint64_t lanes[8] = {};
        for (std::size_t i = begin; i < end; i += 8) {
          for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += buffer[i + lane];
        }
        for (const std::uint64_t lane : lanes) sums[static_cast<std::size_t>(t) * 8] += lane;
      });
    }
  });
  if (sums[0] == 0) throw CliError("bench: the read loop read nothing");
  return static_cast<double>(kWords) * 8 / time;
}

nlohmann::ordered_json measure(const BenchArguments& arguments, DType dtype, std::int64_t rows,
                               double bandwidth) {
  const std::int64_t vocab = arguments.vocab, bytes = rows * vocab * dtype_size(dtype);
  std::vector<std::byte> logits(static_cast<std::size_t>(bytes)), gradient(logits.size());
  Random random(7);
  for (std::int64_t i = 0; i < rows * vocab; ++i) store_element(logits, dtype, i, random.signed_unit() * 10);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows)), sums(targets.size());
  for (std::int64_t& target : targets) target = random.below(vocab);
  std::vector<float> logp(targets.size()), maxima(targets.size()), upstream(targets.size(), 1.0f);

  const ConstTensorView logits_view(logits.data(), dtype, {rows, vocab});
  const ConstTensorView targets_view(targets.data(), DType::kInt64, {rows});
  LogpOutputs outputs;
  outputs.logp = TensorView(logp.data(), DType::kFloat32, {rows});
  outputs.row_max = TensorView(maxima.data(), DType::kFloat32, {rows});
  outputs.row_sum = TensorView(sums.data(), DType::kInt64, {rows});
  const LogpStats stats = {outputs.row_max, outputs.row_sum, {}};
  LogpUpstream gradients;
  gradients.logp = ConstTensorView(upstream.data(), DType::kFloat32, {rows});
  const TensorView gradient_view(gradient.data(), dtype, {rows, vocab});

  nlohmann::ordered_json cell = {{"dtype", dtype_name(dtype)}, {"rows", rows}, {"vocab", vocab}};
  const auto add = [&](const char* pass, double seconds, double moved) {
    cell[pass] = {{"milliseconds", seconds * 1e3},
                  {"gigabytes_per_second", moved / seconds * 1e-9},
                  {"share_of_read", moved / seconds / bandwidth}};
  };
  const ExecContext context = arguments.run.context();
  add("forward",
      median_time(arguments.seconds, [&] { logp_forward(logits_view, targets_view, {}, outputs, context); }),
      static_cast<double>(bytes));
  add("backward",
      median_time(
          arguments.seconds,
          [&] { logp_backward(logits_view, targets_view, {}, stats, gradients, gradient_view, context); }),
      2.0 * static_cast<double>(bytes));
  return cell;
}

void run_bench(const BenchArguments& arguments) {
  PlanRequest request;
  request.backend = arguments.run.backend;
  const Plan plan = samebits::plan(request);
  if (!plan.refusals.empty()) throw CliError(plan.refusals[0]);
  for (const std::int64_t rows : arguments.rows) {
    if (rows > (std::int64_t{1} << 33) / arguments.vocab) {
      throw CliError("--rows: " + std::to_string(rows) + " rows of " + std::to_string(arguments.vocab) +
                     " logits are too many; rows x vocab may be at most 2^33");
    }
  }
  const int threads = thread_count(arguments.run.threads);
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
  Progress progress(arguments.run.progress(), "bench", "cells",
                    1 + static_cast<std::int64_t>(arguments.rows.size() * std::size(kTypes)));
  const double bandwidth = read_bandwidth(threads, arguments.seconds);
  progress.advance(1);
  nlohmann::ordered_json json = {{"backend", plan.backend},
                                 {"threads", threads},
                                 {"read_gigabytes_per_second", bandwidth * 1e-9},
                                 {"cells", nlohmann::ordered_json::array()}};
  for (const DType dtype : kTypes) {
    for (const std::int64_t rows : arguments.rows) {
      json["cells"].push_back(measure(arguments, dtype, rows, bandwidth));
      progress.advance(1);
    }
  }
  if (arguments.json) {
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf("%s, %d threads, pure read %.1f GB/s, vocabulary %lld\n\n", plan.backend.c_str(), threads,
              bandwidth * 1e-9, static_cast<long long>(arguments.vocab));
  std::printf("%-10s %6s   %28s   %28s\n", "", "", "forward", "backward (read + write)");
  std::printf("%-10s %6s   %10s %9s %7s   %10s %9s %7s\n", "dtype", "rows", "ms", "GB/s", "share", "ms",
              "GB/s", "share");
  for (const auto& cell : json["cells"]) {
    std::printf("%-10s %6lld", cell["dtype"].get<std::string>().c_str(),
                static_cast<long long>(cell["rows"].get<std::int64_t>()));
    for (const char* pass : {"forward", "backward"}) {
      std::printf("   %10.3f %9.2f %6.0f%%", cell[pass]["milliseconds"].get<double>(),
                  cell[pass]["gigabytes_per_second"].get<double>(),
                  cell[pass]["share_of_read"].get<double>() * 100);
    }
    std::printf("\n");
  }
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "throughput of logp beside the machine's read bandwidth");
  command->footer(kExamples);
  command->add_option("--rows", arguments->rows, "numbers of rows")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 33))
      ->capture_default_str();
  command->add_option("--vocab", arguments->vocab, "vocabulary size")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 22))
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "time for each cell")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print JSON");
  arguments->run.add_to(*command);
  command->callback([arguments, &status] {
    run_bench(*arguments);
    status = kSame;
  });
}

}  // namespace samebits::cli
