// Random calls for the bits tests: every dtype, kind of row, option and layout.
#pragma once

#include "rng.h"
#include "run_case.h"

namespace samebits::test {

// Fills `count` logits of one row, by a family picked at random: normal of several scales, ties, masks, NaN of
// any payload, infinities, subnormals, huge values, raw bits.
void random_logits(Rng& rng, Values& logits, std::int64_t begin, std::int64_t count);

// Cases of up to 9 rows, V mostly below 300; `max_vocab` bounds the larger ones.
LogpCase random_case(Rng& rng, std::int64_t max_vocab = 1100);

// A layout that fits the case.
Layout random_layout(Rng& rng, const LogpCase& logp_case);

}  // namespace samebits::test
