#!/bin/sh
# Fuzzes both readers under AddressSanitizer and UBSan: tests/fuzz/run.sh [SECONDS EACH, default 600] [READER...]
# Uses clang's libFuzzer when there is one, else g++ and the mutation driver beside this file.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-600}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- npy safetensors
out=build/fuzz
mkdir -p "$out"
sources="src/cli/cli_error.cpp src/cli/file_tensor.cpp src/cli/logp_settings.cpp src/cli/npy.cpp src/cli/safetensors.cpp"
flags="-std=c++20 -O1 -g1 -Isrc -Iinclude -fno-sanitize-recover=all"
clang=
for candidate in clang++ clang++-14; do
  if echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$candidate" -x c++ - -fsanitize=fuzzer,address -o "$out/probe" 2>/dev/null; then
    clang=$candidate
    break
  fi
done
for reader in "$@"; do
  if [ -n "$clang" ]; then
    # shellcheck disable=SC2086
    "$clang" $flags -fsanitize=fuzzer,address,undefined "tests/fuzz/fuzz_$reader.cpp" $sources -o "$out/fuzz_$reader"
    mkdir -p "$out/corpus_$reader"
    "$out/fuzz_$reader" -max_total_time="$seconds" -dict=tests/fuzz/formats.dict -rss_limit_mb=4096 -timeout=10 \
      -print_final_stats=1 -artifact_prefix="$out/$reader-" "$out/corpus_$reader" "tests/fuzz/corpus/$reader"
  else
    # shellcheck disable=SC2086
    g++ $flags -fsanitize=address,undefined "tests/fuzz/fuzz_$reader.cpp" tests/fuzz/mutation_driver.cpp $sources \
      -o "$out/fuzz_$reader"
    "$out/fuzz_$reader" "$seconds" "tests/fuzz/corpus/$reader"
  fi
done
