// Small calls through every kernel, for compute-sanitizer: it is some hundred times slower than the GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/launch/head_calls.h"
#include "cuda/launch/head_engines.h"
#include "device.h"
#include "embedding_case.h"
#include "exchanged_backend.h"
#include "head_random.h"
#include "random_case.h"
#include "row_sum_case.h"

namespace samebits::test {
namespace {

TEST(CudaSanitizer, small_shapes_of_random_calls) {
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0x5a71);
    const LogpCase c = random_case(rng, 700);
    const LogpResult expected = twin(c);
    const Layout layout = random_layout(rng, c);
    DeviceResidence residence;
    const LogpResult actual = run_case(c, expected, layout, {}, residence);
    ASSERT_TRUE(same_result(expected_of(c, expected, layout), actual, Finite::kPerhapsNone));
  }
}

// Long enough to be cut into parts and to fill whole tiles.
TEST(CudaSanitizer, small_shapes_of_long_rows) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    Rng rng(static_cast<std::uint64_t>(dtype));
    LogpCase c = plain_case(2, 20011, dtype);
    for (std::int64_t i = 0; i < c.rows * c.vocab; ++i) set_element(c.logits, i, rng.normal() * 4);
    c.targets = {7, 20010};
    for (Values* upstream : {&c.grad_logp, &c.grad_lse, &c.grad_entropy}) {
      *upstream = Values(c.real(), c.rows);
      for (std::int64_t row = 0; row < c.rows; ++row) set_element(*upstream, row, rng.normal());
    }
    const LogpResult expected = twin(c);
    DeviceResidence residence;
    ASSERT_TRUE(same_result(expected, run_case(c, expected, {}, {}, residence))) << dtype_name(dtype);
  }
}

// More than a GPU has room for, with a chunk that is not full; a quarter takes no part.
TEST(CudaSanitizer, small_shapes_of_many_rows) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Rng rng(static_cast<std::uint64_t>(dtype) + 0x60d5);
    const std::int64_t rows = 800;
    LogpCase c = plain_case(rows, dtype == DType::kFloat32 ? 3205 : 9301, dtype);
    for (std::int64_t i = 0; i < c.rows * c.vocab; ++i) set_element(c.logits, i, rng.normal() * 4);
    c.ignore_index = -100;
    c.grad_logp = Values(c.real(), rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      c.targets[static_cast<std::size_t>(row)] = row % 4 == 3 ? -100 : rng.below(c.vocab);
      set_element(c.grad_logp, row, rng.normal());
    }
    const LogpResult expected = twin(c);
    Layout layout;
    layout.logits.gap = layout.grad.gap = 3;  // rows begin on boundaries of 16 bytes
    DeviceResidence residence;
    ASSERT_TRUE(same_result(expected_of(c, expected, layout), run_case(c, expected, layout, {}, residence)))
        << dtype_name(dtype);
  }
}

TEST(CudaSanitizer, small_shapes_of_row_sum) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64})
    for (const std::int64_t columns : {0, 1, 127, 129, 5000, 20011}) {
      Rng rng(static_cast<std::uint64_t>(columns));
      Values values(dtype, 3 * columns);
      for (std::int64_t i = 0; i < values.count(); ++i) set_element(values, i, rng.normal());
      DeviceResidence residence;
      ASSERT_TRUE(same_bits(row_sum_twin(values, 3), row_sum_call(values, 3, {}, {}, residence)))
          << dtype_name(dtype) << " " << columns;
    }
}

TEST(CudaSanitizer, small_shapes_of_embedding) {
  for (int i = 0; i < 24; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0xe3b);
    EmbeddingCase c = random_embedding_case(rng);
    if (i % 8 == 0) {  // two segments and a bit of one id
      c.ids.assign(2100, std::min<std::int64_t>(c.vocab - 1, 5));
      c.grad = normal_elements(rng, c.weight.dtype, 2100 * c.columns);
    }
    DeviceResidence residence;
    ASSERT_TRUE(same_embedding(embedding_twin(c),
                               embedding_call(c, random_embedding_layout(rng, c), {}, residence),
                               Finite::kPerhapsNone));
  }
}

