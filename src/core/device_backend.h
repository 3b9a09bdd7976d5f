// Backends of other devices: a library of their own registers one per kind of device, and a call on such operands
// goes to it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <samebits/context.h>
#include <samebits/logp.h>

#include "core/embedding_problem.h"
#include "core/linear_logp_gradient.h"
#include "core/logp_problem.h"
#include "core/row_sum_problem.h"

namespace samebits::core {

// How a call on a device is run. Nothing of it reaches a bit of a result.
struct DeviceCall {
  Device device = {};
  void* stream = nullptr;
  std::span<std::byte> workspace = {};  // memory of the device; may be empty or too small
  ConstTensorView rows = {};            // LogpOptions::rows; the backend makes `LogpProblem::selected` of it
  bool raise_on_invalid = false;        // OnInvalid::kRaise; the only thing that waits for the device
  std::string_view engine = {};         // of a product, by name; empty: the first that does not refuse
};

// One way in which a device computes products, and whether it would take the product in question.
struct ProductEngineAnswer {
  std::string name;    // as ExecContext::backend takes it
  std::string kernel;  // id for plans
  bool by_name_only = false;
  std::string refusal;  // empty when it would
};

struct DeviceBackend {
  const char* name;
  // The device's name and architecture ("NVIDIA H200", "sm90"); throws Error when it cannot be used.
  std::string (*device_name)(Device);
  std::string (*architecture)(Device);
  void (*logp_forward)(LogpProblem, const DeviceCall&);
  void (*logp_backward)(LogpProblem, const DeviceCall&);
  void (*probability)(LogpProblem, const DeviceCall&);
  void (*row_sum)(const RowSumProblem&, const DeviceCall&);
  // Bytes of the largest scratch a logp or probability call takes, alignment included.
  std::size_t (*logp_scratch_bytes)(const LogpProblem&, const DeviceCall&);
  std::size_t (*row_sum_scratch_bytes)(const RowSumProblem&, const DeviceCall&);
  void (*matmul)(const MatmulProblem&, const DeviceCall&);
  std::size_t (*matmul_scratch_bytes)(const MatmulProblem&, const DeviceCall&);
  // Every engine, in the order in which they are tried.
  std::vector<ProductEngineAnswer> (*product_engines)(const MatmulProblem&, Device);
  // What probing the device for tc16.v1 found, for provenance; throws Error when its tensor cores do not follow the
  // contract. Runs the probe at its first call for a device.
  std::string (*tc16_probe)(Device);
  void (*linear_logp_forward)(LinearLogpProblem, const DeviceCall&);
  void (*linear_logp_backward)(LinearLogpGradient, const DeviceCall&);
  // Bytes of the largest scratch of such a call; without data in its operands.
  std::size_t (*linear_logp_scratch_bytes)(const LinearLogpProblem&, const DeviceCall&);
  std::size_t (*linear_logp_backward_scratch_bytes)(const LinearLogpGradient&, const DeviceCall&);
  // Every engine for the products of a head, in the order in which they are tried; none has a name that a caller may ask for.
  std::vector<ProductEngineAnswer> (*linear_logp_engines)(const LinearLogpProblem&, Device);
  void (*embedding_forward)(const EmbeddingProblem&, const DeviceCall&);
  void (*embedding_backward)(const EmbeddingProblem&, const DeviceCall&);
  std::size_t (*embedding_backward_scratch_bytes)(const EmbeddingProblem&, const DeviceCall&);
};

// "cpu", "cuda:1"
std::string device_text(Device device);

// Called by the library of a device, once or again with the same table.
void register_device_backend(DeviceType type, const DeviceBackend* backend);

// The backend of that kind of device; throws Error naming `argument` when its library is not loaded.
const DeviceBackend& device_backend(Device device, const char* argument);

// The same for a call: also throws unless `context.backend` is one that runs on `device`.
const DeviceBackend& pick_device_backend(Device device, const ExecContext& context);

// True when operands on `device` go to a DeviceBackend.
inline bool on_device(Device device) { return device.type != DeviceType::kCpu; }

// The same for a product, whose engines have names too.
const DeviceBackend& pick_product_backend(const MatmulProblem& problem, Device device,
                                          const ExecContext& context);

DeviceCall make_device_call(Device device, const ExecContext& context);

// The same with what the options say of the rows.
DeviceCall make_device_call(Device device, const ExecContext& context, const LogpOptions& options);

}  // namespace samebits::core
