// P that the forward pass of a head keeps: the contract's bits, and a backward pass from it = the CPU's.
#include <gtest/gtest.h>

#include "device.h"
#include "head_random.h"

namespace samebits::test {
namespace {

// Rows of `kept` that are written and read: whole tiles, or all rows that may take part.
std::int64_t used_rows(const HeadCase& head, const KeptP& kept) {
  std::int64_t most = head.logp.rows;
  if (head.logp.selected) most = std::min(most, static_cast<std::int64_t>(head.logp.selected->size()));
  return kept.rows() >= most ? kept.rows() : kept.rows() / 128 * 128;
}

// The most rows that a call may keep, at most `rows`.
KeptP room_for(const HeadCase& head, std::int64_t rows) {
  std::int64_t most = std::min(rows, head.logp.rows);
  if (head.logp.selected) most = std::min(most, static_cast<std::int64_t>(head.logp.selected->size()));
  return {most, head.logp.vocab};
}

LogpResult keep(const HeadCase& head, const KeptP& kept) {
  DeviceResidence device;
  return head_forward(head, {}, {true, false, true}, device, &kept);
}

HeadGradients on_cpu(const HeadCase& head, const Wanted& wanted = {}) {
  Residence host;
  return head_gradients(head, ExecContext{}, wanted, host);
}

// Keeps at most `rows` rows, and goes back from them twice: nothing of them is overwritten.
::testing::AssertionResult same_from_kept(const HeadCase& head, std::int64_t rows,
                                          const Wanted& wanted = {}) {
  const HeadGradients expected = on_cpu(head, wanted);
  const KeptP kept = room_for(head, rows);
  Residence host;
  const LogpResult without = head_forward(head, {}, {true, false, true}, host);
  const auto forward = same_result(without, keep(head, kept), Finite::kPerhapsNone);
  if (!forward) return ::testing::AssertionFailure() << "forward: " << forward.message();
  for (int time = 0; time < 2; ++time) {
    DeviceResidence device;
    const auto same =
        same_gradients(expected, head_gradients(head, {}, wanted, device, &kept), Finite::kPerhapsNone);
    if (!same) return ::testing::AssertionFailure() << "backward " << time << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

// Logits of hundreds: targets more than 60 below the maximum, confident ones, ties with it.
void spread(HeadCase& head) {
  for (std::int64_t v = 0; v < head.logp.columns; v += 2)
    for (std::int64_t k = 0; k < head.size; ++k) {
      const std::int64_t at = v * head.size + k;
      set_element(head.weight, at, 60 * element_value(head.weight, at));
    }
}

HeadCase some_case(std::int64_t rows, std::int64_t vocab, std::int64_t size, const std::string& what) {
  Rng rng(static_cast<std::uint64_t>(rows + vocab));
  HeadCase head = random_head_case(rng, rows, vocab, size, DType::kBFloat16);
  head.weight_lay = Lay::kWholeRows;
  LogpCase& c = head.logp;
  if (what == "bias") head.bias = normal_elements(rng, DType::kBFloat16, vocab);
  if (what == "temperature") c.temperature = 0.7;
  if (what == "vocab_size") c.vocab = vocab - 5;
  if (what == "far targets") spread(head);
  if (what == "all rows far")
    for (std::int64_t row = 0; row < rows; ++row) c.targets[static_cast<std::size_t>(row)] = 0;
  if (what == "all rows far") {
    head.bias = normal_elements(rng, DType::kBFloat16, vocab);
    set_element(head.bias, 0, -200);
  }
  if (what == "masked")
    for (std::int64_t row = 0; row < rows; row += 3) c.targets[static_cast<std::size_t>(row)] = -100;
  if (what == "few rows")
    for (std::int64_t row = 70; row < rows; ++row) c.targets[static_cast<std::size_t>(row)] = -100;
  if (what == "rows") {
    c.selected.emplace();
    for (std::int64_t row = 0; row < rows; row += 2) c.selected->push_back(rows - 1 - row);
  }
  if (what == "row temperature") {
    c.row_temperature = Values(DType::kFloat32, rows);
    for (std::int64_t row = 0; row < rows; ++row) set_element(c.row_temperature, row, 0.5 + rng.uniform());
  }
  if (what == "odd rows") {
    set_element(head.hidden, 3 * size, NAN);
    set_element(head.hidden, 40 * size, INFINITY);
    for (std::int64_t k = 0; k < size; ++k) set_element(head.hidden, 5 * size + k, k == 0 ? 3e38 : 0);
  }
  return head;
}

constexpr const char* kVariants[] = {"plain",      "bias",        "temperature",  "row temperature",
                                     "vocab_size", "far targets", "all rows far", "masked",
                                     "few rows",   "rows",        "odd rows"};

TEST(CudaHeadSaved, kept_p_has_the_bits_of_the_contract) {
  for (const char* what : kVariants)
    for (const std::int64_t rows : {64, 200, 333})
      for (const std::int64_t allowed : {std::int64_t{130}, rows}) {
        SCOPED_TRACE(std::string(what) + ", rows " + std::to_string(rows) + ", kept " +
                     std::to_string(allowed));
        const HeadCase head = some_case(rows, 600, 40, what);
        const KeptP kept = room_for(head, allowed);
        keep(head, kept);
        const Values expected = twin_p(head);
        const std::int64_t vocab = head.logp.vocab, count = expected.count() / vocab;
        const std::int64_t used = used_rows(head, kept);
        int differ = 0;
        for (std::int64_t i = 0; i < kept.rows() && differ < 5; ++i)
          for (std::int64_t v = 0; v < vocab && differ < 5; ++v) {
            if (i < used && i >= (count + 63) / 64 * 64) continue;  // holds anything
            const std::uint16_t wanted = i >= used   ? 0x5a5a
                                         : i < count ? expected.as<std::uint16_t>()[i * vocab + v]
                                                     : 0;
            if (kept.at(i, v) == wanted) continue;
            ++differ;
            ADD_FAILURE() << "position " << i << ", column " << v << ": " << kept.at(i, v) << ", not "
                          << wanted;
          }
      }
}

TEST(CudaHeadSaved, backward_from_any_number_of_kept_rows_equals_the_cpu) {
  for (const char* what : kVariants)
    for (const std::int64_t size : {40, 44})  // where X may lie in the gradient of hidden, and where not
      for (const std::int64_t allowed : {0, 127, 128, 300, 333}) {
        SCOPED_TRACE(std::string(what) + ", H " + std::to_string(size) + ", kept " + std::to_string(allowed));
        EXPECT_TRUE(same_from_kept(some_case(333, 600, size, what), allowed));
      }
}

TEST(CudaHeadSaved, random_calls_equal_the_cpu) {
  int failures = 0;
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0x5a7ed);
    const bool plain = rng.chance(2);
    const std::int64_t size = plain ? 2 * rng.between(1, 48) : rng.between(1, 90);
    HeadCase head = random_head_case(rng, rng.between(1, 400), rng.between(1, 700), size, DType::kBFloat16);
    vary_head(head, rng);
    if (plain) head.weight_lay = Lay::kWholeRows;
    // Beside an entropy's upstream what was kept is of no use, and changes nothing.
    Wanted wanted{!rng.chance(4), !rng.chance(4), !rng.chance(4)};
    wanted.accumulate = rng.chance(3);
    EXPECT_TRUE(same_from_kept(head, rng.chance(2) ? 400 : rng.between(0, 400), wanted)) << head_text(head);
    if (HasFailure() && ++failures == 8) return;  // the rest would tell nothing new
  }
}

TEST(CudaHeadSaved, edge_rows_equal_the_cpu) {
  for (const char* edge : kHeadEdges) {
    SCOPED_TRACE(edge);
    EXPECT_TRUE(same_from_kept(edge_head_case(edge, DType::kBFloat16, 8), 5));
  }
}

// Ranges of 8192 positions that are kept, in part or not at all; segments of the vocabulary that begin anywhere.
TEST(CudaHeadSaved, more_rows_than_a_range_equal_the_cpu) {
  for (const std::int64_t size : {16, 20})
    for (const std::int64_t allowed : {8192, 8500, 9000, 4000}) {
      SCOPED_TRACE("H " + std::to_string(size) + ", kept " + std::to_string(allowed));
      HeadCase head = some_case(9000, 130, size, "bias");
      for (std::size_t row = 0; row < 9000; row += 40) head.logp.targets[row] = -100;
      EXPECT_TRUE(same_from_kept(head, allowed));
    }
  for (const std::int64_t vocab : {9000, 70001}) {
    SCOPED_TRACE("V " + std::to_string(vocab));
    EXPECT_TRUE(same_from_kept(some_case(140, vocab, 24, "bias"), 140));
    EXPECT_TRUE(same_from_kept(some_case(140, vocab, 24, "bias"), 130));
  }
}

// Rows whose P is computed once more, where a kernel of their own lists them, and in a second chunk of the kept rows.
TEST(CudaHeadSaved, late_rows_of_many_equal_the_cpu) {
  for (const char* what : {"far targets", "all rows far", "odd rows"})
    for (const auto& [rows, allowed] :
         {std::pair<std::int64_t, std::int64_t>{600, 600}, {600, 520}, {9000, 9000}}) {
      SCOPED_TRACE(std::string(what) + ", rows " + std::to_string(rows) + ", kept " +
                   std::to_string(allowed));
      EXPECT_TRUE(same_from_kept(some_case(rows, 200, 16, what), allowed));
    }
}

// Segments of grad_weight that one warpgroup adds up: the rows that take part leave one, two or all three.
TEST(CudaHeadSaved, segments_of_positions_equal_the_cpu) {
  for (const std::size_t live : {100, 8192, 8193, 17000})
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE("rows " + std::to_string(live) + (accumulate ? ", accumulated" : ""));
      HeadCase head = some_case(17000, 130, 16, "plain");
      for (std::size_t row = live; row < 17000; ++row) head.logp.targets[row] = -100;
      EXPECT_TRUE(same_from_kept(head, 17000, {true, true, true, accumulate}));
    }
}

// Whole waves of tiles of 256 x 384 logits, and a rest in small ones.
TEST(CudaHeadSaved, waves_of_large_tiles_and_a_rest_equal_the_cpu) {
  int multiprocessors = 0;
  cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const std::int64_t wave = multiprocessors / 2 * 384;
  for (const std::int64_t vocab : {wave, wave + 1, wave + 700, 2 * wave + 64 * multiprocessors})
    for (const auto& [rows, what] : {std::pair<std::int64_t, const char*>{129, "bias"},
                                     {256, "bias"},
                                     {256, "few rows"},
                                     {200, "far targets"},
                                     {256, "temperature"}}) {
      SCOPED_TRACE("V " + std::to_string(vocab) + ", rows " + std::to_string(rows) + ", " + what);
      HeadCase head = some_case(rows, vocab, 24, what);
      head.logp.targets[0] = vocab - 1, head.logp.targets[1] = wave - 1, head.logp.targets[2] = wave % vocab;
      EXPECT_TRUE(same_from_kept(head, rows));
      Residence host;
      DeviceResidence device;
      EXPECT_TRUE(same_result(head_forward(head, {}, {}, host), head_forward(head, {}, {}, device)));
    }
}

TEST(CudaHeadSaved, what_cannot_be_kept_or_was_not_kept_is_refused_by_name) {
  const HeadCase head = some_case(140, 600, 24, "plain");
  const auto refused = [&](const HeadCase& call, const KeptP& kept, bool backward, bool entropy = false) {
    try {
      DeviceResidence device;
      if (backward)
        head_gradients(call, {}, {}, device, &kept);
      else
        head_forward(call, {}, {true, entropy, true}, device, &kept);
      return std::string("nothing");
    } catch (const Error& error) {
      return std::string(error.argument());
    }
  };
  for (const bool backward : {false, true}) {
    EXPECT_EQ(refused(head, {141, 600}, backward), "saved");
    EXPECT_EQ(refused(head, {140, 500}, backward), "saved");
    EXPECT_EQ(refused(head, {140, 641}, backward), "saved");
  }
  EXPECT_EQ(refused(head, {140, 600}, false, true), "saved");
  HeadCase other = head;
  other.contract = "fma";
  EXPECT_EQ(refused(other, {140, 600}, false), "saved");
}

}  // namespace
}  // namespace samebits::test
