// What logp and linear_logp check alike, before anything is written.
#pragma once

#include <memory>
#include <string>

#include <samebits/logp.h>

#include "core/backend.h"
#include "core/logp_problem.h"

namespace samebits::core {

// "[2, 3]"
template <class Void>
std::string shape_text(const BasicTensorView<Void>& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) text += (i ? ", " : "") + std::to_string(view.shape[i]);
  return text + "]";
}

// Throws unless rank, dtype, extents and strides of `view` are ones a view may have: its fields are public, so its
// constructors are not the only way to them.
void check_view(const ConstTensorView& view, const char* name);

// The same, and throws unless `view` lies on `device`, which this build can reach, is aligned, and has no null data
// where it has elements.
void check_memory(const ConstTensorView& view, const char* name, Device device = {});

// Throws if the two views share a byte, or if elements of `output` coincide.
void check_no_overlap(const ConstTensorView& output, const char* output_name, const ConstTensorView& input,
                      const char* input_name);
void check_writable(const ConstTensorView& output, const char* name, Device device = {});

// Throws if the caller's workspace shares a byte with an operand; absent views are passed over.
void check_workspace(std::span<std::byte> workspace,
                     std::initializer_list<std::pair<const char*, ConstTensorView>> operands);

// Throws unless the last axis of `view` is dense.
void check_dense(const ConstTensorView& view, const char* name);

// Throws unless `tau` is a temperature.
void check_temperature(double tau);

// The true vocabulary within `columns` columns (0: how many is not known yet); throws where it is none.
std::int64_t true_vocab(const LogpOptions& options, std::int64_t columns, const char* columns_name);

// The semantics half of a problem: rows of `source` (logits or hidden; its last axis is not a row axis), targets,
// temperature, ids. `columns` is the vocabulary axis. The row list is filled in later (select_rows).
LogpProblem make_problem(const ConstTensorView& source, const char* source_name, std::int64_t columns,
                         const char* columns_name, const ConstTensorView& targets,
                         const LogpOptions& options);

// The output half; every output is checked against every input.
void set_outputs(LogpProblem& problem, const ConstTensorView& source, const LogpOutputs& outputs,
                 std::initializer_list<std::pair<const char*, ConstTensorView>> inputs);

// 64-bit words of the bitmap that `options.rows` needs (0 without a row list), and its filling.
std::size_t selection_words(const LogpProblem& problem, const LogpOptions& options);
void select_rows(LogpProblem& problem, const LogpOptions& options, std::uint64_t* words);

// OnInvalid::kRaise: names the first bad position.
void raise_on_invalid(const LogpProblem& problem, OnInvalid on_invalid);
[[noreturn]] void raise_invalid_target(const LogpProblem& problem, std::int64_t row, std::int64_t id);

// Scratch of a call: the caller's workspace when it is large enough, else one allocation. 64-byte aligned.
class Scratch {
 public:
  Scratch(std::span<std::byte> workspace, std::size_t bytes);
  std::byte* data() const { return data_; }
  // What follows the first `used` bytes.
  std::span<std::byte> after(std::size_t used) const { return {data_ + used, bytes_ - used}; }
  // Bytes to ask of the caller so that `bytes` fit behind any alignment.
  static std::size_t padded(std::size_t bytes) { return bytes + 64; }

 private:
  std::unique_ptr<std::byte[]> owned_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace samebits::core
