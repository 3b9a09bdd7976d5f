#include "fuzz_bodies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  samebits::cli::fuzz_npy(std::as_bytes(std::span(data, size)));
  return 0;
}
