#include "cli/logp_job.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include <samebits/error.h>

#include "cli/cli_error.h"
#include "cli/digest.h"
#include "cli/tensor_file.h"

namespace samebits::cli {
namespace {

// Small enough to stay in cache for the digest that reads it again, large enough to feed every thread.
constexpr std::int64_t kChunkBytes = 32 << 20;

// An empty file can claim any width; this keeps the arithmetic of row sizes far from overflow.
constexpr std::int64_t kMaxColumns = std::int64_t{1} << 40;

DType logits_dtype(const FileTensor& logits) {
  switch (logits.type) {
    case ElementType::kF16: return DType::kFloat16;
    case ElementType::kBF16: return DType::kBFloat16;
    case ElementType::kF32: return DType::kFloat32;
    case ElementType::kF64: return DType::kFloat64;
    default: break;
  }
  throw CliError("logits: have element type " + std::string(element_type_name(logits.type)) +
                 "; they may be F32, BF16, F16 or F64");
}

void require_leading_shape(const FileTensor& tensor, const FileTensor& logits, const std::string& name) {
  const std::span<const std::int64_t> leading(logits.shape.data(), logits.shape.size() - 1);
  if (std::ranges::equal(tensor.shape, leading)) return;
  throw CliError(name + ": has shape " + shape_text(tensor.shape) + "; logits of shape " +
                 shape_text(logits.shape) + " need " + shape_text(leading));
}

}  // namespace

struct LogpJob::Buffers {
  std::vector<std::byte> logits;           // only when the file's data is not aligned to its elements
  std::vector<double> logp, lse, entropy;  // storage aligned for either result type
  std::vector<std::int64_t> selected;      // row numbers inside the chunk
};

LogpJob::LogpJob(LogpInputs inputs, const LogpSettings& settings, Wanted wanted, const std::string& backend)
    : inputs_(std::move(inputs)), options_(settings.options()), wanted_(wanted) {
  const FileTensor& logits = inputs_.logits;
  PlanRequest request;
  request.dtype = logits_dtype(logits);
  if (logits.shape.empty() || logits.shape.back() == 0) {
    throw CliError("logits: have shape " + shape_text(logits.shape) +
                   "; the last axis is the vocabulary, at least 1");
  }
  columns_ = logits.shape.back();
  if (columns_ > kMaxColumns)
    throw CliError("logits: have a last axis of " + std::to_string(columns_) + ", too many");
  rows_ = *element_count({logits.shape.data(), logits.shape.size() - 1});
  if (settings.vocab_size && (*settings.vocab_size < 1 || *settings.vocab_size > columns_)) {
    throw CliError("vocab_size: was " + std::to_string(*settings.vocab_size) +
                   "; it may be 1 to the last extent of " + "the logits, " + std::to_string(columns_));
  }
  vocab_ = settings.vocab_size.value_or(columns_);
  row_bytes_ = columns_ * element_bits(logits.type) / 8;

  require_leading_shape(inputs_.targets, logits, "targets");
  targets_ = integer_values(inputs_.targets, "targets");
  if (inputs_.row_temperature) {
    require_leading_shape(*inputs_.row_temperature, logits, "row temperature");
    temperature_ = floating_values(*inputs_.row_temperature, "row temperature");
    request.options.row_temperature = ConstTensorView(temperature_.data(), DType::kFloat64, {rows_});
  }
  for (const double temperature : temperature_) {
    if (!(temperature >= 0x1p-64 && temperature <= 0x1p64)) {
      throw CliError("row temperature: holds " + std::to_string(temperature) +
                     "; it may be within [2^-64, 2^64]");
    }
  }
  if (inputs_.rows) {
    if (inputs_.rows->shape.size() != 1) {
      throw CliError("rows: have shape " + shape_text(inputs_.rows->shape) + "; a list has one dimension");
    }
    selected_ = integer_values(*inputs_.rows, "rows");
    std::erase_if(selected_, [this](std::int64_t row) { return row < 0 || row >= rows_; });
    std::ranges::sort(selected_);
    selected_.erase(std::ranges::unique(selected_).begin(), selected_.end());
    request.options.rows =
        ConstTensorView(selected_.data(), DType::kInt64, {static_cast<std::int64_t>(selected_.size())});
  }

  const ConstTensorView row_temperature = request.options.row_temperature, rows = request.options.rows;
  request.options = options_;
  request.options.row_temperature = row_temperature;
  request.options.rows = rows;
  request.vocab = columns_;
  request.backend = backend;
  plan_ = samebits::plan(request);
  if (!plan_.refusals.empty()) {
    std::string reasons;
    for (const std::string& reason : plan_.refusals) reasons += (reasons.empty() ? "" : "; ") + reason;
    throw CliError(reasons);
  }
  if (settings.on_invalid == OnInvalid::kRaise) check_targets(settings);
}

// The library would name positions inside a chunk; here they are those of the file, and nothing has been computed.
void LogpJob::check_targets(const LogpSettings& settings) const {
  const auto check = [&](std::int64_t row) {
    const std::int64_t id = targets_[static_cast<std::size_t>(row)];
    if ((id >= 0 && id < vocab_) || id == settings.ignore_index) return;
    throw CliError("targets: row " + std::to_string(row) + " has the id " + std::to_string(id) +
                   "; ids may be 0 to " + std::to_string(vocab_ - 1));
  };
  if (inputs_.rows) {
    std::ranges::for_each(selected_, check);
  } else {
    for (std::int64_t row = 0; row < rows_; ++row) check(row);
  }
}

std::vector<std::int64_t> LogpJob::leading_shape() const {
  return {inputs_.logits.shape.begin(), inputs_.logits.shape.end() - 1};
}

ElementType LogpJob::result_type() const {
  const bool wide = inputs_.logits.type == ElementType::kF64 || options_.precision == Precision::kFloat64;
  return wide ? ElementType::kF64 : ElementType::kF32;
}

std::string LogpJob::digest_hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest_);
  return text;
}

