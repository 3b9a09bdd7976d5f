// linear_logp backward: the engine and the scratch of a call.
#include "cuda/launch/head_calls.h"

#include "cuda/launch/head_engines.h"
#include "cuda/launch/head_walk.h"
#include "cuda/launch/operators.h"
#include "cuda/launch/row_list.h"

namespace samebits::cuda {
namespace {

template <class Row>
std::size_t bytes_of(const core::LinearLogpGradient& problem, HeadEngine& engine,
                     const core::DeviceCall& call, std::int64_t promised) {
  Pieces pieces(nullptr);
  const HeadWalk<Row> walk(problem, engine, pieces, call, promised);
  return walk.scratch_bytes(pieces.bytes());
}

template <class Row>
void run(core::LinearLogpGradient& problem, HeadEngine& engine, const core::DeviceCall& call,
         std::int64_t promised) {
  Scratch scratch(call, bytes_of<Row>(problem, engine, call, promised));
  take_row_list(problem.head.logp, call, scratch);
  Pieces pieces(&scratch);
  HeadWalk<Row>(problem, engine, pieces, call, promised).run(scratch);
}

}  // namespace

void linear_logp_backward_by(HeadEngine& engine, core::LinearLogpGradient problem,
                             const core::DeviceCall& call, std::int64_t promised) {
  const DeviceGuard guard(call.device);
  check_row_count(problem.head.logp);
  problem.head.logp.binary64 ? run<order::Row64V1>(problem, engine, call, promised)
                             : run<order::RowV1>(problem, engine, call, promised);
}

void linear_logp_backward(core::LinearLogpGradient problem, const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  const HeadEngineChoice choice = make_head_engine(shape_of(problem.head), call.device);
  linear_logp_backward_by(*choice.engine, problem, call, kPromisedBytes);
}

std::size_t linear_logp_backward_scratch_bytes(const core::LinearLogpGradient& problem,
                                               const core::DeviceCall& call) {
  const DeviceGuard guard(call.device);
  check_row_count(problem.head.logp);
  const HeadEngineChoice choice = make_head_engine(shape_of(problem.head), call.device);
  const auto bytes = problem.head.logp.binary64 ? bytes_of<order::Row64V1> : bytes_of<order::RowV1>;
  return Scratch::padded(bytes(problem, *choice.engine, call, kPromisedBytes));
}

}  // namespace samebits::cuda
