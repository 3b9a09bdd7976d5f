#!/usr/bin/env bash
# The bits suite for NEON on an x86 machine: cross-compiled for 64-bit Arm, run under emulation. Slow; by hand.
# Needs the Debian packages g++-aarch64-linux-gnu, qemu-user, libgtest-dev (its sources) and libhwy-dev.
# usage: tools/test_neon.sh [gtest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/neon
mkdir -p "$out/include/samebits"
version=$(sed -n 's/^project(samebits VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
sed "s/@PROJECT_VERSION@/$version/g; s/@[A-Za-z_]*@/0/g" cmake/version.h.in > "$out/include/samebits/version.h"
# The one symbol of libhwy that is used: every NEON machine that qemu shows has what the kernels need.
cat > "$out/supported_targets.cpp" <<'CPP'
#include <hwy/targets.h>
namespace hwy {
int64_t SupportedTargets() { return HWY_NEON; }
}  // namespace hwy
CPP
# Only the headers of Highway and GoogleTest: the host's /usr/include must not be seen.
mkdir -p "$out/host" && ln -sfn /usr/include/hwy "$out/host/hwy" && ln -sfn /usr/include/nlohmann "$out/host/nlohmann"
googletest=/usr/src/googletest/googletest
sources=(src/core/*.cpp src/cpu/*.cpp src/ref/logp.cpp src/ref/row.cpp src/ref/row_ops.cpp src/ref/matmul.cpp
  src/ref/tc16.cpp src/ref/linear_logp_backward.cpp src/ref/embedding.cpp tests/cpp/embedding_case.cpp tests/cpp/embedding_test.cpp
  tests/cpp/head_case.cpp tests/cpp/linear_logp_gradient_test.cpp tests/cpp/bits.cpp tests/cpp/logp_case.cpp tests/cpp/run_case.cpp tests/cpp/strided.cpp tests/cpp/random_case.cpp
  tests/cpp/matmul_case.cpp tests/cpp/row_sum_case.cpp tests/cpp/logp_bits_test.cpp tests/cpp/linear_logp_bits_test.cpp
  tests/cpp/matmul_bits_test.cpp tests/cpp/tc16_bits_test.cpp tests/cpp/tc16_golden_test.cpp tests/cpp/row_sum_test.cpp "$out/supported_targets.cpp" "$googletest/src/gtest-all.cc"
  "$googletest/src/gtest_main.cc")
rm -f "$out"/*.o
printf '%s\n' "${sources[@]}" | xargs -P 1 -I{} sh -c '
  object='"$out"'/$(echo "{}" | tr / _).o
  aarch64-linux-gnu-g++ -std=c++20 -O1 -march=armv8-a+crypto -ffp-contract=off -Wall \
    -Wno-attributes -Isrc -Iinclude -Itests/cpp -I'"$out"'/include -I'"$out"'/host -I'"$googletest"' \
    -I'"$googletest"'/include -DSAMEBITS_TEST_DATA="\"$PWD/tests\"" -c "{}" -o "$object"'
aarch64-linux-gnu-g++ -static -pthread "$out"/*.o -o "$out/bits_test"
exec qemu-aarch64 "$out/bits_test" "$@"
