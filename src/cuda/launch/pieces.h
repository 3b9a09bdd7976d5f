// The arrays of a call in its scratch: laid out once to be measured, once to be used.
#pragma once

#include "cuda/runtime.h"

namespace samebits::cuda {

class Pieces {
 public:
  // Null: only measures.
  explicit Pieces(Scratch* scratch) : scratch_(scratch) {}

  template <class T>
  void take(T*& array, std::int64_t count) {
    array = static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes) {
    bytes_ += Scratch::rounded(bytes);
    return scratch_ == nullptr ? nullptr : scratch_->take(bytes);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  Scratch* scratch_;
  std::size_t bytes_ = 0;
};

}  // namespace samebits::cuda
