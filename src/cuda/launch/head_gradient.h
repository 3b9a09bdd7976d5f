// What the parts of a head's gradient share: arrays by position.
#pragma once

#include "core/linear_logp_gradient.h"
#include "cuda/kernel/head_gradient_row.cuh"
#include "cuda/launch/head_rows.h"

namespace samebits::cuda {

// Numbers of the whole call, made on the device. All bits of magnitudes, 0 at the start.
struct HeadScalars {
  std::uint32_t largest_weight = 0;  // largest |weight|
  std::uint32_t largest_scale = 0;   // largest finite |s|
};

template <class Row>
struct HeadGradientRows {
  HeadRows list;
  GradientForm<Row>* form = nullptr;  // by position, as all here
  typename Row::Real* y = nullptr;    // gradient of the target's column; of the P form
  std::int32_t* exponent = nullptr;   // w
  std::int32_t* nan_row = nullptr;    // 1: grad_hidden of the row is NaN
  HeadScalars* scalars = nullptr;     // one

  HeadGradientRows(const core::LogpProblem& problem, std::int64_t most, Pieces& pieces)
      : list(problem, most, true, pieces) {
    pieces.take(form, list.capacity);
    pieces.take(y, list.capacity);
    pieces.take(exponent, list.capacity);
    pieces.take(nan_row, list.capacity);
    pieces.take(scalars, 1);
  }
};

// D of each segment of the vocabulary: of position p and hidden element k at [segment * stride + p * H + k].
struct HeldSums {
  const float* data = nullptr;
  std::int64_t segments = 0, stride = 0;
};

// most = the larger of itself and the largest |weight|.
void find_largest_weight(const core::LinearLogpProblem& head, std::uint32_t* most,
                         const core::DeviceCall& call);

// Fills all of these but for the largest |weight|, of which w is made: where it is found later, w has no meaning here.
// `logit` is room for a number per position.
template <class Row>
void prepare_head_rows(const core::LinearLogpGradient& problem, const HeadGradientRows<Row>& at,
                       typename Row::Real* logit, const core::DeviceCall& call);

}  // namespace samebits::cuda
