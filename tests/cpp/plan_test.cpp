// plan(): the contract by dtype, every refusal at once, and provenance that is JSON.
#include <gtest/gtest.h>
#include <samebits/plan.h>
#include <samebits/version.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace samebits {
namespace {

using nlohmann::json;

Plan plan_of(const std::string& op, DType dtype, const std::string& contract = "auto") {
  PlanRequest request;
  request.op = op;
  request.dtype = dtype;
  request.contract = contract;
  return plan(request);
}

bool mentions(const Plan& answer, const std::string& text) {
  for (const std::string& refusal : answer.refusals)
    if (refusal.find(text) != std::string::npos) return true;
  return false;
}

TEST(Plan, the_contract_is_a_function_of_the_dtype) {
  EXPECT_EQ(plan_of("logp", DType::kFloat32).contract, "row.v1");
  EXPECT_EQ(plan_of("logp", DType::kBFloat16).contract, "row.v1");
  EXPECT_EQ(plan_of("logp", DType::kFloat64).contract, "row64.v1");
  EXPECT_EQ(plan_of("matmul", DType::kFloat32).contract, "fma.v1");
  EXPECT_EQ(plan_of("matmul", DType::kFloat64).contract, "fma64.v1");
  EXPECT_EQ(plan_of("matmul", DType::kFloat16, "fma").contract, "fma.v1");
  EXPECT_EQ(plan_of("linear_logp", DType::kFloat32).contract, "fma.v1+row.v1");
  EXPECT_EQ(plan_of("linear_logp", DType::kFloat64).contract, "fma64.v1+row64.v1");
  for (const char* op : {"logp", "linear_logp", "matmul"}) {
    const Plan answer = plan_of(op, DType::kFloat32);
    EXPECT_TRUE(answer.refusals.empty()) << op << ": " << answer.refusals.front();
    EXPECT_EQ(answer.level, "cross_device");
    EXPECT_FALSE(answer.kernels.empty());
  }
}

TEST(Plan, precision_float64_is_row64) {
  PlanRequest request;
  request.options.precision = Precision::kFloat64;
  EXPECT_EQ(plan(request).contract, "row64.v1");
  request.op = "linear_logp";
  EXPECT_TRUE(mentions(plan(request), "precision: is 'fp64' with float32 operands"));
}

TEST(Plan, sixteen_bit_products_are_tc16_unless_fma_is_named) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const char* contract : {"auto", "tc16"}) {
      EXPECT_EQ(plan_of("matmul", dtype, contract).contract, "tc16.v1");
      EXPECT_EQ(plan_of("linear_logp", dtype, contract).contract, "tc16.v1+row.v1");
    }
    EXPECT_EQ(plan_of("matmul", dtype, "fma").contract, "fma.v1");
    EXPECT_EQ(plan_of("linear_logp", dtype, "fma").contract, "fma.v1+row.v1");
  }
}

TEST(Plan, every_refusal_is_given) {
  PlanRequest request;
  request.op = "linear_logp";
  request.contract = "tc16";
  request.device = {DeviceType::kCuda, 1};
  request.options.temperature = 0;
  request.options.vocab_size = 11;
  request.vocab = 10;
  const Plan answer = plan(request);
  EXPECT_TRUE(mentions(answer, "contract: is 'tc16' with float32 operands"));
  EXPECT_TRUE(mentions(answer, "device: is on cuda"));
  EXPECT_TRUE(mentions(answer, "temperature: is 0"));
  EXPECT_TRUE(mentions(answer, "vocab_size: is 11; must be 1 to 10, the vocabulary axis of weight"));
  EXPECT_EQ(answer.refusals.size(), 4u);
  EXPECT_TRUE(answer.backend.empty());
  EXPECT_TRUE(answer.kernels.empty());
  EXPECT_EQ(json::parse(answer.provenance_json)["refusals"].size(), 4u);
}

