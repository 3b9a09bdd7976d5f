// linear_logp backward: the engine and the scratch of a call.
#include "cuda/launch/head_engines.h"
#include "cuda/launch/head_walk.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

template <class Row>
std::size_t bytes_of(const core::LinearLogpGradient& problem, HeadEngine& engine,
                     const core::DeviceCall& call) {
  Pieces pieces(nullptr);
  const HeadWalk<Row> walk(problem, engine, pieces, call);
  return with_row_list(problem.head.logp, call, pieces.bytes() + walk.order_bytes());
}

template <class Row>
void run(core::LinearLogpGradient& problem, HeadEngine& engine, const core::DeviceCall& call) {
  Scratch scratch(call, bytes_of<Row>(problem, engine, call));
  take_row_list(problem.head.logp, call, scratch);
  Pieces pieces(&scratch);
  HeadWalk<Row>(problem, engine, pieces, call).run(scratch);
}

}  // namespace

void linear_logp_backward(core::LinearLogpGradient problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  check_row_count(problem.head.logp);
  const HeadEngineChoice choice = make_head_engine(shape_of(problem.head), call.device);
  problem.head.logp.binary64 ? run<order::Row64V1>(problem, *choice.engine, call)
                             : run<order::RowV1>(problem, *choice.engine, call);
}

std::size_t linear_logp_backward_scratch_bytes(const core::LinearLogpGradient& problem,
                                               const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  check_row_count(problem.head.logp);
  const HeadEngineChoice choice = make_head_engine(shape_of(problem.head), call.device);
  return Scratch::padded(problem.head.logp.binary64 ? bytes_of<order::Row64V1>(problem, *choice.engine, call)
                                                    : bytes_of<order::RowV1>(problem, *choice.engine, call));
}

}  // namespace samebits::cuda
