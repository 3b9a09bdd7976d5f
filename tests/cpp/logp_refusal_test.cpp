// Every check of logp: the message names the argument, what it was and what it may be, and nothing is written.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include <samebits/samebits.h>

namespace samebits::test {
namespace {

// A call that would succeed; each test spoils one thing.
struct Call {
  static constexpr std::int64_t kRows = 2, kVocab = 5;
  alignas(64) float logits[kRows * kVocab] = {};
  std::int64_t targets[kRows] = {1, 4};
  float logp[kRows], lse[kRows], entropy[kRows], row_max[kRows], upstream[kRows] = {1, 1},
                                                                 grad[kRows * kVocab];
  float temperature[kRows] = {1, 1};
  std::int64_t row_sum[kRows], entropy_sum[kRows], rows[kRows] = {0, 1};

  ConstTensorView logits_view{logits, DType::kFloat32, {kRows, kVocab}};
  ConstTensorView targets_view{targets, DType::kInt64, {kRows}};
  LogpOptions options;
  LogpOutputs outputs;
  LogpStats stats;
  LogpUpstream grads;
  TensorView grad_view{grad, DType::kFloat32, {kRows, kVocab}};
  ExecContext context;

  Call() {
    for (void* bytes : {static_cast<void*>(logp), static_cast<void*>(lse), static_cast<void*>(entropy),
                        static_cast<void*>(row_max)})
      std::memset(bytes, 0x5a, sizeof logp);
    std::memset(row_sum, 0x5a, sizeof row_sum);
    std::memset(entropy_sum, 0x5a, sizeof entropy_sum);
    std::memset(grad, 0x5a, sizeof grad);
    outputs.logp = {logp, DType::kFloat32, {kRows}};
    outputs.lse = {lse, DType::kFloat32, {kRows}};
    outputs.entropy = {entropy, DType::kFloat32, {kRows}};
    outputs.row_max = {row_max, DType::kFloat32, {kRows}};
    outputs.row_sum = {row_sum, DType::kInt64, {kRows}};
    outputs.row_entropy_sum = {entropy_sum, DType::kInt64, {kRows}};
    stats = {outputs.row_max, outputs.row_sum, outputs.row_entropy_sum};
    grads.logp = {upstream, DType::kFloat32, {kRows}};
  }