std::string LogpJob::logits_json() const {
  nlohmann::ordered_json json;
  json["dtype"] = element_type_name(inputs_.logits.type);
  json["shape"] = inputs_.logits.shape;
  json["digest"] = digest_hex();
  return json.dump();
}

std::span<const std::byte> LogpJob::row_bytes(std::int64_t row) const {
  return inputs_.logits.data.subspan(static_cast<std::size_t>(row * row_bytes_),
                                     static_cast<std::size_t>(row_bytes_));
}

void LogpJob::run(const ForwardFunction& forward, ProgressMode mode, const std::string& label,
                  const std::function<void(const ChunkResult&)>& sink) {
  const std::int64_t chunk =
      std::clamp<std::int64_t>(kChunkBytes / row_bytes_, 1, std::max<std::int64_t>(rows_, 1));
  const std::size_t result_bytes = static_cast<std::size_t>(element_bits(result_type())) / 8;
  const std::size_t used_bytes = static_cast<std::size_t>(vocab_ * element_bits(inputs_.logits.type) / 8);
  Progress progress(mode, label, "rows", rows_, static_cast<double>(row_bytes_));
  Buffers buffers;
  Digest digest;
  for (std::int64_t first = 0; first < rows_; first += chunk) {
    const std::int64_t count = std::min(chunk, rows_ - first);
    run_chunk(forward, first, count, buffers);
    const auto result = [&](const std::vector<double>& values) {
      return std::as_bytes(std::span(values))
          .first(values.empty() ? 0 : static_cast<std::size_t>(count) * result_bytes);
    };
    sink({first, count, result(buffers.logp), result(buffers.lse), result(buffers.entropy)});
    if (inputs_.rows) {
      for (const std::int64_t row : buffers.selected)
        digest.add(row_digest(row_bytes(first + row).first(used_bytes)));
    } else {
      for (std::int64_t row = 0; row < count; ++row) {
        digest.add(row_digest(row_bytes(first + row).first(used_bytes)));
      }
    }
    const auto begin = static_cast<std::size_t>(row_bytes(first).data() - inputs_.file->bytes().data());
    inputs_.file->forget(begin, begin + static_cast<std::size_t>(count * row_bytes_));
    progress.advance(count);
  }
  digest_ = digest.value();
}

void LogpJob::run_chunk(const ForwardFunction& forward, std::int64_t first, std::int64_t rows,
                        Buffers& buffers) {
  const DType dtype = logits_dtype(inputs_.logits);
  const DType result = result_type() == ElementType::kF64 ? DType::kFloat64 : DType::kFloat32;
  const std::byte* data = row_bytes(first).data();
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(dtype_size(dtype)) != 0) {
    buffers.logits.assign(data, data + rows * row_bytes_);
    data = buffers.logits.data();
  }
  LogpOptions options = options_;
  if (!temperature_.empty()) {
    options.row_temperature = ConstTensorView(temperature_.data() + first, DType::kFloat64, {rows});
  }
  if (inputs_.rows) {
    buffers.selected.clear();
    auto row = std::ranges::lower_bound(selected_, first);
    for (; row != selected_.end() && *row < first + rows; ++row) buffers.selected.push_back(*row - first);
    options.rows = ConstTensorView(buffers.selected.data(), DType::kInt64,
                                   {static_cast<std::int64_t>(buffers.selected.size())});
  }
  LogpOutputs outputs;
  const auto output = [&](std::vector<double>& storage, TensorView& view) {
    storage.resize(static_cast<std::size_t>(rows));
    view = TensorView(storage.data(), result, {rows});
  };
  output(buffers.logp, outputs.logp);
  if (wanted_.lse) output(buffers.lse, outputs.lse);
  if (wanted_.entropy) output(buffers.entropy, outputs.entropy);
  try {
    forward(ConstTensorView(data, dtype, {rows, columns_}),
            ConstTensorView(targets_.data() + first, DType::kInt64, {rows}), options, outputs);
  } catch (const Error& error) {
    const std::string where =
        first == 0 ? "" : "after row " + std::to_string(first) + ", counted from there: ";
    throw CliError(where + error.what());
  }
}

}  // namespace samebits::cli
