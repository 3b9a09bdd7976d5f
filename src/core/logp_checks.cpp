#include "core/logp_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/device_backend.h"
#include "order/row.h"

namespace samebits::core {
namespace {

[[noreturn]] void invalid(const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, name, reason);
}
[[noreturn]] void wrong_type(const std::string& name, DType was, const char* may_be) {
  throw Error(ErrorCode::kType, name, "is " + std::string(dtype_name(was)) + "; may be " + may_be);
}

bool is_integer(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// The bytes a view touches: [low, high).
struct Extent {
  std::uintptr_t low, high;
};
Extent extent_of(const ConstTensorView& view) {
  const auto base = reinterpret_cast<std::uintptr_t>(view.data);
  if (view.numel() == 0) return {base, base};
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < view.rank; ++i) {
    const std::int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t size = dtype_size(view.dtype);
  return {base + static_cast<std::uintptr_t>(low * size),
          base + static_cast<std::uintptr_t>((high + 1) * size)};
}

// `view` has the leading shape of `source` (all but its last axis).
void check_leading_shape(const ConstTensorView& view, const char* name, const ConstTensorView& source,
                         const char* source_name) {
  bool same = view.rank == source.rank - 1;
  for (int i = 0; same && i < view.rank; ++i) same = view.shape[i] == source.shape[i];
  if (same) return;
  ConstTensorView leading = source;
  leading.rank = source.rank - 1;
  invalid(name, "has shape " + shape_text(view) + "; must have the leading shape " + shape_text(leading) +
                    " of " + source_name);
}

bool allowed_temperature(double tau) { return tau >= 0x1p-64 && tau <= 0x1p64; }

std::string number_text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

void check_temperatures(const LogpProblem& problem, const LogpOptions& options, const ConstTensorView& source,
                        const char* source_name) {
  if (!options.row_temperature) return check_temperature(options.temperature);
  if (options.row_temperature.dtype != DType::kFloat32 && options.row_temperature.dtype != DType::kFloat64)
    wrong_type("temperature", options.row_temperature.dtype, "float32 or float64");
  check_memory(options.row_temperature, "temperature", problem.device);
  check_leading_shape(options.row_temperature, "temperature", source, source_name);
  // Values on a device are not read here, which would synchronise; a bad one makes its row NaN.
  if (problem.device.type != DeviceType::kCpu) return;
  for (std::int64_t row = 0; row < problem.rows; ++row)
    if (!allowed_temperature(problem.tau(row)))
      invalid("temperature", "is " + number_text(problem.tau(row)) + " at row " + std::to_string(row) +
                                 "; must be finite and within [2^-64, 2^64]");
}

}  // namespace

void check_view(const ConstTensorView& view, const char* name) {
  if (view.rank < 0 || view.rank > kMaxRank)
    invalid(name,
            "has " + std::to_string(view.rank) + " dimensions; may have 0 to " + std::to_string(kMaxRank));
  const std::int64_t size = dtype_size(view.dtype);
  if (size == 0)
    throw Error(
        ErrorCode::kType, name,
        "has dtype number " + std::to_string(static_cast<int>(view.dtype)) + "; must be one of DType");
  // Far from the ends of 64 bits, so that sums of two never overflow; no memory is as large.
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  std::int64_t count = 1, low = 0, high = 0;
  bool fits = true, empty = false;
  for (int i = 0; i < view.rank; ++i) {
    const std::int64_t extent = view.shape[i];
    if (extent < 0) invalid(name, "has shape " + shape_text(view) + "; extents must be >= 0");
    empty = empty || extent == 0;
    std::int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(count, std::max<std::int64_t>(extent, 1), &count) &&
           !__builtin_mul_overflow(extent > 0 ? extent - 1 : 0, view.strides[i], &reach) && reach > -kLimit &&
           reach < kLimit;
    if (fits) (reach < 0 ? low : high) += reach;
    fits = fits && count < kLimit && low > -kLimit && high < kLimit;
  }
  if (!empty && (!fits || low <= -kLimit / size || high >= kLimit / size))
    invalid(name, "has shape " + shape_text(view) +
                      " and strides that no memory can hold; must have at most " + "2^60 elements and bytes");
}

void check_memory(const ConstTensorView& view, const char* name, Device device) {
  check_view(view, name);
  if (view.device != device)
    throw Error(ErrorCode::kUnsupported, name,
                "is on " + device_text(view.device) + "; must be on " + device_text(device) +
                    (device.type == DeviceType::kCpu ? "" : " like the other operands"));
  if (device.type != DeviceType::kCpu) device_backend(device, name);
  const std::int64_t count = view.numel();
  if (count == 0) return;
  if (view.data == nullptr) invalid(name, "is null; must point at " + std::to_string(count) + " elements");
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(dtype_size(view.dtype)) != 0)
    invalid(name, "is not aligned to its element size; must be aligned to " +
                      std::to_string(dtype_size(view.dtype)) + " bytes");
}

