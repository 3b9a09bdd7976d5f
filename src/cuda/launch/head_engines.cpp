#include "cuda/launch/head_engines.h"

#include "cuda/launch/head_generic.h"

namespace samebits::cuda {

HeadEngineChoice make_head_engine(const HeadShape& shape, Device) {
  HeadEngineChoice choice;
  choice.engine = make_generic_head_engine(shape);
  return choice;
}

}  // namespace samebits::cuda
