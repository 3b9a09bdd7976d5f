// What differs between the two libraries: where results live and how a call is run. The operators on logits are
// compiled into both; cpu/device.cpp and cuda/device.cpp are the two answers.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "convert.h"

// The dispatch key under which a library registers the operators it shares with the other one.
#define SAMEBITS_REGISTER(key, library) STABLE_TORCH_LIBRARY_IMPL(samebits, key, library)

namespace samebits::torch_binding {

// New contiguous tensor on the device of `like`, uninitialised.
Tensor empty(std::span<const std::int64_t> shape, DType dtype, const Tensor& like);

// One call on operands that live where `like` does. Holds the call's scratch.
class Call {
 public:
  Call(const std::string& backend, const Tensor& like);

  const ExecContext& context() const { return context_; }

  // The context with the scratch that `bytes(context)` asks for, where torch's allocator has to provide it: on a
  // GPU, whose streams and graph captures it knows. On the CPU the library allocates for itself.
  template <class Bytes>
  const ExecContext& with_scratch(Bytes&& bytes) {
    if (needs_scratch_) reserve(bytes(context_));
    return context_;
  }

 private:
  void reserve(std::size_t bytes);

  const Tensor& like_;
  bool needs_scratch_ = false;
  ExecContext context_;
  std::optional<Tensor> scratch_;
};

}  // namespace samebits::torch_binding
