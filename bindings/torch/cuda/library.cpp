// What the CUDA library answers for itself. Its schemas are those of the first library.
#include <samebits/cuda.h>

#include "../convert.h"

namespace samebits::torch_binding {
namespace {

// Registers the CUDA backend with this library's copy of the core, once, when it is loaded.
std::string cuda_version() {
  cuda::enable();
  return std::string(version());
}

STABLE_TORCH_LIBRARY_IMPL(samebits, CompositeExplicitAutograd, library) {
  cuda::enable();
  library.impl("cuda_version", TORCH_BOX(&cuda_version));
  library.impl("cuda_plan", TORCH_BOX(&plan_json));
}

}  // namespace
}  // namespace samebits::torch_binding
