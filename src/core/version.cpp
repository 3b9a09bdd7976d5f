#include <samebits/version.h>

namespace samebits {

const char* library_version() noexcept { return kVersion; }

}  // namespace samebits
