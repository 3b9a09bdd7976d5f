#include "row_sum_case.h"

#include "ref/row_ops.h"

namespace samebits::test {

Values row_sum_twin(const Values& values, std::int64_t rows) {
  Values sums(values.dtype, rows, kFill);
  core::RowSumProblem problem;
  problem.rows = rows;
  problem.columns = rows > 0 ? values.count() / rows : 0;
  problem.dtype = values.dtype;
  const ConstTensorView from(values.bytes.data(), values.dtype, {rows, problem.columns});
  const TensorView to(sums.bytes.data(), sums.dtype, {rows});
  problem.values = {from.data, from.dtype, core::RowIndex::of(from, 1)};
  problem.sums = {to.data, to.dtype, core::RowIndex::of(to, 1)};
  ref::row_sum(problem);
  return sums;
}

Values row_sum_call(const Values& values, std::int64_t rows, const RowSumLayout& layout,
                    const ExecContext& context) {
  Residence host;
  return row_sum_call(values, rows, layout, context, host);
}

Values row_sum_call(const Values& values, std::int64_t rows, const RowSumLayout& layout,
                    const ExecContext& base, Residence& residence) {
  const std::vector<std::int64_t> leading =
      layout.leading.empty() ? std::vector<std::int64_t>{rows} : layout.leading;
  Strided from(values.dtype, leading, rows > 0 ? values.count() / rows : 0, layout.values);
  from.scatter(values);
  Strided to(values.dtype, leading, -1, layout.sums);
  const ConstTensorView in = residence.enter(from.storage(), from.view());
  const TensorView out = residence.enter(to.storage(), to.view());
  ExecContext context = base;
  if (layout.with_workspace) context.workspace = residence.workspace(row_sum_workspace_bytes(in, context));
  row_sum(in, out, context);
  residence.bring_back();
  EXPECT_TRUE(to.gaps_are_untouched()) << "row_sum wrote between the sums";
  EXPECT_TRUE(from.is_untouched()) << "row_sum wrote into the values";
  return to.gather();
}

}  // namespace samebits::test
