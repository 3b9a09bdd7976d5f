// What the embedding refuses, before anything is written.
#include <gtest/gtest.h>

#include <functional>

#include <samebits/samebits.h>

namespace samebits::test {
namespace {

// Good calls, whose views a test spoils one at a time.
struct Call {
  float weight[4 * 3] = {}, grad[2 * 3] = {}, out[2 * 3] = {7, 7, 7, 7, 7, 7}, grad_weight[4 * 3];
  std::int64_t ids[2] = {1, 3};

  ConstTensorView ids_view{ids, DType::kInt64, {2}}, weight_view{weight, DType::kFloat32, {4, 3}},
      grad_view{grad, DType::kFloat32, {2, 3}};
  TensorView out_view{out, DType::kFloat32, {2, 3}};
  EmbeddingGradients gradients{{grad_weight, DType::kFloat32, {4, 3}}, {}};
  EmbeddingOptions options;
  ExecContext context;

  Call() { std::fill(std::begin(grad_weight), std::end(grad_weight), 7.0f); }
  void forward() const { embedding_forward(ids_view, weight_view, out_view, options, context); }
  void backward() const { embedding_backward(ids_view, grad_view, gradients, options, context); }
};

struct Refusal {
  const char* argument;
  std::function<void(Call&)> spoil;
};

void expect_refusals(void (Call::*run)() const, std::initializer_list<Refusal> refusals) {
  (Call().*run)();
  for (const auto& [argument, spoil] : refusals) {
    Call call;
    spoil(call);
    try {
      (call.*run)();
      ADD_FAILURE() << argument << " was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.argument()), argument) << error.what();
    }
    for (const float value : call.out) EXPECT_EQ(value, 7) << argument;
    for (const float value : call.grad_weight) EXPECT_EQ(value, 7) << argument;
  }
}

TEST(EmbeddingRefusal, the_lookup_names_the_argument_and_writes_nothing) {
  expect_refusals(&Call::forward,
                  {{"ids", [](Call& c) { c.ids_view = {}; }},
                   {"ids", [](Call& c) { c.ids_view.dtype = DType::kFloat32; }},
                   {"ids", [](Call& c) { c.ids_view.data = nullptr; }},
                   {"ids", [](Call& c) { c.ids_view = {c.ids, DType::kInt64, {1, 1, 1, 1, 1, 1, 1, 2}}; }},
                   {"ids",
                    [](Call& c) {
                      c.ids[1] = 4;
                      c.options.on_invalid = OnInvalid::kRaise;
                    }},
                   {"ids", [](Call& c) { c.ids_view.device = {DeviceType::kCuda, 0}; }},
                   {"weight", [](Call& c) { c.weight_view = {}; }},
                   {"weight", [](Call& c) { c.weight_view.dtype = DType::kInt32; }},
                   {"weight", [](Call& c) { c.weight_view = {c.weight, DType::kFloat32, {12}}; }},
                   {"weight", [](Call& c) { c.weight_view = {c.weight, DType::kFloat32, {0, 3}}; }},
                   {"weight", [](Call& c) { c.weight_view = {c.weight, DType::kFloat32, {4, 0}}; }},
                   {"padding_idx", [](Call& c) { c.options.padding_idx = 4; }},
                   {"padding_idx", [](Call& c) { c.options.padding_idx = -1; }},
                   {"out", [](Call& c) { c.out_view = {}; }},
                   {"out", [](Call& c) { c.out_view.dtype = DType::kBFloat16; }},
                   {"out", [](Call& c) { c.out_view.shape[0] = 1; }},
                   {"out", [](Call& c) { c.out_view.strides = {1, 2}; }},
                   {"out", [](Call& c) { c.out_view.strides = {0, 1}; }},
                   {"out", [](Call& c) { c.out_view.data = c.weight + 6; }},
                   {"backend", [](Call& c) { c.context.backend = "abacus"; }},
                   {"threads", [](Call& c) { c.context.threads = -1; }}});
}

TEST(EmbeddingRefusal, the_gradient_names_the_argument_and_writes_nothing) {
  expect_refusals(
      &Call::backward,
      {{"ids", [](Call& c) { c.ids_view.dtype = DType::kFloat64; }},
       {"ids",
        [](Call& c) {
          c.ids_view = {c.ids, DType::kInt64, {(std::int64_t{1} << 31) + 1}, {0}};
          c.grad_view = {c.grad, DType::kFloat32, {(std::int64_t{1} << 31) + 1, 3}, {0, 1}};
        }},
       {"grad", [](Call& c) { c.grad_view = {}; }},
       {"grad", [](Call& c) { c.grad_view.shape[0] = 1; }},
       {"grad", [](Call& c) { c.grad_view = {c.grad, DType::kFloat32, {6}}; }},
       {"grad_weight", [](Call& c) { c.gradients.weight = {}; }},
       {"grad_weight", [](Call& c) { c.gradients.weight.dtype = DType::kFloat64; }},
       {"grad_weight", [](Call& c) { c.gradients.weight = {c.grad_weight, DType::kFloat32, {12}}; }},
       {"grad_weight", [](Call& c) { c.gradients.weight = {c.grad_weight, DType::kFloat32, {0, 3}}; }},
       {"grad_weight", [](Call& c) { c.gradients.weight.strides = {1, 4}; }},
       {"grad_weight", [](Call& c) { c.gradients.weight.strides = {0, 1}; }},
       {"grad_weight", [](Call& c) { c.gradients.weight.data = c.grad; }},
       {"grad_accumulator", [](Call& c) { c.gradients.weight_accumulator = c.gradients.weight; }},
       {"grad_accumulator",
        [](Call& c) {
          c.gradients.weight_accumulator = c.gradients.weight;
          c.gradients.weight_accumulator.dtype = DType::kFloat64;
          c.gradients.weight = {};
        }},
       {"padding_idx", [](Call& c) { c.options.padding_idx = 4; }},
       {"backend", [](Call& c) { c.context.backend = "abacus"; }},
       {"workspace",
        [](Call& c) { c.context.workspace = std::as_writable_bytes(std::span(c.grad_weight, 12)); }}});
}

TEST(EmbeddingRefusal, a_bad_id_is_named_with_its_position) {
  Call call;
  call.ids[1] = -3;
  call.options.on_invalid = OnInvalid::kRaise;
  try {
    call.forward();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "ids: has id -3 at position 1; ids must be within [0, 4)");
  }
}

}  // namespace
}  // namespace samebits::test
