// The answer of plan(), for the devices of the library it is compiled into.
#include <charconv>

#include "convert.h"

namespace samebits::torch_binding {
namespace {

// "cpu" or "cuda:1".
Device parse_device(const std::string& name) {
  if (name == "cpu") return {};
  Device device{DeviceType::kCuda, 0};
  const char* digits = name.data() + std::min<std::size_t>(name.size(), 5);
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), device.index);
  if (!name.starts_with("cuda:") || error != std::errc() || end != name.data() + name.size())
    throw Error(ErrorCode::kInvalidArgument, "device", "is '" + name + "'; may be 'cpu' or 'cuda:INDEX'");
  return device;
}

}  // namespace

std::string plan_json(std::string op, std::string dtype, std::string device, std::string contract,
                      bool row_temperature, bool rows, bool keep_unselected, std::int64_t vocab,
                      double temperature, std::optional<std::int64_t> ignore_index, std::string on_invalid,
                      std::optional<std::int64_t> vocab_size, bool binary64, std::string backend) {
  return guarded([&] {
    PlanRequest request;
    request.op = op;
    request.dtype = parse_dtype(dtype);
    request.device = parse_device(device);
    request.backend = backend;
    request.contract = contract;
    request.options = make_options({}, {}, temperature, ignore_index, on_invalid, vocab_size, binary64);
    request.options.row_temperature.present = row_temperature;
    request.options.rows.present = rows;
    request.options.keep_unselected = keep_unselected;
    request.vocab = vocab;
    return plan(request).provenance_json;
  });
}

}  // namespace samebits::torch_binding