  bool outputs_are_untouched() const {
    const auto filled = [](const void* bytes, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i)
        if (static_cast<const unsigned char*>(bytes)[i] != 0x5a) return false;
      return true;
    };
    return filled(logp, sizeof logp) && filled(lse, sizeof lse) && filled(entropy, sizeof entropy) &&
           filled(row_max, sizeof row_max) && filled(row_sum, sizeof row_sum) &&
           filled(entropy_sum, sizeof entropy_sum) && filled(grad, sizeof grad);
  }
  void forward() { logp_forward(logits_view, targets_view, options, outputs, context); }
  void backward() { logp_backward(logits_view, targets_view, options, stats, grads, grad_view, context); }
};

struct Refusal {
  const char* name;
  ErrorCode code;
  const char* argument;
  const char* was;     // what the message says it was
  const char* may_be;  // and what it may be
  std::function<void(Call&)> spoil;
  bool forward = true, backward = true;
};

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr auto kType = ErrorCode::kType;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

std::vector<Refusal> refusals() {
  return {
      {"missing_logits", kInvalid, "logits", "missing", "", [](Call& c) { c.logits_view = {}; }},
      {"integer_logits", kType, "logits", "int64", "bfloat16",
       [](Call& c) { c.logits_view.dtype = DType::kInt64; }},
      {"null_logits", kInvalid, "logits", "null", "10 elements",
       [](Call& c) { c.logits_view.data = nullptr; }},
      {"logits_of_rank_0", kInvalid, "logits", "no axis", "at least one",
       [](Call& c) { c.logits_view.rank = 0; }},
      {"logits_of_rank_9", kInvalid, "logits", "9 dimensions", "0 to 8",
       [](Call& c) { c.logits_view.rank = 9; }},
      {"logits_of_no_dtype", kType, "logits", "dtype number 77", "one of DType",
       [](Call& c) { c.logits_view.dtype = static_cast<DType>(77); }},
      {"negative_extents", kInvalid, "logits", "[-2, 5]", ">= 0",
       [](Call& c) { c.logits_view.shape[0] = c.targets_view.shape[0] = -2; }},
      {"more_rows_than_64_bits", kInvalid, "logits", "[4294967296, 4294967296, 5]", "2^60",
       [](Call& c) {
         const std::int64_t many = std::int64_t{1} << 32;
         c.logits_view = {c.logits, DType::kFloat32, {many, many, 5}, {0, 0, 1}};
         c.targets_view = {c.targets, DType::kInt64, {many, many}, {0, 0}};
       }},
      {"strides_beyond_64_bits", kInvalid, "logits", "[2, 5]", "2^60",
       [](Call& c) { c.logits_view.strides[0] = std::numeric_limits<std::int64_t>::max(); }},
      {"strided_columns", kInvalid, "logits", "stride 2", "stride 1",
       [](Call& c) { c.logits_view.strides[1] = 2; }},
      {"misaligned_logits", kInvalid, "logits", "not aligned", "4 bytes",
       [](Call& c) { c.logits_view.data = reinterpret_cast<const char*>(c.logits) + 1; }},
      {"logits_on_another_device", kUnsupported, "logits", "cuda:1", "cpu",
       [](Call& c) { c.logits_view.device = {DeviceType::kCuda, 1}; }},
      {"empty_vocabulary", kInvalid, "logits", "empty vocabulary", "at least one",
       [](Call& c) { c.logits_view.shape[1] = 0; }},
      {"vocabulary_above_the_limit", kInvalid, "logits", "4194305", "4194304",
       [](Call& c) {
         c.logits_view = {c.logits, DType::kFloat32, {0, 4194305}};
         c.targets_view = {c.targets, DType::kInt64, {0}};
       }},
      {"missing_targets", kInvalid, "targets", "missing", "int64", [](Call& c) { c.targets_view = {}; }},
      {"float_targets", kType, "targets", "float32", "int32 or int64",
       [](Call& c) { c.targets_view.dtype = DType::kFloat32; }},
      {"targets_of_another_length", kInvalid, "targets", "[1]", "[2]",
       [](Call& c) { c.targets_view.shape[0] = 1; }},
      {"targets_with_an_axis_too_many", kInvalid, "targets", "[2, 1]", "[2]",
       [](Call& c) { c.targets_view = {c.targets, DType::kInt64, {2, 1}}; }},
      {"null_targets", kInvalid, "targets", "null", "2 elements",
       [](Call& c) { c.targets_view.data = nullptr; }},
      {"vocab_size_0", kInvalid, "vocab_size", "0", "1 to 5", [](Call& c) { c.options.vocab_size = 0; }},
      {"vocab_size_too_large", kInvalid, "vocab_size", "6", "1 to 5",
       [](Call& c) { c.options.vocab_size = 6; }},
      {"temperature_0", kInvalid, "temperature", "0", "[2^-64, 2^64]",
       [](Call& c) { c.options.temperature = 0; }},
      {"temperature_nan_in_one_row", kInvalid, "temperature", "row 1", "[2^-64, 2^64]",
       [](Call& c) {
         c.temperature[1] = std::numeric_limits<float>::quiet_NaN();
         c.options.row_temperature = {c.temperature, DType::kFloat32, {2}};
       }},
      {"integer_row_temperature", kType, "temperature", "int64", "float32 or float64",
       [](Call& c) { c.options.row_temperature = {c.targets, DType::kInt64, {2}}; }},
      {"row_temperature_of_another_length", kInvalid, "temperature", "[1]", "[2]",
       [](Call& c) { c.options.row_temperature = {c.temperature, DType::kFloat32, {1}}; }},
      {"float_rows", kType, "rows", "float32", "int32 or int64",
       [](Call& c) { c.options.rows = {c.temperature, DType::kFloat32, {2}}; }},
      {"rows_of_rank_2", kInvalid, "rows", "[2, 1]", "1-D",
       [](Call& c) { c.options.rows = {c.rows, DType::kInt64, {2, 1}}; }},
      {"rows_longer_than_memory", kInvalid, "rows", "68719476736 entries", "2^31",
       [](Call& c) { c.options.rows = {c.rows, DType::kInt64, {std::int64_t{1} << 36}, {0}}; }},
      {"invalid_id_to_be_raised", kInvalid, "targets", "5 at row 1", "[0, 5)",
       [](Call& c) {
         c.targets[1] = 5;
         c.options.on_invalid = OnInvalid::kRaise;
       }},
      {"unknown_backend", kInvalid, "backend", "'fast'", "'auto'",
       [](Call& c) { c.context.backend = "fast"; }},
      {"empty_backend", kInvalid, "backend", "''", "'auto'", [](Call& c) { c.context.backend = ""; }},
      {"negative_threads", kInvalid, "threads", "-1", "4096", [](Call& c) { c.context.threads = -1; }},
      {"workspace_over_the_logits", kInvalid, "workspace", "logits", "of its own",
       [](Call& c) { c.context.workspace = std::as_writable_bytes(std::span(c.logits)); }},

      {"logp_of_another_dtype", kType, "logp", "float64", "float32",
       [](Call& c) { c.outputs.logp.dtype = DType::kFloat64; }, true, false},
      {"logp_of_another_length", kInvalid, "logp", "[1]", "[2]", [](Call& c) { c.outputs.logp.shape[0] = 1; },
       true, false},
      {"logp_with_windows_that_coincide", kInvalid, "logp", "stride 1", "apart",
       [](Call& c) {
         c.logits_view = {c.logits, DType::kFloat32, {2, 2, 2}, {0, 0, 1}};
         c.targets_view = {c.targets, DType::kInt64, {2, 2}, {0, 0}};
         c.outputs = {};
         c.outputs.logp = {c.grad, DType::kFloat32, {2, 2}, {1, 1}};
       },
       true, false},
      {"logp_with_coinciding_elements", kInvalid, "logp", "stride 0", "apart",
       [](Call& c) { c.outputs.logp.strides[0] = 0; }, true, false},
      {"logp_inside_the_logits", kInvalid, "logp", "logits", "of its own",
       [](Call& c) { c.outputs.logp.data = c.logits; }, true, false},
      {"lse_on_top_of_logp", kInvalid, "lse", "logp", "of its own",
       [](Call& c) { c.outputs.lse.data = c.logp; }, true, false},
      {"row_sum_of_another_dtype", kType, "row_sum", "float32", "int64",
       [](Call& c) { c.outputs.row_sum.dtype = DType::kFloat32; }, true, false},
      {"row_sum_of_another_length", kInvalid, "row_sum", "1", "2",
       [](Call& c) { c.outputs.row_sum.shape[0] = 1; }, true, false},
      {"strided_row_max", kInvalid, "row_max", "strided", "contiguous",
       [](Call& c) { c.outputs.row_max.strides[0] = 3; }, true, false},

      {"missing_row_max", kInvalid, "row_max", "missing", "forward", [](Call& c) { c.stats.row_max = {}; },
       false},
      {"missing_row_sum", kInvalid, "row_sum", "missing", "forward", [](Call& c) { c.stats.row_sum = {}; },
       false},
      {"missing_row_entropy_sum", kInvalid, "row_entropy_sum", "missing", "forward",
       [](Call& c) {
         c.stats.row_entropy_sum = {};
         c.grads.entropy = {c.upstream, DType::kFloat32, {2}};
       },
       false},
      {"row_max_of_another_dtype", kType, "row_max", "float64", "float32",
       [](Call& c) { c.stats.row_max.dtype = DType::kFloat64; }, false},
      {"upstream_of_another_dtype", kType, "grad_logp", "float64", "float32",
       [](Call& c) { c.grads.logp.dtype = DType::kFloat64; }, false},
      {"upstream_of_another_shape", kInvalid, "grad_logp", "[1]", "[2]",
       [](Call& c) { c.grads.logp.shape[0] = 1; }, false},
      {"missing_grad_logits", kInvalid, "grad_logits", "missing", "", [](Call& c) { c.grad_view = {}; },
       false},
      {"grad_logits_of_another_dtype", kType, "grad_logits", "bfloat16", "float32",
       [](Call& c) { c.grad_view.dtype = DType::kBFloat16; }, false},
      {"grad_logits_of_another_shape", kInvalid, "grad_logits", "[2, 4]", "[2, 5]",
       [](Call& c) { c.grad_view.shape[1] = 4; }, false},
      {"grad_logits_with_strided_columns", kInvalid, "grad_logits", "stride 2", "stride 1",
       [](Call& c) { c.grad_view.strides[1] = 2; }, false},
      {"grad_logits_with_coinciding_rows", kInvalid, "grad_logits", "stride 0", "apart",
       [](Call& c) { c.grad_view.strides[0] = 0; }, false},
      {"grad_logits_on_top_of_the_logits", kInvalid, "grad_logits", "logits", "of its own",
       [](Call& c) { c.grad_view.data = c.logits; }, false},
  };
}

class LogpRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(LogpRefusal, names_the_argument_and_writes_nothing) {
  const Refusal& refusal = GetParam();
  for (const bool backward : {false, true}) {
    if (!(backward ? refusal.backward : refusal.forward)) continue;
    Call call;
    refusal.spoil(call);
    try {
      backward ? call.backward() : call.forward();
      ADD_FAILURE() << (backward ? "backward" : "forward") << " took it";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code(), refusal.code) << message;
      EXPECT_EQ(error.argument(), refusal.argument) << message;
      EXPECT_EQ(message.find(std::string(refusal.argument) + ": "), 0u) << message;
      EXPECT_NE(message.find(refusal.was), std::string::npos) << message;
      EXPECT_NE(message.find(refusal.may_be), std::string::npos) << message;
    }
    EXPECT_TRUE(call.outputs_are_untouched()) << (backward ? "backward" : "forward");
  }
}

INSTANTIATE_TEST_SUITE_P(each, LogpRefusal, ::testing::ValuesIn(refusals()),
                         [](const auto& info) { return info.param.name; });

TEST(LogpRefusal, the_call_that_is_spoiled_is_itself_fine) {
  Call call;
  call.forward();
  call.backward();
  EXPECT_FALSE(call.outputs_are_untouched());
}

TEST(LogpRefusal, an_unavailable_backend_is_refused_with_what_it_needs) {
  for (const BackendInfo& backend : backends()) {
    if (backend.available) continue;
    EXPECT_FALSE(backend.reason.empty());
    Call call;
    call.context.backend = backend.name;
    EXPECT_THROW(call.forward(), Error);
  }
}

}  // namespace
}  // namespace samebits::test
