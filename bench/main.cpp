// samebits_bench: Google Benchmark's own options, and sizes in place of those that the benchmarks have.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

#include "options.h"

namespace {

using samebits::bench::Options, samebits::bench::Registered, samebits::bench::Sizes;

constexpr const char* kHelp =
    "samebits_bench: speed of the library's entry points on a CPU\n"
    "  --rows=N[,N...] --vocab=N[,N...] --hidden=N[,N...] --threads=N[,N...]\n"
    "      sizes in place of those that a benchmark has (rows are the tokens of embedding; 1 to 2^40)\n"
    "  --benchmark_filter=REGEX, --benchmark_list_tests and the other options of Google Benchmark\n\n";

bool parse(std::string_view text, Sizes& to) {
  to.clear();
  while (true) {
    const std::string_view one = text.substr(0, text.find(','));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), value);
    if (error != std::errc() || end != one.data() + one.size() || value < 1 || value > std::int64_t{1} << 40)
      return false;
    to.push_back(value);
    if (one.size() == text.size()) return true;
    text.remove_prefix(one.size() + 1);
  }
}

// Takes the sizes out of the arguments; the exit status, or -1 to go on.
int take_sizes(int& argc, char** argv, Options& options) {
  struct Option {
    std::string_view name;
    Sizes* sizes;
  };
  const Option known[] = {{"--rows=", &options.rows},
                          {"--vocab=", &options.vocab},
                          {"--hidden=", &options.hidden},
                          {"--threads=", &options.threads}};
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") std::fputs(kHelp, stdout);  // Google Benchmark's follows
    const Option* found = nullptr;
    for (const Option& option : known)
      if (argument.starts_with(option.name)) found = &option;
    if (found == nullptr) {
      argv[kept++] = argv[i];
    } else if (!parse(argument.substr(found->name.size()), *found->sizes)) {
      std::fprintf(stderr, "%s: must be whole numbers from 1 to 2^40 with commas between them\n", argv[i]);
      return 2;
    }
  }
  argc = kept;
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int status = take_sizes(argc, argv, options); status >= 0) return status;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Registered::run(options);
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {  // such as no memory for the sizes asked for
    std::fprintf(stderr, "samebits_bench: stopped: %s\n", error.what());
    return 1;
  }
  benchmark::Shutdown();
  return 0;
}
