// The LM head of a checkpoint: weight [V, H], whole or in parts that follow each other by rows, and the bias [V].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <samebits/view.h>

#include "cli/tensor_location.h"

namespace samebits::cli {

/// Weights stay where they are in their files.
class Head {
 public:
  /// `weights` are places (see locate_tensor) of matrices with one number of columns; `bias` is a place, or empty. Throws
  /// CliError naming the place when shapes or element types do not fit together.
  Head(const std::vector<std::string>& weights, const std::string& bias);

  std::int64_t vocab() const { return vocab_; }  ///< rows of all parts
  std::int64_t width() const { return width_; }
  ElementType type() const { return parts_.front().tensor.type; }
  const std::vector<LocatedTensor>& parts() const { return parts_; }
  const LocatedTensor* bias_source() const { return bias_.file ? &bias_ : nullptr; }

  /// Throws CliError unless `hidden` [..., H] is of the element type and width of the weight.
  void require_hidden(const FileTensor& hidden) const;

  /// True when weight() can be taken: one part, whose data is aligned to its elements.
  bool is_whole() const;
  ConstTensorView weight() const;
  /// Rows from `first` on, at most `most` and none of a further part; copied into `buffer` only when unaligned.
  ConstTensorView weight_rows(std::int64_t first, std::int64_t most, std::vector<std::byte>& buffer) const;
  /// Entries [first, first + count); an absent view when there is no bias.
  ConstTensorView bias(std::int64_t first, std::int64_t count) const;

  /// Digests of the true vocabulary, whatever the parts. One read of the weight.
  std::uint64_t weight_digest(std::int64_t vocab) const;
  std::uint64_t bias_digest(std::int64_t vocab) const;

 private:
  bool is_aligned(const FileTensor& tensor) const;

  std::vector<LocatedTensor> parts_;
  LocatedTensor bias_;
  std::vector<std::byte> aligned_bias_;
  DType dtype_;
  std::int64_t vocab_ = 0, width_ = 0, row_bytes_ = 0;
};

}  // namespace samebits::cli
