// cuda_bench --tune: which tile and which order of tiles is the fastest for each product on SM90.
#pragma once

#include <cstdint>
#include <string>

namespace samebits::test {

// Normal-like bfloat16 elements of a sequence, from its `first` one on. In the file of the benchmark's kernels.
void fill_bfloat16(void* data, std::int64_t count, std::int64_t first);

// Writes the table of choices (src/cuda/launch/sm90_choices.inc) to `path` and what was measured to stdout. False where the GPU
// has no such products.
bool tune(const std::string& path);

}  // namespace samebits::test
