#include "cuda/kernel/head_prepare.cuh"

#include "cuda/launch/head_target.h"
#include "cuda/launch/launch.h"

namespace samebits::cuda {
namespace {

using order::BFloat16, order::Float16;

order::Reference reference_rule(const core::LinearLogpProblem& head) {
  if (!head.tc16) return order::Reference::kMax;
  return head.hidden.dtype == DType::kBFloat16 ? order::Reference::kTarget : order::Reference::kShifted;
}

}  // namespace

void find_largest_weight(const core::LinearLogpProblem& head, std::uint32_t* most,
                         const core::DeviceCall& call) {
  core::Operand matrix = head.weight;
  std::int64_t rows = head.logp.vocab, columns = head.hidden_size;
  if (matrix.column_stride != 1 && matrix.row_stride == 1) {  // the largest is that of the transpose too
    std::swap(matrix.row_stride, matrix.column_stride);
    std::swap(rows, columns);
  }
  const std::int64_t warps = kLargestThreads / 32;
  const std::int64_t ctas =
      std::min((rows + warps - 1) / warps, std::int64_t{8} * traits(call.device).multiprocessors);
  const DType dtype = head.hidden.dtype;
  launch("largest_element",
         dtype == DType::kFloat32    ? largest_element<float>
         : dtype == DType::kBFloat16 ? largest_element<BFloat16>
                                     : largest_element<Float16>,
         {ctas, kLargestThreads}, call, matrix, rows, columns, most);
}

template <class Row>
void prepare_head_rows(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                       typename Row::Real* logit, const core::DeviceCall& call) {
  const core::LinearLogpProblem& head = problem.head;
  list_head_rows(head.logp, at.list, call);
  target_logits<Row>(head, at.list, {logit}, call);
  launch("prepare_rows", prepare_rows<Row>,
         behind((at.list.capacity + kPrepareThreads - 1) / kPrepareThreads, kPrepareThreads), call, head, at,
         static_cast<const typename Row::Real*>(logit), reference_rule(head));
}

template void prepare_head_rows(const core::LinearLogpGradient&, const HeadGradientRows<order::RowV1>&,
                                float*, const core::DeviceCall&);
template void prepare_head_rows(const core::LinearLogpGradient&, const HeadGradientRows<order::Row64V1>&,
                                double*, const core::DeviceCall&);

}  // namespace samebits::cuda
