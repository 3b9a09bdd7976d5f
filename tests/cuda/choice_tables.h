// Tables of choices for the products on SM90, and the backend that follows one.
#pragma once

#include <vector>

#include "cuda/launch/sm90_choices.h"
#include "exchanged_backend.h"

namespace samebits::test {

// Tiles along the rows that are walked through at a time: what a bench tries.
inline constexpr int kGroups[] = {2, 4, 8, 16, 32};

// Every form of a use with every group.
std::vector<cuda::Sm90Choice> candidates(cuda::Sm90Use use);

// Products on SM90 follow the table as long as this lives, which has to be complete; all others run as they do.
class ChosenBackend {
 public:
  explicit ChosenBackend(std::vector<cuda::Sm90Choice> table);

 private:
  ExchangedBackend backend_;
};

}  // namespace samebits::test
