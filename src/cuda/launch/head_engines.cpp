#include "cuda/launch/head_engines.h"

#include "cuda/launch/head_generic.h"
#include "cuda/probe.h"

namespace samebits::cuda {

HeadEngineChoice make_head_engine(const HeadShape& shape, Device device) {
  if (shape.tc16) require_tc16(device);
  HeadEngineChoice choice;
  choice.engine = make_generic_head_engine(shape);
  return choice;
}

}  // namespace samebits::cuda
