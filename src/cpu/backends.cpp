// The CPU's lines in the backend table, fastest first.
#include <hwy/targets.h>

#include "core/backend.h"
#include "cpu/embedding.h"
#include "cpu/linear_logp.h"
#include "cpu/linear_logp_backward.h"
#include "cpu/logp.h"
#include "cpu/matmul.h"
#include "cpu/row_kernels.h"
#include "cpu/row_primitives.h"

namespace samebits::cpu {
namespace {

// What of the machine an instruction set needs.
template <Isa isa>
constexpr std::int64_t kHwyTarget = isa == Isa::kAvx512 ? HWY_AVX3
                                    : isa == Isa::kAvx2 ? HWY_AVX2
                                                        : HWY_NEON;

template <Isa isa>
bool available() {
  if (row_kernels(isa) == nullptr || matmul_kernels(isa) == nullptr) return false;
  return isa == Isa::kScalar || (hwy::SupportedTargets() & kHwyTarget<isa>) != 0;
}

template <Isa isa>
constexpr core::Backend backend(const char* name, const char* requirement) {
  return {
      name,
      available<isa>,
      requirement,
      [](const core::LogpProblem& p, const core::Executor& e) { logp_forward(p, e, isa); },
      [](const core::LogpProblem& p, const core::Executor& e) { logp_backward(p, e, isa); },
      [](const core::LogpProblem& p, const core::Executor& e) { probability(p, e, isa); },
      [](const core::RowSumProblem& p, const core::Executor& e) { row_sum(p, e, isa); },
      [](const core::MatmulProblem& p, const core::Executor& e) {
        matmul(p, e, *matmul_kernels(isa), *tc16_kernels(isa));
      },
      [](const core::LinearLogpProblem& p, const core::Executor& e) {
        linear_logp_forward(
            p, e, {*matmul_kernels(isa), *tc16_kernels(isa), *row_kernels(isa), *row64_kernels(isa)});
      },
      [](const core::LinearLogpGradient& p, const core::Executor& e) { linear_logp_backward(p, e, isa); },
      logp_scratch_bytes,
      row_sum_scratch_bytes,
      matmul_scratch_bytes,
      linear_logp_scratch_bytes,
      linear_logp_backward_scratch_bytes,
      embedding_forward,
      embedding_backward,
      embedding_backward_scratch_bytes,
  };
}

constexpr core::Backend kBackends[] = {
    backend<Isa::kAvx512>("avx512", "an x86-64 CPU with AVX-512 (F, BW, CD, DQ, VL)"),
    backend<Isa::kAvx2>("avx2", "an x86-64 CPU with AVX2, FMA and F16C"),
    backend<Isa::kNeon>("neon", "a 64-bit Arm CPU with NEON and AES"),
    backend<Isa::kScalar>("scalar", "nothing"),
};

}  // namespace
}  // namespace samebits::cpu

namespace samebits::core {

std::span<const Backend> cpu_backends() { return cpu::kBackends; }

}  // namespace samebits::core
