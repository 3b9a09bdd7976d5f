// What matmul and linear_logp refuse, with which code, and what the message names; nothing is written then.
#include <gtest/gtest.h>

#include <vector>

#include <samebits/samebits.h>

namespace samebits::test {
namespace {

std::vector<double> memory(4096, 7.0);
std::vector<double> written(64, 7.0);

ConstTensorView matrix(std::initializer_list<std::int64_t> shape, DType dtype = DType::kFloat32) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  // A matrix of equal elements is enough where only shapes matter.
  if (count > 4096) return {memory.data(), dtype, shape, {0, 0}};
  return {memory.data(), dtype, shape};
}

TensorView output(std::initializer_list<std::int64_t> shape, DType dtype = DType::kFloat32) {
  return {written.data(), dtype, shape};
}

template <class Call>
void refuses(ErrorCode code, const std::string& argument, std::initializer_list<std::string> says,
             Call call) {
  try {
    call();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.argument(), argument) << error.what();
    for (const std::string& part : says)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << " lacks " << part;
  }
  EXPECT_EQ(written, std::vector<double>(64, 7.0)) << "something was written";
}

void head(const ConstTensorView& hidden, const ConstTensorView& weight, const ConstTensorView& bias = {},
          const LogpOptions& options = {}, std::int64_t target_count = 4, const MatmulOptions& product = {}) {
  static const std::vector<std::int64_t> ids(16, 0);
  LogpOutputs outputs;
  outputs.logp = output({4}, hidden.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
  linear_logp_forward(hidden, weight, {ids.data(), DType::kInt64, {target_count}}, bias, options, outputs,
                      product);
}

TEST(MatmulRefusal, shapes_that_do_not_fit_are_both_named) {
  refuses(ErrorCode::kInvalidArgument, "b", {"[2, 3]", "[4, 5]"},
          [] { matmul(matrix({2, 3}), matrix({4, 5}), output({2, 5})); });
  refuses(ErrorCode::kInvalidArgument, "out", {"[2, 4]", "[2, 5]"},
          [] { matmul(matrix({2, 3}), matrix({3, 5}), output({2, 4})); });
  refuses(ErrorCode::kInvalidArgument, "a", {"[3]"},
          [] { matmul(matrix({3}), matrix({3, 5}), output({2, 5})); });
  refuses(ErrorCode::kInvalidArgument, "b", {"[3, 5, 1]"},
          [] { matmul(matrix({2, 3}), matrix({3, 5, 1}), output({2, 5})); });
}

TEST(MatmulRefusal, sums_longer_than_any_memory_are_not_begun) {
  constexpr std::int64_t kHidden = std::int64_t{1} << 31, kDepth = std::int64_t{1} << 36;
  refuses(ErrorCode::kInvalidArgument, "a", {"[2, 68719476737]", "at most 68719476736 products"},
          [] { matmul(matrix({2, kDepth + 1}), matrix({kDepth + 1, 5}), output({2, 5})); });
  refuses(ErrorCode::kInvalidArgument, "weight", {"[5, 2147483649]", "at most 2147483648 products"},
          [] { head(matrix({4, kHidden + 1}), matrix({5, kHidden + 1})); });
}

TEST(MatmulRefusal, mixed_and_wrong_types) {
  refuses(ErrorCode::kType, "b", {"float64", "float32"},
          [] { matmul(matrix({2, 3}), matrix({3, 5}, DType::kFloat64), output({2, 5})); });
  refuses(ErrorCode::kType, "a", {"int64"},
          [] { matmul(matrix({2, 3}, DType::kInt64), matrix({3, 5}), output({2, 5})); });
  refuses(ErrorCode::kType, "out", {"float64", "float32"},
          [] { matmul(matrix({2, 3}), matrix({3, 5}), output({2, 5}, DType::kFloat64)); });
  refuses(ErrorCode::kType, "out", {"float16", "bfloat16 or float32"}, [] {
    matmul(matrix({2, 3}, DType::kBFloat16), matrix({3, 5}, DType::kBFloat16),
           output({2, 5}, DType::kFloat16), {"fma"});
  });
}

TEST(MatmulRefusal, contracts_that_do_not_exist_here) {
  refuses(ErrorCode::kInvalidArgument, "contract", {"'fast'", "'fma'"},
          [] { matmul(matrix({2, 3}), matrix({3, 5}), output({2, 5}), {"fast"}); });
  refuses(ErrorCode::kInvalidArgument, "contract", {"tc16", "float32"},
          [] { matmul(matrix({2, 3}), matrix({3, 5}), output({2, 5}), {"tc16"}); });
  refuses(ErrorCode::kInvalidArgument, "contract", {"tc16", "float64"}, [] {
    head(matrix({4, 8}, DType::kFloat64), matrix({6, 8}, DType::kFloat64), {}, {}, 4, {"tc16"});
  });
}

TEST(MatmulRefusal, outputs_that_cannot_be_written) {
  const TensorView inside(memory.data() + 1, DType::kFloat32, {2, 5});
  refuses(ErrorCode::kInvalidArgument, "out", {"shares memory with a"},
          [&] { matmul(matrix({2, 3}), matrix({3, 5}), inside); });
  const TensorView strided(written.data(), DType::kFloat32, {2, 5}, {10, 2});
  refuses(ErrorCode::kInvalidArgument, "out", {"stride 2"},
          [&] { matmul(matrix({2, 3}), matrix({3, 5}), strided); });
  const TensorView equal_rows(written.data(), DType::kFloat32, {2, 5}, {0, 1});
  refuses(ErrorCode::kInvalidArgument, "out", {"stride 0"},
          [&] { matmul(matrix({2, 3}), matrix({3, 5}), equal_rows); });
  const TensorView null(nullptr, DType::kFloat32, {2, 5});
  refuses(ErrorCode::kInvalidArgument, "out", {"null"},
          [&] { matmul(matrix({2, 3}), matrix({3, 5}), null); });
  refuses(ErrorCode::kInvalidArgument, "out", {"missing"},
          [] { matmul(matrix({2, 3}), matrix({3, 5}), TensorView()); });
}

TEST(MatmulRefusal, a_bias_that_does_not_fit) {
  const auto with = [](const ConstTensorView& bias, const TensorView& out) {
    MatmulOptions options;
    options.bias = bias;
    return [=] { matmul(matrix({2, 3}), matrix({3, 5}), out, options); };
  };
  refuses(ErrorCode::kInvalidArgument, "bias", {"[4]", "[5]"}, with(matrix({4}), output({2, 5})));
  refuses(ErrorCode::kType, "bias", {"float64", "float32"},
          with(matrix({5}, DType::kFloat64), output({2, 5})));
  const TensorView inside(memory.data() + 1000, DType::kFloat32, {2, 5});
  refuses(ErrorCode::kInvalidArgument, "out", {"shares memory with bias"},
          with({memory.data() + 1001, DType::kFloat32, {5}}, inside));
  MatmulOptions twice;
  twice.bias = matrix({5});
  LogpOutputs outputs;
  refuses(ErrorCode::kInvalidArgument, "bias", {"argument of linear_logp_forward"}, [&] {
    linear_logp_forward(matrix({1, 3}), matrix({5, 3}), {written.data(), DType::kInt64, {1}}, {}, {}, outputs,
                        twice);
  });
}

TEST(MatmulRefusal, an_unknown_backend_lists_the_choices) {
  ExecContext context;
  context.backend = "gpu9";
  refuses(ErrorCode::kInvalidArgument, "backend", {"gpu9", "scalar"},
          [&] { matmul(matrix({2, 3}), matrix({3, 5}), output({2, 5}), {}, context); });
}

// field-failures A33.
TEST(LinearLogpRefusal, a33_logits_where_hidden_states_belong) {
  refuses(ErrorCode::kInvalidArgument, "hidden", {"[4, 151936]", "[151936, 896]", "logits"},
          [] { head(matrix({4, 151936}), matrix({151936, 896})); });
  refuses(ErrorCode::kInvalidArgument, "hidden", {"[4, 9]", "[6, 8]"},
          [] { head(matrix({4, 9}), matrix({6, 8})); });
  refuses(ErrorCode::kInvalidArgument, "targets", {"[5]", "[4]"},
          [] { head(matrix({4, 8}), matrix({6, 8}), {}, {}, 5); });
  refuses(ErrorCode::kInvalidArgument, "bias", {"[5]", "[6, 8]"},
          [] { head(matrix({4, 8}), matrix({6, 8}), matrix({5})); });
  refuses(ErrorCode::kInvalidArgument, "weight", {"[8]"}, [] { head(matrix({4, 8}), matrix({8})); });
  refuses(ErrorCode::kInvalidArgument, "weight", {"[0, 8]"}, [] { head(matrix({4, 8}), matrix({0, 8})); });
  refuses(ErrorCode::kInvalidArgument, "weight", {"[6, 0]"}, [] { head(matrix({4, 0}), matrix({6, 0})); });
}

TEST(LinearLogpRefusal, types_and_options) {
  refuses(ErrorCode::kType, "weight", {"float64", "float32"},
          [] { head(matrix({4, 8}), matrix({6, 8}, DType::kFloat64)); });
  refuses(ErrorCode::kType, "bias", {"float64", "float32"},
          [] { head(matrix({4, 8}), matrix({6, 8}), matrix({6}, DType::kFloat64)); });
  LogpOptions wide;
  wide.precision = Precision::kFloat64;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    refuses(ErrorCode::kUnsupported, "precision", {"fp64", std::string(dtype_name(dtype))},
            [&] { head(matrix({4, 8}, dtype), matrix({6, 8}, dtype), {}, wide); });
  LogpOptions cold;
  cold.temperature = 0;
  refuses(ErrorCode::kInvalidArgument, "temperature", {"0"},
          [&] { head(matrix({4, 8}), matrix({6, 8}), {}, cold); });
  LogpOptions large;
  large.vocab_size = 7;
  refuses(ErrorCode::kInvalidArgument, "vocab_size", {"7", "6"},
          [&] { head(matrix({4, 8}), matrix({6, 8}), {}, large); });
}

}  // namespace
}  // namespace samebits::test
