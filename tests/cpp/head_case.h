// Gradients of linear_logp for the tests: a call apart from how it is run, the public call, and the twin's answer.
#pragma once

#include <string>

#include "logp_case.h"
#include "matmul_case.h"
#include "strided.h"

namespace samebits::test {

// A LogpCase says rows, targets, options and upstreams; hidden, weight and bias stand in for its logits.
struct HeadCase {
  LogpCase logp;  // its `logits` hold no elements, but their dtype is that of the operands
  std::int64_t size = 0;
  Values hidden, weight, bias;  // [rows, size], [columns, size], [columns] or empty
  Lay hidden_lay = Lay::kDense, weight_lay = Lay::kDense;
  std::string contract = "auto";

  bool tc16() const { return contract != "fma" && dtype_size(hidden.dtype) == 2; }
};

// Which gradients are asked for.
struct Wanted {
  bool hidden = true, weight = true, bias = true;  // bias counts only where there is one
  bool accumulate = false;                         // weight is added to kAccumulated
};
inline constexpr double kAccumulated = 0.75;

// Dense; empty where not asked for.
struct HeadGradients {
  Values hidden, weight, bias;
};

// Room for P of `rows` rows, of kFill; 64-byte aligned where it lies.
class KeptP {
 public:
  KeptP(std::int64_t rows, std::int64_t vocab);
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  TensorView view() const { return {storage().data(), DType::kBFloat16, {rows_, columns_}}; }
  std::span<std::byte> storage() const;
  // The bits of an element.
  std::uint16_t at(std::int64_t row, std::int64_t column) const;

 private:
  std::int64_t rows_, columns_;  // V rounded up to 64
  mutable std::vector<std::byte> room_;
};

// Normal elements, targets within the vocabulary, upstream of logp alone.
HeadCase random_head_case(Rng& rng, std::int64_t rows, std::int64_t vocab, std::int64_t size, DType dtype);

// Rows `picked` of a case, in that order.
HeadCase take_rows(const HeadCase& head, const std::vector<std::int64_t>& picked);

HeadGradients head_gradients(const HeadCase& head, const std::string& backend, int threads,
                             const Wanted& wanted = {});
HeadGradients head_gradients(const HeadCase& head, const ExecContext& context, const Wanted& wanted,
                             Residence& residence, const KeptP* kept = nullptr);

// Which outputs of the forward pass are asked for beside logp.
struct WantedRows {
  bool lse = true, entropy = true, stats = true;
};
// What was not asked for keeps kFill.
LogpResult head_forward(const HeadCase& head, const ExecContext& context, const WantedRows& wanted,
                        Residence& residence, const KeptP* kept = nullptr);

// [rows that take part, vocab] under tc16 with bf16 operands and no entropy gradient, of dense operands.
Values twin_p(const HeadCase& head);

HeadGradients twin_gradients(const HeadCase& head, const Wanted& wanted = {});

::testing::AssertionResult same_gradients(const HeadGradients& expected, const HeadGradients& actual,
                                          Finite finite = Finite::kSome);

}  // namespace samebits::test