void check_no_overlap(const ConstTensorView& output, const char* output_name, const ConstTensorView& input,
                      const char* input_name) {
  const Extent a = extent_of(output), b = extent_of(input);
  if (a.low < b.high && b.low < a.high)
    invalid(output_name, std::string("shares memory with ") + input_name + "; must be a buffer of its own");
}

void check_writable(const ConstTensorView& output, const char* name, Device device) {
  check_memory(output, name, device);
  if (output.numel() == 0) return;
  // From the smallest stride up, each must reach beyond all that those before it reach. Some odd interleavings
  // that would be harmless are refused too.
  std::pair<std::int64_t, std::int64_t> axes[kMaxRank];  // stride, extent
  int count = 0;
  for (int i = 0; i < output.rank; ++i) {
    if (output.shape[i] <= 1) continue;
    const std::pair<std::int64_t, std::int64_t> axis{std::abs(output.strides[i]), output.shape[i]};
    int at = count++;
    for (; at > 0 && axis < axes[at - 1]; --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  std::int64_t reach = 0;
  for (int i = 0; i < count; ++i) {
    const auto [stride, extent] = axes[i];
    if (stride <= reach)
      invalid(name, "has stride " + std::to_string(stride) +
                        " where elements coincide; must hold every element apart");
    reach += stride * (extent - 1);
  }
}

void check_workspace(std::span<std::byte> workspace,
                     std::initializer_list<std::pair<const char*, ConstTensorView>> operands) {
  if (workspace.empty()) return;
  const ConstTensorView words(workspace.data(), DType::kInt32,
                              {static_cast<std::int64_t>(workspace.size() + 3) / 4});
  for (const auto& [name, operand] : operands)
    if (operand) check_no_overlap(words, "workspace", operand, name);
}

void check_dense(const ConstTensorView& view, const char* name) {
  if (view.shape[view.rank - 1] > 1 && view.strides[view.rank - 1] != 1)
    invalid(name, "has stride " + std::to_string(view.strides[view.rank - 1]) +
                      " along the last axis; must have stride 1 there");
}

void check_temperature(double tau) {
  if (!allowed_temperature(tau))
    invalid("temperature", "is " + number_text(tau) + "; must be finite and within [2^-64, 2^64]");
}

std::int64_t true_vocab(const LogpOptions& options, std::int64_t columns, const char* columns_name) {
  const std::int64_t vocab = options.vocab_size.value_or(columns);
  if (options.vocab_size && (vocab < 1 || (columns > 0 && vocab > columns)))
    invalid("vocab_size",
            "is " + std::to_string(vocab) + "; must be 1 to " +
                (columns > 0 ? std::to_string(columns) + ", the vocabulary axis of " + columns_name
                             : std::to_string(order::kMaxVocab)));
  if (vocab > order::kMaxVocab)
    invalid(columns_name, "has " + std::to_string(vocab) + " vocabulary columns; may have at most " +
                              std::to_string(order::kMaxVocab));
  return vocab;
}

LogpProblem make_problem(const ConstTensorView& source, const char* source_name, std::int64_t columns,
                         const char* columns_name, const ConstTensorView& targets,
                         const LogpOptions& options) {
  LogpProblem problem;
  problem.device = source.device;
  if (!is_floating(source.dtype))
    wrong_type(source_name, source.dtype, "float32, bfloat16, float16 or float64");
  check_view(source, source_name);
  if (source.rank < 1) invalid(source_name, "has no axis; must have at least one");
  check_memory(source, source_name, problem.device);
  if (!targets) invalid("targets", "are missing; must be int32 or int64 ids");
  if (!is_integer(targets.dtype)) wrong_type("targets", targets.dtype, "int32 or int64");
  check_memory(targets, "targets", problem.device);
  check_leading_shape(targets, "targets", source, source_name);
  if (columns < 1) invalid(columns_name, "has an empty vocabulary axis; must have at least one column");
  const std::int64_t vocab = true_vocab(options, columns, columns_name);

  problem.rows = targets.numel();
  problem.vocab = vocab;
  problem.columns = columns;
  problem.dtype = source.dtype;
  problem.binary64 = source.dtype == DType::kFloat64 || options.precision == Precision::kFloat64;
  problem.targets = {targets.data, targets.dtype, RowIndex::of(targets, targets.rank)};
  problem.temperature = options.temperature;
  if (options.row_temperature)
    problem.row_temperature = {options.row_temperature.data, options.row_temperature.dtype,
                               RowIndex::of(options.row_temperature, options.row_temperature.rank)};
  check_temperatures(problem, options, source, source_name);
  problem.keep_unselected = options.keep_unselected;
  problem.has_ignore_index = options.ignore_index.has_value();
  problem.ignore_index = options.ignore_index.value_or(0);
  problem.nan_on_invalid = options.on_invalid == OnInvalid::kNan;
  if (options.rows) {
    if (!is_integer(options.rows.dtype)) wrong_type("rows", options.rows.dtype, "int32 or int64");
    if (options.rows.rank != 1) invalid("rows", "has shape " + shape_text(options.rows) + "; must be 1-D");
    // An expanded list may be longer than any memory, and would be worked on for ever.
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (options.rows.numel() > kMost)
      invalid("rows", "has shape " + shape_text(options.rows) + ", " + std::to_string(options.rows.numel()) +
                          " entries; may have at most 2^31");
    check_memory(options.rows, "rows", problem.device);
  }
  return problem;
}

void set_outputs(LogpProblem& problem, const ConstTensorView& source, const LogpOutputs& outputs,
                 std::initializer_list<std::pair<const char*, ConstTensorView>> inputs) {
  const DType real = problem.binary64 ? DType::kFloat64 : DType::kFloat32;
  const char* real_name = problem.binary64 ? "float64" : "float32";
  const std::pair<const char*, const TensorView*> all[] = {
      {"logp", &outputs.logp},       {"lse", &outputs.lse},
      {"entropy", &outputs.entropy}, {"row_max", &outputs.row_max},
      {"row_sum", &outputs.row_sum}, {"row_entropy_sum", &outputs.row_entropy_sum}};
  for (int i = 0; i < 6; ++i) {
    const auto& [name, output] = all[i];
    if (!*output) continue;
    const bool sums = i >= 4;
    if (output->dtype != (sums ? DType::kInt64 : real))
      wrong_type(name, output->dtype, sums ? "int64" : real_name);
    check_writable(*output, name, problem.device);
    if (i < 3) {
      check_leading_shape(*output, name, source, "the input");
    } else {
      const std::int64_t wanted = problem.rows * (sums && problem.binary64 ? 2 : 1);
      if (output->numel() != wanted)
        invalid(name,
                "has " + std::to_string(output->numel()) + " elements; must have " + std::to_string(wanted));
      const TensorView dense(output->data, output->dtype, std::span(output->shape.data(), output->rank));
      for (int k = 0; k < output->rank; ++k)
        if (output->shape[k] > 1 && dense.strides[k] != output->strides[k])
          invalid(name, "is strided; must be contiguous");
    }
    for (const auto& [input_name, input] : inputs)
      if (input) check_no_overlap(*output, name, input, input_name);
    for (int k = 0; k < i; ++k)
      if (*all[k].second) check_no_overlap(*output, name, *all[k].second, all[k].first);
  }
  const auto rows_of = [&](const TensorView& view) {
    return RowArray<void>{view.data, view.dtype, RowIndex::of(view, view.rank)};
  };
  if (problem.rows == 0) return;
  if (outputs.logp) problem.logp = rows_of(outputs.logp);
  if (outputs.lse) problem.lse = rows_of(outputs.lse);
  if (outputs.entropy) problem.entropy = rows_of(outputs.entropy);
  problem.row_max = outputs.row_max.data;
  problem.row_sum = outputs.row_sum.data;
  problem.row_entropy_sum = outputs.row_entropy_sum.data;
}

std::size_t selection_words(const LogpProblem& problem, const LogpOptions& options) {
  return options.rows ? static_cast<std::size_t>((problem.rows + 63) / 64) : 0;
}

void select_rows(LogpProblem& problem, const LogpOptions& options, std::uint64_t* words) {
  if (!options.rows) return;
  const ConstTensorView& list = options.rows;
  std::fill_n(words, selection_words(problem, options), std::uint64_t{0});
  for (std::int64_t i = 0; i < list.shape[0]; ++i) {
    const std::int64_t at = i * list.strides[0];
    const std::int64_t row = list.dtype == DType::kInt32 ? static_cast<const std::int32_t*>(list.data)[at]
                                                         : static_cast<const std::int64_t*>(list.data)[at];
    if (row >= 0 && row < problem.rows) words[row >> 6] |= std::uint64_t{1} << (row & 63);
  }
  problem.selected = words;
}

void raise_on_invalid(const LogpProblem& problem, OnInvalid on_invalid) {
  if (on_invalid != OnInvalid::kRaise) return;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::int64_t id = problem.target(row);
    if (!problem.is_selected(row) || (problem.has_ignore_index && id == problem.ignore_index)) continue;
    if (id < 0 || id >= problem.vocab) raise_invalid_target(problem, row, id);
  }
}

void raise_invalid_target(const LogpProblem& problem, std::int64_t row, std::int64_t id) {
  invalid("targets", "has id " + std::to_string(id) + " at row " + std::to_string(row) +
                         "; ids must be within [0, " + std::to_string(problem.vocab) + ")" +
                         (problem.has_ignore_index ? " or the ignore_index" : ""));
}

Scratch::Scratch(std::span<std::byte> workspace, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  std::byte* base = workspace.data();
  if (workspace.size() < padded(bytes)) {
    owned_.reset(new std::byte[padded(bytes)]);
    base = owned_.get();
  }
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  data_ = base + ((64 - address % 64) % 64);
}

}  // namespace samebits::core
