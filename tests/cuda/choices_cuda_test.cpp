// Whatever tile and order of tiles a product on SM90 takes, its bits are the CPU's.
#include <gtest/gtest.h>

#include "choice_tables.h"
#include "device.h"
#include "head_case.h"
#include "product_call.h"

namespace samebits::test {
namespace {

using cuda::Sm90Choice;
using cuda::Sm90Use;

// Tables that together have every candidate of every use.
std::vector<std::vector<Sm90Choice>> all_tables() {
  std::vector<std::vector<Sm90Choice>> tables;
  for (std::size_t number = 0, most = 1; number < most; ++number) {
    tables.emplace_back();
    for (const Sm90Use use : cuda::kSm90Uses) {
      const std::vector<Sm90Choice> all = candidates(use);
      most = std::max(most, all.size());
      tables.back().push_back(all[number % all.size()]);
    }
  }
  return tables;
}

std::string text_of(const std::vector<Sm90Choice>& table) {
  std::string text;
  for (const Sm90Choice& choice : table)
    text += " " + std::to_string(static_cast<int>(choice.use)) + ":" +
            std::to_string(static_cast<int>(choice.form)) + "/" + std::to_string(choice.group);
  return text;
}

// The table itself: a candidate for each use, whatever the shape.
TEST(CudaChoices, table_is_complete) {
  EXPECT_TRUE(cuda::is_complete(cuda::sm90_choices()));
  for (const Sm90Choice& choice : cuda::sm90_choices())
    EXPECT_EQ(std::ranges::count(kGroups, choice.group), 1) << "no test runs a group of " << choice.group;
}

// One tile and several, groups of tiles that are full and not, held sums and counted ones, P that is filled, saved, or saved in
// part.
TEST(CudaChoices, every_head_equals_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const auto& [rows, vocab, size] :
         {std::array<std::int64_t, 3>{5, 1000, 24}, {300, 700, 200}, {1300, 390, 72}}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows));
      Rng rng(static_cast<std::uint64_t>(rows));
      HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
      head.bias = normal_elements(rng, dtype, vocab);
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); row += 5) head.logp.targets[row] = -100;
      Residence host;
      const LogpResult forward = head_forward(head, {}, {}, host);
      const HeadGradients backward = head_gradients(head, ExecContext{}, {}, host);
      for (const std::vector<Sm90Choice>& table : all_tables()) {
        SCOPED_TRACE("table" + text_of(table));
        const ChosenBackend chosen(table);
        const auto check = [&](const KeptP* kept) {
          DeviceResidence device, other;
          const LogpResult result = head_forward(head, {}, {true, kept == nullptr, true}, device, kept);
          EXPECT_TRUE(same_bits(forward.logp, result.logp));
          EXPECT_TRUE(same_bits(forward.lse, result.lse));
          EXPECT_TRUE(same_bits(forward.row_max, result.row_max));
          EXPECT_TRUE(same_bits(forward.row_sum, result.row_sum));
          if (kept == nullptr) {
            EXPECT_TRUE(same_bits(forward.entropy, result.entropy));
          }
          EXPECT_TRUE(same_gradients(backward, head_gradients(head, ExecContext{}, {}, other, kept)));
        };
        check(nullptr);
        if (dtype != DType::kBFloat16) continue;
        for (const std::int64_t kept_rows : {rows, rows / 2}) {
          const KeptP kept(kept_rows, vocab);
          check(&kept);
        }
      }
    }
}

// Both layouts of both operands, with a bias where out is rounded.
TEST(CudaChoices, every_product_equals_the_cpu) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const std::int64_t rows : {70, 130, 1100})
      for (int layout = 0; layout < 4; ++layout) {
        const std::int64_t columns = 408, depth = 200;
        const bool tall = layout % 2 > 0, wide = layout / 2 > 0;
        Rng rng(static_cast<std::uint64_t>(rows + layout));
        const Matrix a(normal_elements(rng, dtype, rows * depth), tall ? depth : rows, tall ? rows : depth);
        const Matrix b(normal_elements(rng, dtype, depth * columns), wide ? columns : depth,
                       wide ? depth : columns);
        const ConstTensorView left = tall ? a.transposed() : a.view(),
                              right = wide ? b.transposed() : b.view();
        const Values bias_values = normal_elements(rng, dtype, columns);
        for (const DType out : {dtype, DType::kFloat32}) {
          const ConstTensorView bias =
              out == dtype ? ConstTensorView(bias_values.bytes.data(), dtype, {columns}) : ConstTensorView();
          const Values expected = product_on_cpu(left, right, out, "auto", bias);
          for (const Sm90Choice& choice : candidates(Sm90Use::kPlain)) {
            const ChosenBackend chosen({choice});
            EXPECT_TRUE(same_bits(expected, product_on_gpu(left, right, out, {}, bias)))
                << dtype_name(dtype) << ", rows " << rows << ", layout " << layout << text_of({choice});
          }
        }
      }
}

}  // namespace
}  // namespace samebits::test