TEST(CudaSanitizer, small_shapes_of_heads) {
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0x4ead5);
    const DType dtype = rng.pick({DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64});
    HeadCase head = random_head_case(rng, rng.between(0, 40), rng.between(1, 300), rng.between(1, 40), dtype);
    if (rng.chance(4)) head.contract = "fma";
    vary_head(head, rng);
    const Wanted wanted{true, true, true, rng.chance(2)};
    Residence host;
    DeviceResidence device, gradient_device;  // one a call: it writes to the call's host memory at the end
    ASSERT_TRUE(same_result(head_forward(head, {}, {}, host), head_forward(head, {}, {}, device),
                            Finite::kPerhapsNone));
    ASSERT_TRUE(same_gradients(head_gradients(head, ExecContext{}, wanted, host),
                               head_gradients(head, ExecContext{}, wanted, gradient_device),
                               Finite::kPerhapsNone));
  }
}

// P that is kept, of all rows and of whole tiles of them, with hidden sizes that no run of 16 bytes divides.
TEST(CudaSanitizer, small_shapes_of_kept_rows) {
  for (int i = 0; i < 12; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Rng rng(static_cast<std::uint64_t>(i) + 0x6e97);
    const std::int64_t rows = rng.between(1, 300);
    HeadCase head =
        random_head_case(rng, rows, rng.between(1, 300), 2 * rng.between(1, 20), DType::kBFloat16);
    head.weight_lay = Lay::kWholeRows;
    for (std::int64_t row = 0; row < rows; row += 3) head.logp.targets[static_cast<std::size_t>(row)] = -100;
    const KeptP kept{rng.chance(2) ? rows : std::min<std::int64_t>(rows, 128), head.logp.vocab};
    const Wanted wanted{true, true, true, rng.chance(2)};
    Residence host, host_gradient;
    DeviceResidence device, gradient_device;
    ASSERT_TRUE(same_result(head_forward(head, {}, {true, false, true}, host),
                            head_forward(head, {}, {true, false, true}, device, &kept),
                            Finite::kPerhapsNone));
    ASSERT_TRUE(same_gradients(head_gradients(head, ExecContext{}, wanted, host_gradient),
                               head_gradients(head, {}, wanted, gradient_device, &kept),
                               Finite::kPerhapsNone));
  }
}

// With little room: P in rows of grad_weight that are written later, then in scratch, and hidden states the other way round.
TEST(CudaSanitizer, small_shapes_of_heads_with_little_room) {
  static std::int64_t room;
  ExchangedBackend narrow;
  narrow.table.linear_logp_backward = [](core::LinearLogpGradient problem, const core::DeviceCall& call) {
    const auto choice = cuda::make_head_engine(cuda::shape_of(problem.head), call.device);
    cuda::linear_logp_backward_by(*choice.engine, problem, call, room);
  };
  for (const auto& [mebibytes, kept_rows] : {std::pair<std::int64_t, std::int64_t>{4, 0}, {6, 0}, {4, 128}}) {
    room = mebibytes << 20;
    Rng rng(0x6a47);
    HeadCase head = random_head_case(rng, 200, 2200, 264, DType::kBFloat16);
    head.weight_lay = Lay::kWholeRows;
    for (std::size_t row = 0; row < 200; row += 5) head.logp.targets[row] = -100;
    Residence host;
    DeviceResidence device, gradient_device;
    const KeptP kept(kept_rows, head.logp.vocab);
    const KeptP* const maybe = kept_rows > 0 ? &kept : nullptr;
    head_forward(head, {}, {true, false, true}, device, maybe);
    ASSERT_TRUE(same_gradients(head_gradients(head, ExecContext{}, {}, host),
                               head_gradients(head, ExecContext{}, {}, gradient_device, maybe)));
  }
}

}  // namespace
}  // namespace samebits::test
