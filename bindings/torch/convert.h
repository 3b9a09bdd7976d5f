// From torch's stable tensors and arguments to the library's views and options, and its errors back.
//
// Every operator's kernel has the same body: views, options, outputs, one library call, all inside guarded().
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <samebits/samebits.h>

namespace samebits::torch_binding {

using torch::stable::Tensor;

// What every logp-like operator takes at its end. Defaults are worth having: each argument passed from Python
// costs 0.2 us of call overhead, a default costs almost none.
#define SAMEBITS_LOGP_OPTIONS                                                                        \
  "Tensor? row_temperature=None, Tensor? rows=None, float temperature=1.0, int? ignore_index=None, " \
  "str on_invalid='zero', int? vocab_size=None, bool binary64=False, str backend='auto'"

// Throws when it is a dtype the library has no word for.
DType dtype_of(const Tensor& tensor);

// Where the tensor lives (each library has its own answer).
Device device_of(const Tensor& tensor);

// The tensor as a view. A last axis of extent 1 counts as dense whatever its stride.
ConstTensorView view(const Tensor& tensor);
ConstTensorView view(const std::optional<Tensor>& tensor);  // absent when the argument is
TensorView mutable_view(const Tensor& tensor);

// The tensor itself when its last axis is dense, else a contiguous copy.
Tensor dense_rows(const Tensor& tensor);

// A new contiguous tensor, uninitialised, on the device that torch's shims know by this type and index. What it would
// have been is named where there is no memory for it.
Tensor new_tensor(std::span<const std::int64_t> shape, DType dtype, std::int32_t device_type,
                  std::int32_t device_index);
std::span<const std::int64_t> shape_of(const Tensor& tensor);

LogpOptions make_options(const std::optional<Tensor>& row_temperature, const std::optional<Tensor>& rows,
                         double temperature, std::optional<std::int64_t> ignore_index,
                         const std::string& on_invalid, std::optional<std::int64_t> vocab_size,
                         bool binary64);
OnInvalid parse_on_invalid(const std::string& name);
DType parse_dtype(const std::string& name);

// Whether results are float64: by the dtype of the logits or by request.
bool is_binary64(const Tensor& logits, bool asked);

// The provenance of a plan, with its refusals if there are any, as JSON.
std::string plan_json(std::string op, std::string dtype, std::string device, std::string contract,
                      bool row_temperature, bool rows, bool keep_unselected, std::int64_t vocab,
                      double temperature, std::optional<std::int64_t> ignore_index, std::string on_invalid,
                      std::optional<std::int64_t> vocab_size, bool binary64, std::string backend);

// The error as Python sees it: "[samebits:value] ARGUMENT: reason", from which the package makes a ValueError.
std::runtime_error translate(const Error& error);

template <class F>
auto guarded(F&& body) -> std::invoke_result_t<F> {
  try {
    return body();
  } catch (const Error& error) {
    throw translate(error);
  }
}

}  // namespace samebits::torch_binding
