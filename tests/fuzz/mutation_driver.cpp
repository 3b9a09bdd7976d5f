// A plain mutation fuzzer for compilers without libFuzzer: mutates the files of a corpus for a number of seconds.
// Usage: fuzz_X SECONDS CORPUS_FOLDER. No coverage feedback: it finds less, but runs wherever the project builds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::uint64_t state = 1;
std::uint64_t random_below(std::uint64_t limit) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) % limit;
}

std::string mutate(const std::vector<std::string>& corpus) {
  static const char* const kTokens[] = {
      "{",       "}",   "[",   "]", "\"", ",",    ":",    "-1",    "18446744073709551615",
      "\\u0000", "F32", "<f4", "'", "()", "True", "null", "1e999", "__metadata__"};
  std::string text = corpus[random_below(corpus.size())];
  for (std::uint64_t step = 1 + random_below(6); step > 0; --step) {
    const std::size_t at = random_below(text.size() + 1);
    switch (random_below(7)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_below(256));
        break;
      case 1:
        if (at < text.size()) text[at] ^= static_cast<char>(1 << random_below(8));
        break;
      case 2: text.insert(at, kTokens[random_below(std::size(kTokens))]); break;
      case 3: text.erase(at, random_below(16)); break;
      case 4: text.insert(at, text.substr(random_below(text.size() + 1), random_below(64))); break;
      case 5: text.resize(at); break;
      default: {
        const std::string& other = corpus[random_below(corpus.size())];
        text = text.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s SECONDS CORPUS_FOLDER\n", argv[0]), 2;
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) return std::fprintf(stderr, "%s: no files\n", argv[2]), 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atol(argv[1]));
  std::uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 256; ++i, ++runs) {
      const std::string text = mutate(corpus);
      // A copy of exactly that size, so that a read past the end is seen.
      const std::vector<std::uint8_t> bytes(text.begin(), text.end());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
  std::printf("%llu executions, no finding\n", static_cast<unsigned long long>(runs));
  return 0;
}
