#include "cli/head.h"

#include <algorithm>

#include "cli/cli_error.h"
#include "cli/digest.h"

namespace samebits::cli {
namespace {

constexpr const char* kWeightName = "lm_head.weight";
constexpr const char* kBiasName = "lm_head.bias";

std::string text_of(const LocatedTensor& located) {
  const std::string name = located.tensor.name.empty() ? "" : ", " + shown(located.tensor.name);
  return shown(located.file->path()) + name;
}

std::string kind_of(const FileTensor& tensor) {
  return std::string(element_type_name(tensor.type)) + " " + shape_text(tensor.shape);
}

}  // namespace

Head::Head(const std::vector<std::string>& weights, const std::string& bias) {
  for (const std::string& place : weights) parts_.push_back(locate_tensor(place, kWeightName, "--weight"));
  const FileTensor& first = parts_.front().tensor;
  for (const LocatedTensor& part : parts_) {
    const FileTensor& tensor = part.tensor;
    if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
      throw CliError("weight: " + text_of(part) + " has shape " + shape_text(tensor.shape) +
                     "; it may be [vocabulary, hidden size], each at least 1");
    }
    if (tensor.type != first.type || tensor.shape[1] != first.shape[1]) {
      throw CliError("weight: " + text_of(part) + " is " + kind_of(tensor) + "; the first part is " +
                     kind_of(first) + ", and parts of one weight share element type and last axis");
    }
    vocab_ += tensor.shape[0];
    part.file->file().keep();
  }
  dtype_ = floating_dtype(first, "weight");
  width_ = first.shape[1];
  row_bytes_ = width_ * dtype_size(dtype_);
  if (bias.empty()) return;
  bias_ = locate_tensor(bias, kBiasName, "--bias");
  const FileTensor& tensor = bias_.tensor;
  if (tensor.type != first.type || tensor.shape != std::vector{vocab_}) {
    throw CliError("bias: " + text_of(bias_) + " is " + kind_of(tensor) + "; it may be " +
                   std::string(element_type_name(first.type)) + " " + shape_text(std::vector{vocab_}) +
                   ", one entry per row of the weight");
  }
  aligned_bias_.assign(tensor.data.begin(), tensor.data.end());
}

void Head::require_hidden(const FileTensor& hidden) const {
  if (hidden.type == type() && !hidden.shape.empty() && hidden.shape.back() == width_) return;
  const bool logits = !hidden.shape.empty() && hidden.shape.back() == vocab_ && vocab_ != width_;
  throw CliError("hidden: are " + kind_of(hidden) + "; a weight " + std::string(element_type_name(type())) +
                 " " + shape_text(std::vector{vocab_, width_}) + " takes " +
                 std::string(element_type_name(type())) + " [..., " + std::to_string(width_) + "]" +
                 (logits ? " (these look like logits)" : ""));
}

bool Head::is_aligned(const FileTensor& tensor) const {
  return reinterpret_cast<std::uintptr_t>(tensor.data.data()) %
             static_cast<std::uintptr_t>(dtype_size(dtype_)) ==
         0;
}

bool Head::is_whole() const { return parts_.size() == 1 && is_aligned(parts_.front().tensor); }

ConstTensorView Head::weight() const { return {parts_.front().tensor.data.data(), dtype_, {vocab_, width_}}; }

ConstTensorView Head::weight_rows(std::int64_t first, std::int64_t most,
                                  std::vector<std::byte>& buffer) const {
  auto part = parts_.begin();
  for (; first >= part->tensor.shape[0]; ++part) first -= part->tensor.shape[0];
  const std::int64_t rows = std::min(most, part->tensor.shape[0] - first);
  const auto bytes = part->tensor.data.subspan(static_cast<std::size_t>(first * row_bytes_),
                                               static_cast<std::size_t>(rows * row_bytes_));
  if (is_aligned(part->tensor)) return {bytes.data(), dtype_, {rows, width_}};
  buffer.assign(bytes.begin(), bytes.end());
  return {buffer.data(), dtype_, {rows, width_}};
}

ConstTensorView Head::bias(std::int64_t first, std::int64_t count) const {
  if (bias_source() == nullptr) return {};
  return {aligned_bias_.data() + first * dtype_size(dtype_), dtype_, {count}};
}

std::uint64_t Head::weight_digest(std::int64_t vocab) const {
  Digest digest;
  for (const LocatedTensor& part : parts_) {
    const std::int64_t rows = std::min(vocab, part.tensor.shape[0]);
    for (std::int64_t row = 0; row < rows; ++row) {
      digest.add(row_digest(part.tensor.data.subspan(static_cast<std::size_t>(row * row_bytes_),
                                                     static_cast<std::size_t>(row_bytes_))));
    }
    vocab -= rows;
  }
  return digest.value();
}

std::uint64_t Head::bias_digest(std::int64_t vocab) const {
  return row_digest(bias_.tensor.data.first(static_cast<std::size_t>(vocab * dtype_size(dtype_))));
}

}  // namespace samebits::cli
