// What linear_logp_backward refuses, before anything is written.
#include <gtest/gtest.h>

#include <functional>

#include <samebits/samebits.h>

namespace samebits::test {
namespace {

// A good call, whose views a test spoils one at a time.
struct Call {
  float hidden[2 * 3] = {}, weight[4 * 3] = {}, bias[4] = {}, row_max[2] = {}, upstream[2] = {};
  std::int64_t targets[2] = {}, row_sum[2] = {std::int64_t{1} << 42, std::int64_t{1} << 42},
               row_entropy_sum[2] = {};
  float grad_hidden[2 * 3] = {7, 7, 7, 7, 7, 7}, grad_weight[4 * 3] = {}, grad_bias[4] = {};

  ConstTensorView hidden_view{hidden, DType::kFloat32, {2, 3}}, weight_view{weight, DType::kFloat32, {4, 3}},
      targets_view{targets, DType::kInt64, {2}}, bias_view{bias, DType::kFloat32, {4}};
  LogpOptions options;
  LogpStats stats{{row_max, DType::kFloat32, {2}}, {row_sum, DType::kInt64, {2}}, {}};
  LogpUpstream upstreams{{upstream, DType::kFloat32, {2}}, {}, {}};
  LinearLogpGradients gradients{{grad_hidden, DType::kFloat32, {2, 3}},
                                {grad_weight, DType::kFloat32, {4, 3}},
                                {},
                                {grad_bias, DType::kFloat32, {4}}};
  std::string_view contract = "auto";
  ExecContext context;
  ConstTensorView saved{hidden, DType::kFloat32, {0, 64}};

  void run() const {
    linear_logp_backward(hidden_view, weight_view, targets_view, bias_view, options, stats, upstreams,
                         gradients, contract, context, saved);
  }
};

TEST(LinearLogpGradientRefusal, names_the_argument_and_writes_nothing) {
  const struct {
    const char* argument;
    std::function<void(Call&)> spoil;
  } cases[] = {
      {"weight", [](Call& c) { c.weight_view.dtype = DType::kFloat64; }},
      {"hidden", [](Call& c) { c.hidden_view = {c.hidden, DType::kFloat32, {3, 2}}; }},
      {"targets", [](Call& c) { c.targets_view.shape[0] = 1; }},
      {"bias", [](Call& c) { c.bias_view.shape[0] = 3; }},
      {"contract", [](Call& c) { c.contract = "tc16"; }},
      {"contract", [](Call& c) { c.contract = "best"; }},
      {"precision", [](Call& c) { c.options.precision = Precision::kFloat64; }},
      {"vocab_size", [](Call& c) { c.options.vocab_size = 5; }},
      {"targets",
       [](Call& c) {
         c.targets[1] = 4;
         c.options.on_invalid = OnInvalid::kRaise;
       }},
      {"row_max", [](Call& c) { c.stats.row_max = {}; }},
      {"row_sum", [](Call& c) { c.stats.row_sum.dtype = DType::kFloat64; }},
      {"row_entropy_sum", [](Call& c) { c.upstreams.entropy = c.upstreams.logp; }},
      {"grad_logp", [](Call& c) { c.upstreams.logp.dtype = DType::kFloat16; }},
      {"grad_lse", [](Call& c) { c.upstreams.lse = {c.upstream, DType::kFloat32, {1}}; }},
      {"grad_hidden", [](Call& c) { c.gradients.hidden.dtype = DType::kBFloat16; }},
      {"grad_hidden", [](Call& c) { c.gradients.hidden.strides = {1, 2}; }},
      {"grad_hidden", [](Call& c) { c.gradients.hidden.strides = {0, 1}; }},
      {"grad_hidden", [](Call& c) { c.gradients.hidden.data = c.weight; }},
      {"grad_weight", [](Call& c) { c.gradients.weight.shape[0] = 3; }},
      {"grad_weight", [](Call& c) { c.gradients.weight.data = c.grad_hidden; }},
      {"grad_weight_accumulator", [](Call& c) { c.gradients.weight_accumulator = c.gradients.weight; }},
      {"grad_weight_accumulator",
       [](Call& c) {
         c.gradients.weight_accumulator = c.gradients.weight;
         c.gradients.weight_accumulator.dtype = DType::kFloat64;
         c.gradients.weight = {};
       }},
      {"saved", [](Call& c) { c.saved.dtype = DType::kBFloat16; }},
      {"saved", [](Call& c) { c.saved.shape[0] = 3; }},
      {"saved", [](Call& c) { c.saved.shape[1] = 4; }},
      {"saved", [](Call& c) { c.saved = {c.hidden, DType::kFloat32, {64}}; }},
      {"saved", [](Call& c) { c.saved = {c.hidden, DType::kFloat32, {2, 64}}; }},  // no forward pass keeps it
      {"saved",
       [](Call& c) {
         for (ConstTensorView* view : {&c.hidden_view, &c.weight_view, &c.bias_view})
           view->dtype = DType::kBFloat16;
         c.saved = {c.hidden, DType::kBFloat16, {2, 64}, {0, 1}};
       }},
      {"grad_bias", [](Call& c) { c.bias_view = {}; }},
      {"grad_bias", [](Call& c) { c.gradients.bias.shape[0] = 5; }},
      {"backend", [](Call& c) { c.context.backend = "abacus"; }},
      {"threads", [](Call& c) { c.context.threads = -1; }},
      {"workspace",
       [](Call& c) { c.context.workspace = std::as_writable_bytes(std::span(c.grad_weight, 12)); }},
  };
  Call().run();
  for (const auto& [argument, spoil] : cases) {
    Call call;
    spoil(call);
    try {
      call.run();
      ADD_FAILURE() << argument << " was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.argument()), argument) << error.what();
    }
    for (const float value : call.grad_hidden) EXPECT_EQ(value, 7) << argument;
  }
}

}  // namespace
}  // namespace samebits::test
