// How a head's gradient is cut up: within the memory that is promised, and without an effect on any bit.
#include <gtest/gtest.h>

#include "cuda/launch/head_calls.h"
#include "cuda/launch/head_engines.h"
#include "device.h"
#include "exchanged_backend.h"
#include "head_case.h"

namespace samebits::test {
namespace {

// field-failures A11, A25: neither the logits nor a gradient of the whole weight is ever held.
TEST(CudaHeadMemory, scratch_is_bounded) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const DeviceBytes somewhere(256);
  const auto at = [&](DType dtype, std::initializer_list<std::int64_t> shape) {
    return TensorView(somewhere.data(), dtype, shape, kGpu);
  };
  for (const std::int64_t vocab : {131072, 129280, 151936, 1 << 18, 1 << 20, 1 << 22})
    for (const std::int64_t size : {16, 333, 2688, 2689, 4096, 4097, 7168, 7169, 8191, 8192})
      for (const std::int64_t rows : {1, 8, 16, 64, 300, 512, 513, 2048, 8192, 8193, 16384, 65536})
        for (const auto& [bias, gap] : {std::pair<bool, std::int64_t>{false, 0}, {true, 0}, {true, 64}}) {
          SCOPED_TRACE("rows " + std::to_string(rows) + ", V " + std::to_string(vocab) + ", H " +
                       std::to_string(size) + (bias ? ", bias" : "") + ", gaps of " + std::to_string(gap));
          const TensorView weight = at(DType::kBFloat16, {vocab, size}),
                           entries = at(DType::kBFloat16, {vocab});
          const TensorView hidden = at(DType::kBFloat16, {rows, size}), ids = at(DType::kInt64, {rows});
          const ConstTensorView maybe = bias ? ConstTensorView(entries) : ConstTensorView();
          EXPECT_LE(linear_logp_workspace_bytes(hidden, weight, ids, maybe, {}, false), 128 * kMiB);
          LinearLogpGradients gradients;
          gradients.hidden =
              TensorView(somewhere.data(), DType::kBFloat16, {rows, size}, {size + gap, 1}, kGpu);
          gradients.weight = weight;
          if (bias) gradients.bias = entries;
          const auto bytes = static_cast<std::int64_t>(
              linear_logp_backward_workspace_bytes(hidden, weight, ids, maybe, {}, gradients));
          EXPECT_LE(bytes - 8 * rows * size, 256 * kMiB);
        }
}

// With little room and with none at all: rows gathered in parts, columns of P and of weight in the smallest pieces, P computed
// anew for them and apart for grad_hidden, with some of it saved and without, in grad_weight itself, no sums held.
TEST(CudaHeadSplit, less_room_gives_the_same_bits) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32})
    for (const auto& [rows, vocab, size] : {std::array<std::int64_t, 3>{5, 40000, 16},
                                            {100, 3000, 24},
                                            {130, 3000, 33},
                                            {1700, 2500, 16},
                                            {300, 3000, 512},
                                            {8200, 1024, 1536},
                                            {8200, 24000, 8}}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", rows " + std::to_string(rows));
      Rng rng(static_cast<std::uint64_t>(rows));
      HeadCase head = random_head_case(rng, rows, vocab, size, dtype);
      head.bias = normal_elements(rng, dtype, vocab);
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); row += 7) head.logp.targets[row] = -100;
      const auto gradients = [&](const KeptP* kept = nullptr) {
        DeviceResidence device;
        return head_gradients(head, ExecContext{}, {}, device, kept);
      };
      const HeadGradients expected = gradients();
      static std::int64_t room;
      for (const std::int64_t mebibytes : {0, 2, 6, 8, 9, 10, 12, 24, 48, 49, 50, 51, 52, 53, 54}) {
        if (rows * size > 1 << 20 && mebibytes % 12 != 0) continue;  // they take long
        SCOPED_TRACE("room of " + std::to_string(mebibytes) + " MiB");
        room = mebibytes << 20;
        ExchangedBackend narrow;
        narrow.table.linear_logp_backward = [](core::LinearLogpGradient problem,
                                               const core::DeviceCall& call) {
          const auto choice = cuda::make_head_engine(cuda::shape_of(problem.head), call.device);
          cuda::linear_logp_backward_by(*choice.engine, problem, call, room);
        };
        EXPECT_TRUE(same_gradients(expected, gradients()));
        if (dtype != DType::kBFloat16 || rows < 256) continue;
        const KeptP kept(256, vocab);
        DeviceResidence device;
        head_forward(head, {}, {true, false, true}, device, &kept);
        EXPECT_TRUE(same_gradients(expected, gradients(&kept)));
      }
    }
}

}  // namespace
}  // namespace samebits::test
