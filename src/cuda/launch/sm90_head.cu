// The SM90a engine of a linear log-probability.
#include "cuda/launch/sm90_head.h"

#include "cuda/launch/sm90_head_operands.h"
#include "order/dot.h"

namespace samebits::cuda {
namespace {

template <class T>
class Sm90Head final : public HeadEngine {
 public:
  Sm90Head(const HeadShape& shape, Sm90Choices choices, std::int64_t multiprocessors)
      : head_{shape, choices}, multiprocessors_(multiprocessors) {}

  const char* name() const override { return "sm90"; }
  std::size_t scratch_bytes(std::int64_t) const override { return Sm90Counters::kBytes; }
  void use_scratch(void* memory) override { counters_.use(memory); }
  bool holds_sums() const override { return true; }
  bool finishes_weight() const override { return true; }
  std::int64_t most_positions_of_weight() const override { return kMostParts * order::kSegment; }
  std::int64_t finish_elements(std::int64_t rows, std::int64_t columns) const override {
    return sm90_finish_elements(rows, columns, head_.shape.hidden_size, multiprocessors_);
  }
  bool saves_p() const override { return kIsBFloat16<T>; }
  void block_stats(const StatsTask& task, const core::DeviceCall& call) override {
    sm90_block_stats(head_, task, call);
  }
  void fill_p(const PTask& task, const core::DeviceCall& call) override { sm90_fill_p(head_, task, call); }
  void add_hidden(const HiddenTask& task, const core::DeviceCall& call) override {
    sm90_add_hidden(head_, counters_, task, call);
  }
  void add_weight(const WeightTask& task, const core::DeviceCall& call) override {
    ends_small_ = sm90_add_weight(head_, counters_, task, call);
  }
  bool ends_small() const override { return ends_small_; }

 private:
  Sm90HeadOperands<T> head_;
  Sm90Counters counters_;
  std::int64_t multiprocessors_;
  bool ends_small_ = false;
};

}  // namespace

std::string no_sm90_head(const HeadShape& shape, Device device) {
  if (!shape.tc16) return "computes tc16 alone";
  if (traits(device).major != 9)
    return "needs a GPU of compute capability 9.0, this one is " + traits(device).architecture;
  if (shape.hidden_size > order::kSegment)
    return "takes a hidden size of at most 8192, this one is " + std::to_string(shape.hidden_size);
  if (shape.hidden_size % 2 != 0)
    return "takes an even hidden size, this one is " + std::to_string(shape.hidden_size);
  if (shape.weight.column_stride != 1) return "needs a weight whose last axis is dense";
  const char* why = no_tensor_map(
      {shape.weight.data, shape.dtype, shape.hidden_size, shape.vocab, shape.weight.row_stride});
  return why == nullptr ? "" : "cannot read weight, which " + std::string(why);
}

std::unique_ptr<HeadEngine> make_sm90_head(const HeadShape& shape, Device device) {
  return make_sm90_head_by(sm90_choices(), shape, device);
}

std::unique_ptr<HeadEngine> make_sm90_head_by(Sm90Choices choices, const HeadShape& shape, Device device) {
  const std::int64_t multiprocessors = traits(device).multiprocessors;
  if (shape.dtype == DType::kBFloat16)
    return std::make_unique<Sm90Head<order::BFloat16>>(shape, choices, multiprocessors);
  return std::make_unique<Sm90Head<order::Float16>>(shape, choices, multiprocessors);
}

}  // namespace samebits::cuda
