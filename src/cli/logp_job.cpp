#include "cli/logp_job.h"

#include <algorithm>
#include <utility>

#include <samebits/error.h>

#include "cli/cli_error.h"
#include "cli/tensor_file.h"

namespace samebits::cli {
namespace {

// Of logits: small enough to stay in cache for the digest that reads it again, large enough to feed every thread.
constexpr std::int64_t kChunkBytes = 32 << 20;

// Of hidden states that take part: many enough that reading the weight once for all of them costs little, few enough
// that progress is seen and little is lost when an audit is stopped.
constexpr std::int64_t kHeadRows = 256;

// An empty file can claim any width; this keeps the arithmetic of row sizes far from overflow.
constexpr std::int64_t kMaxColumns = std::int64_t{1} << 40;

void require_leading_shape(const FileTensor& tensor, const LogpInputs& inputs, const std::string& name) {
  const FileTensor& source = inputs.source;
  const std::span<const std::int64_t> leading(source.shape.data(), source.shape.size() - 1);
  if (std::ranges::equal(tensor.shape, leading)) return;
  throw CliError(name + ": has shape " + shape_text(tensor.shape) + "; " +
                 (inputs.head == nullptr ? "logits" : "hidden states") + " of shape " +
                 shape_text(source.shape) + " need " + shape_text(leading));
}

}  // namespace

struct LogpJob::Buffers {
  std::vector<std::byte> source;           // only when the file's data is not aligned to its elements
  std::vector<double> logp, lse, entropy;  // storage aligned for either result type
  std::vector<std::int64_t> selected;      // row numbers inside the chunk
};

LogpJob::LogpJob(LogpInputs inputs, const LogpSettings& settings, Wanted wanted, const std::string& backend)
    : inputs_(std::move(inputs)), options_(settings.options()), wanted_(wanted) {
  const FileTensor& source = inputs_.source;
  const Head* head = inputs_.head;
  PlanRequest request;
  request.dtype = floating_dtype(source, source_name());
  if (source.shape.empty() || source.shape.back() == 0) {
    throw CliError(std::string(source_name()) + ": have shape " + shape_text(source.shape) +
                   "; the last axis is the " + (head == nullptr ? "vocabulary" : "hidden size") +
                   ", at least 1");
  }
  columns_ = source.shape.back();
  if (columns_ > kMaxColumns) {
    throw CliError(std::string(source_name()) + ": have a last axis of " + std::to_string(columns_) +
                   ", too many");
  }
  if (head != nullptr) head->require_hidden(source);
  rows_ = *element_count({source.shape.data(), source.shape.size() - 1});
  const std::int64_t whole = head == nullptr ? columns_ : head->vocab();
  if (settings.vocab_size && (*settings.vocab_size < 1 || *settings.vocab_size > whole)) {
    throw CliError("vocab_size: was " + std::to_string(*settings.vocab_size) + "; it may be 1 to " +
                   (head == nullptr ? "the last extent of the logits, " : "the rows of the weight, ") +
                   std::to_string(whole));
  }
  vocab_ = settings.vocab_size.value_or(whole);
  row_bytes_ = columns_ * element_bits(source.type) / 8;

  require_leading_shape(inputs_.targets, inputs_, "targets");
  targets_ = integer_values(inputs_.targets, "targets");
  if (inputs_.row_temperature) {
    require_leading_shape(*inputs_.row_temperature, inputs_, "row temperature");
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
  request.vocab = whole;
  if (head != nullptr) request.op = "linear_logp";
  request.contract = inputs_.contract;
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
    if (takes_part(id, options_, vocab_) || id == settings.ignore_index) return;
    throw CliError("targets: row " + std::to_string(row) + " has the id " + std::to_string(id) +
                   "; ids may be 0 to " + std::to_string(vocab_ - 1));
  };
  if (inputs_.rows) {
    std::ranges::for_each(selected_, check);
  } else {
    for (std::int64_t row = 0; row < rows_; ++row) check(row);
  }
}

bool LogpJob::is_live(std::int64_t row) const {
  return takes_part(targets_[static_cast<std::size_t>(row)], options_, vocab_) &&
         (!inputs_.rows || std::ranges::binary_search(selected_, row));
}

std::int64_t LogpJob::live_rows(std::int64_t first, std::int64_t last) const {
  std::int64_t count = 0;
  for (std::int64_t row = first; row < last; ++row) count += is_live(row);
  return count;
}

std::vector<std::int64_t> LogpJob::leading_shape() const {
  return {inputs_.source.shape.begin(), inputs_.source.shape.end() - 1};
}

ElementType LogpJob::result_type() const {
  const bool wide = inputs_.source.type == ElementType::kF64 || options_.precision == Precision::kFloat64;
  return wide ? ElementType::kF64 : ElementType::kF32;
}

std::span<const std::byte> LogpJob::row_bytes(std::int64_t row) const {
  return inputs_.source.data.subspan(static_cast<std::size_t>(row * row_bytes_),
                                     static_cast<std::size_t>(row_bytes_));
}

// Of logits a number of bytes; of hidden states as many rows as hold the wanted number of those that take part.
std::int64_t LogpJob::chunk_rows(std::int64_t first) const {
  std::int64_t most = std::clamp<std::int64_t>(kChunkBytes / row_bytes_, 1, rows_ - first);
  if (inputs_.most_rows > 0) most = std::min(most, inputs_.most_rows);
  if (inputs_.head == nullptr) return most;
  std::int64_t count = 0;
  for (std::int64_t live = 0; count < most && live < kHeadRows; ++count) live += is_live(first + count);
  return count;
}

void LogpJob::run(const ForwardFunction& forward, ProgressMode mode, const std::string& label,
                  const std::function<void(const ChunkResult&)>& sink, const Start& start) {
  const std::size_t result_bytes = static_cast<std::size_t>(element_bits(result_type())) / 8;
  // All of a row of hidden states decides its result, of a row of logits the true vocabulary.
  const std::size_t used_bytes = static_cast<std::size_t>(
      inputs_.head == nullptr ? vocab_ * element_bits(inputs_.source.type) / 8 : row_bytes_);
  // Logits are read whether a row takes part or not; of a head, only the tokens that do take time.
  const auto steps = [this](std::int64_t first, std::int64_t last) {
    return inputs_.head == nullptr ? last - first : live_rows(first, last);
  };
  Progress progress(mode, label, inputs_.head == nullptr ? "rows" : "tokens", steps(0, rows_),
                    inputs_.head == nullptr ? static_cast<double>(row_bytes_) : 0);
  progress.start_at(steps(0, start.row));
  Buffers buffers;
  Digest digest(digest_ = start.digest);
  for (std::int64_t first = start.row, count = 0; first < rows_; first += count) {
    count = chunk_rows(first);
    run_chunk(forward, first, count, buffers);
    if (inputs_.rows) {
      for (const std::int64_t row : buffers.selected)
        digest.add(row_digest(row_bytes(first + row).first(used_bytes)));
    } else {
      for (std::int64_t row = 0; row < count; ++row) {
        digest.add(row_digest(row_bytes(first + row).first(used_bytes)));
      }
    }
    digest_ = digest.value();
    const auto result = [&](const std::vector<double>& values) {
      return std::as_bytes(std::span(values))
          .first(values.empty() ? 0 : static_cast<std::size_t>(count) * result_bytes);
    };
    sink({first, count, result(buffers.logp), result(buffers.lse), result(buffers.entropy)});
    const auto begin = static_cast<std::size_t>(row_bytes(first).data() - inputs_.file->bytes().data());
    inputs_.file->forget(begin, begin + static_cast<std::size_t>(count * row_bytes_));
    progress.advance(steps(first, first + count));
  }
}

void LogpJob::run_chunk(const ForwardFunction& forward, std::int64_t first, std::int64_t rows,
                        Buffers& buffers) {
  const DType dtype = floating_dtype(inputs_.source, source_name());
  const DType result = result_type() == ElementType::kF64 ? DType::kFloat64 : DType::kFloat32;
  const std::byte* data = row_bytes(first).data();
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(dtype_size(dtype)) != 0) {
    buffers.source.assign(data, data + rows * row_bytes_);
    data = buffers.source.data();
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
