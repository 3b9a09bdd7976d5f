#include "cli/head_forward.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <samebits/matmul.h>

#include "cli/twin.h"

namespace samebits::cli {
namespace {

using ProductFunction = std::function<void(const ConstTensorView&, const ConstTensorView&, const TensorView&,
                                           const MatmulOptions&)>;

// Of weight in one product: the twin decodes it into memory of its own.
constexpr std::int64_t kSlabBytes = 4 << 20;

struct Run {
  std::int64_t first, rows;
};

// Runs of neighbouring rows that take part; the logits of the others are never read.
std::vector<Run> live_runs(std::int64_t rows, const std::int64_t* targets, const LogpOptions& options,
                           std::int64_t vocab) {
  std::vector<char> selected(static_cast<std::size_t>(rows), options.rows ? 0 : 1);
  for (std::int64_t i = 0; options.rows && i < options.rows.numel(); ++i) {
    selected[static_cast<std::size_t>(static_cast<const std::int64_t*>(options.rows.data)[i])] = 1;
  }
  std::vector<Run> runs;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (!selected[static_cast<std::size_t>(row)] || !takes_part(targets[row], options, vocab)) continue;
    if (!runs.empty() && runs.back().first + runs.back().rows == row) {
      ++runs.back().rows;
    } else {
      runs.push_back({row, 1});
    }
  }
  return runs;
}

bool is_unfused(const Head& head, bool twin) { return twin || !head.is_whole(); }

class Unfused {
 public:
  Unfused(const Head& head, std::string contract, ProductFunction product, ForwardFunction forward)
      : head_(head),
        contract_(std::move(contract)),
        product_(std::move(product)),
        forward_(std::move(forward)) {}

  void operator()(const ConstTensorView& hidden, const ConstTensorView& targets, const LogpOptions& options,
                  const LogpOutputs& outputs) {
    const std::int64_t rows = hidden.shape[0], width = head_.width();
    const std::int64_t vocab = options.vocab_size.value_or(head_.vocab());
    const DType real = hidden.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const auto runs = live_runs(rows, static_cast<const std::int64_t*>(targets.data), options, vocab);
    logits_.resize(static_cast<std::size_t>(rows * vocab * dtype_size(real)));
    const std::int64_t most = std::max<std::int64_t>(1, kSlabBytes / (width * dtype_size(hidden.dtype)));
    for (std::int64_t column = 0; column < vocab && !runs.empty();) {
      const ConstTensorView slab = head_.weight_rows(column, std::min(most, vocab - column), slab_);
      const std::int64_t columns = slab.shape[0];
      MatmulOptions product;
      product.contract = contract_;
      product.bias = head_.bias(column, columns);
      for (const Run& run : runs) {
        const auto* a =
            static_cast<const std::byte*>(hidden.data) + run.first * width * dtype_size(hidden.dtype);
        product_({a, hidden.dtype, {run.rows, width}},
                 {slab.data, hidden.dtype, {width, columns}, {1, width}},
                 {logits_.data() + (run.first * vocab + column) * dtype_size(real),
                  real,
                  {run.rows, columns},
                  {vocab, 1}},
                 product);
      }
      column += columns;
    }
    LogpOptions unpadded = options;
    unpadded.vocab_size.reset();
    forward_({logits_.data(), real, {rows, vocab}}, targets, unpadded, outputs);
  }

 private:
  const Head& head_;
  std::string contract_;
  ProductFunction product_;
  ForwardFunction forward_;
  std::vector<std::byte> logits_, slab_;
};

}  // namespace

std::int64_t most_rows_of_call(const Head& head, bool twin) {
  constexpr std::int64_t kMost = 128, kLogitBytes = 128 << 20;
  if (!is_unfused(head, twin)) return 0;
  const std::int64_t bytes = head.type() == ElementType::kF64 ? 8 : 4;
  return std::clamp<std::int64_t>(kLogitBytes / bytes / head.vocab(), 1, kMost);
}

ForwardFunction head_forward(const Head& head, const std::string& contract, const RunOptions& run,
                             bool twin) {
  if (!is_unfused(head, twin)) {
    return [&head, contract, run](const ConstTensorView& hidden, const ConstTensorView& targets,
                                  const LogpOptions& options, const LogpOutputs& outputs) {
      MatmulOptions product;
      product.contract = contract;
      linear_logp_forward(hidden, head.weight(), targets, head.bias(0, head.vocab()), options, outputs,
                          product, run.context());
    };
  }
  const auto by_library = [run](const ConstTensorView& a, const ConstTensorView& b, const TensorView& out,
                                const MatmulOptions& options) { matmul(a, b, out, options, run.context()); };
  const auto unfused = twin ? std::make_shared<Unfused>(head, contract, twin_matmul, twin_forward)
                            : std::make_shared<Unfused>(head, contract, by_library, library_forward(run));
  return [unfused](const ConstTensorView& hidden, const ConstTensorView& targets, const LogpOptions& options,
                   const LogpOutputs& outputs) { (*unfused)(hidden, targets, options, outputs); };
}

}  // namespace samebits::cli
