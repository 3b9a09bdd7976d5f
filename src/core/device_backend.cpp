#include "core/device_backend.h"

#include <atomic>

namespace samebits::core {
namespace {

// One kind of device beside the CPU so far.
std::atomic<const DeviceBackend*> cuda_backend{nullptr};

bool names_whole_backend(const DeviceBackend& backend, std::string_view name) {
  return name == "auto" || name == backend.name;
}

}  // namespace

std::string device_text(Device device) {
  return device.type == DeviceType::kCpu ? "the cpu" : "cuda:" + std::to_string(device.index);
}

void register_device_backend(DeviceType type, const DeviceBackend* backend) {
  if (type == DeviceType::kCuda) cuda_backend.store(backend);
}

const DeviceBackend& device_backend(Device device, const char* argument) {
  const DeviceBackend* backend = device.type == DeviceType::kCuda ? cuda_backend.load() : nullptr;
  if (backend == nullptr)
    throw Error(ErrorCode::kUnsupported, argument,
                "is on " + device_text(device) +
                    ", and the CUDA library is not loaded (samebits::cuda::enable()); must be on the cpu");
  return *backend;
}

const DeviceBackend& pick_device_backend(Device device, const ExecContext& context) {
  const DeviceBackend& backend = device_backend(device, "device");
  if (!names_whole_backend(backend, context.backend))
    throw Error(ErrorCode::kUnsupported, "backend",
                "is '" + std::string(context.backend) + "' with operands on " + device_text(device) +
                    "; may be 'auto' or '" + backend.name + "'");
  return backend;
}

const DeviceBackend& pick_product_backend(const MatmulProblem& problem, Device device,
                                          const ExecContext& context) {
  const DeviceBackend& backend = device_backend(device, "device");
  if (names_whole_backend(backend, context.backend)) return backend;
  std::string choices = std::string("may be 'auto', '") + backend.name + "'";
  for (const ProductEngineAnswer& engine : backend.product_engines(problem, device)) {
    choices += ", '" + engine.name + "'";
    if (engine.name != context.backend) continue;
    if (engine.refusal.empty()) return backend;
    throw Error(ErrorCode::kUnsupported, "backend",
                "is '" + engine.name + "', which cannot run this product: " + engine.refusal +
                    "; may be 'auto' or '" + backend.name + "'");
  }
  throw Error(
      ErrorCode::kUnsupported, "backend",
      "is '" + std::string(context.backend) + "' with operands on " + device_text(device) + "; " + choices);
}

DeviceCall make_device_call(Device device, const ExecContext& context) {
  DeviceCall call;
  call.device = device;
  call.stream = context.stream;
  call.workspace = context.workspace;
  if (!names_whole_backend(device_backend(device, "device"), context.backend)) call.engine = context.backend;
  return call;
}

DeviceCall make_device_call(Device device, const ExecContext& context, const LogpOptions& options) {
  DeviceCall call = make_device_call(device, context);
  call.rows = options.rows;
  call.raise_on_invalid = options.on_invalid == OnInvalid::kRaise;
  return call;
}

}  // namespace samebits::core
