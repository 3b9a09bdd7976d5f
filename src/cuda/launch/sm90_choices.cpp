#include "cuda/launch/sm90_choices.h"

namespace samebits::cuda {
namespace {

constexpr Sm90Choice kChoices[] = {
#include "cuda/launch/sm90_choices.inc"
};
static_assert(is_complete(kChoices));

}  // namespace

Sm90Choices sm90_choices() { return kChoices; }

}  // namespace samebits::cuda