TEST(Plan, refuses_what_it_does_not_know) {
  EXPECT_TRUE(mentions(plan_of("softmax", DType::kFloat32), "op: is 'softmax'; may be"));
  EXPECT_TRUE(mentions(plan_of("logp", DType::kInt64), "dtype: is int64"));
  EXPECT_TRUE(mentions(plan_of("matmul", DType::kFloat32, "fast"), "contract: is 'fast'; may be"));
  EXPECT_TRUE(mentions(plan_of("matmul", DType::kFloat32, "tc16"), "tc16 takes bfloat16 or float16"));
  PlanRequest request;
  request.backend = "abacus";
  EXPECT_TRUE(mentions(plan(request), "backend: is 'abacus'"));
  request.backend = "";
  EXPECT_TRUE(mentions(plan(request), "backend: is ''; may be 'auto'"));
  request.backend = "auto";
  request.vocab = (std::int64_t{1} << 22) + 1;
  EXPECT_TRUE(mentions(plan(request), "logits: has 4194305 vocabulary columns; may have at most 4194304"));
  for (const double bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    PlanRequest hot;
    hot.options.temperature = bad;
    EXPECT_TRUE(mentions(plan(hot), "temperature: is "));
    EXPECT_TRUE(json::accept(plan(hot).provenance_json));
  }
}

TEST(Plan, a_padding_idx_is_a_row_of_the_table) {
  PlanRequest request;
  request.op = "embedding";
  request.padding_idx = 10;
  EXPECT_TRUE(plan(request).refusals.empty());  // how many rows there are is not known
  request.vocab = 10;
  EXPECT_TRUE(mentions(plan(request), "padding_idx: is 10; may be 0 to 9, a row of the table"));
}

TEST(Plan, provenance_is_json_with_all_semantics) {
  PlanRequest request;
  request.dtype = DType::kBFloat16;
  request.backend = "scalar";
  request.vocab = 1000;
  request.options.temperature = 0.7;
  request.options.ignore_index = -100;
  request.options.on_invalid = OnInvalid::kNan;
  request.options.vocab_size = 990;
  const json read = json::parse(plan(request).provenance_json);
  EXPECT_EQ(read["samebits"], kVersion);
  EXPECT_EQ(read["contract"], "row.v1");
  EXPECT_EQ(read["dtype"], "bfloat16");
  EXPECT_EQ(read["backend"], "scalar");
  EXPECT_EQ(read["kernels"],
            json({"logp_forward/scalar", "logp_backward/scalar", "probability/scalar", "row_sum/scalar"}));
  const json& semantics = read["semantics"];
  EXPECT_EQ(semantics["temperature"].get<double>(),
            static_cast<double>(0.7f));  // tau is rounded to float32 first
  EXPECT_EQ(semantics["ignore_index"], -100);
  EXPECT_EQ(semantics["on_invalid"], "nan");
  EXPECT_EQ(semantics["vocab_size"], 990);
  EXPECT_EQ(semantics["rows"], false);
  EXPECT_FALSE(read.contains("refusals"));

  request.options.row_temperature.present = true;
  request.options.rows.present = true;
  const json per_row = json::parse(plan(request).provenance_json)["semantics"];
  EXPECT_EQ(per_row["temperature"], "per_row");
  EXPECT_EQ(per_row["rows"], true);
}

TEST(Plan, hostile_names_stay_inside_their_json_string) {
  PlanRequest request;
  request.op = "a\"b\\c\n\x01";
  const Plan answer = plan(request);
  EXPECT_EQ(json::parse(answer.provenance_json)["op"], request.op);
}

TEST(Plan, is_pure) {
  PlanRequest request;
  EXPECT_EQ(plan(request).provenance_json, plan(request).provenance_json);
}

TEST(Backends, are_listed_fastest_first_with_reasons) {
  const auto list = backends();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.back().name, "scalar");
  EXPECT_TRUE(list.back().available);
  for (const BackendInfo& backend : list)
    EXPECT_NE(backend.available, !backend.reason.empty()) << backend.name;
}

}  // namespace
}  // namespace samebits
