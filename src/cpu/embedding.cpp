#include "cpu/embedding.h"

#include <cstring>
#include <span>

#include "cpu/row_split.h"
#include "cpu/workers.h"
#include "order/number.h"
#include "order/p_form.h"

namespace samebits::cpu {
namespace {

using core::EmbeddingProblem;

// Rows are handed out this many elements at a time.
constexpr std::int64_t kItemElements = 8192;
// Columns that are summed at once.
constexpr std::int64_t kColumns = 256;

// `body(T{})` with the storage type of `dtype`.
template <class Body>
auto with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat16: return body(order::Float16{});
    case DType::kBFloat16: return body(order::BFloat16{});
    case DType::kFloat64: return body(double{});
    default: return body(float{});
  }
}

// `body(first, last)` over runs of `rows` rows.
template <class Body>
void over_rows(const core::Executor& executor, std::int64_t rows, std::int64_t columns, Body&& body) {
  const std::int64_t run = std::max<std::int64_t>(kItemElements / columns, 1);
  run_workers(executor, (rows + run - 1) / run, threads_for(rows, columns, executor.threads), nullptr, 0,
              [&](std::byte*) {
                return [&](std::int64_t item) { body(item * run, std::min((item + 1) * run, rows)); };
              });
}

template <class T>
void copy_row(const EmbeddingProblem& problem, std::int64_t row, T invalid) {
  T* out = problem.out.at<T>(row);
  const std::int64_t id = problem.id(row), columns = problem.columns, step = problem.weight.column_stride;
  if (!problem.valid(id)) {
    std::fill_n(out, columns, invalid);
    return;
  }
  const T* in = static_cast<const T*>(problem.weight.data) + id * problem.weight.row_stride;
  if (step == 1)
    std::memcpy(out, in, static_cast<std::size_t>(columns) * sizeof(T));
  else
    for (std::int64_t k = 0; k < columns; ++k) out[k] = in[k * step];
}

// The positions [first, last) of the sorted order, which have one id.
struct Segment {
  std::int64_t first, last;
};

// Sums of more than one segment; there cannot be more of them.
std::int64_t most_long_segments(const EmbeddingProblem& problem) {
  return problem.rows <= order::kOccurrences ? 0 : 2 * (problem.rows / order::kOccurrences + 1);
}

struct Buffers {
  std::int64_t* run_end;    // [V + 1]: of id v - 1, where the run of id v begins
  std::int64_t* positions;  // [rows], ascending within an id
  Segment* segments;        // of ids with more than one, in order
  void* sums;               // a row for each of those
  std::size_t bytes;

  Buffers(const EmbeddingProblem& problem, std::byte* base) {
    std::size_t used = 0;
    const auto take = [&](std::int64_t count, std::size_t size) {
      std::byte* piece = base + used;
      used += (static_cast<std::size_t>(count) * size + 63) / 64 * 64;
      return piece;
    };
    const std::int64_t segment_count = most_long_segments(problem);
    run_end = reinterpret_cast<std::int64_t*>(take(problem.vocab + 1, sizeof(std::int64_t)));
    positions = reinterpret_cast<std::int64_t*>(take(problem.rows, sizeof(std::int64_t)));
    segments = reinterpret_cast<Segment*>(take(segment_count, sizeof(Segment)));
    sums = take(segment_count * problem.columns, problem.dtype == DType::kFloat64 ? 8 : 4);
    bytes = used;
  }
};

template <class T>
class Gradient {
 public:
  using Real = std::conditional_t<sizeof(T) == 8, double, float>;

  Gradient(const EmbeddingProblem& problem, const core::Executor& executor)
      : problem_(problem), executor_(executor), at_(problem, executor.workspace.data()) {}

  void run() {
    sort();
    list_long_segments();
    const std::int64_t parts = (problem_.columns + kColumns - 1) / kColumns;
    run_workers(executor_, segment_count_ * parts, executor_.threads, nullptr, 0, [&](std::byte*) {
      return [&](std::int64_t item) {
        const std::int64_t column = item % parts * kColumns;
        sum_segment(at_.segments[item / parts], column, width_at(column), long_sum(item / parts) + column);
      };
    });
    over_rows(executor_, problem_.vocab, problem_.columns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t id = first; id < last; ++id) write_row(id);
    });
  }

 private:
  // By counting: positions stay in order within an id.
  void sort() {
    std::fill_n(at_.run_end, problem_.vocab + 1, 0);
    for (std::int64_t row = 0; row < problem_.rows; ++row)
      if (const std::int64_t id = problem_.id(row); problem_.counts(id)) ++at_.run_end[id + 1];
    for (std::int64_t id = 0; id < problem_.vocab; ++id) at_.run_end[id + 1] += at_.run_end[id];
    // Entry v is where the next position of id v goes, and so ends as the end of its run.
    for (std::int64_t row = 0; row < problem_.rows; ++row)
      if (const std::int64_t id = problem_.id(row); problem_.counts(id))
        at_.positions[at_.run_end[id]++] = row;
  }

  Segment run_of(std::int64_t id) const { return {id == 0 ? 0 : at_.run_end[id - 1], at_.run_end[id]}; }

  void list_long_segments() {
    for (std::int64_t id = 0; segments_may_be_long() && id < problem_.vocab; ++id) {
      const Segment run = run_of(id);
      if (run.last - run.first <= order::kOccurrences) continue;
      for (std::int64_t first = run.first; first < run.last; first += order::kOccurrences)
        at_.segments[segment_count_++] = {first, std::min(first + order::kOccurrences, run.last)};
    }
  }
  bool segments_may_be_long() const { return problem_.rows > order::kOccurrences; }

  std::int64_t width_at(std::int64_t column) const { return std::min(kColumns, problem_.columns - column); }
  Real* long_sum(std::int64_t segment) const {
    return static_cast<Real*>(at_.sums) + segment * problem_.columns;
  }

  void sum_segment(Segment segment, std::int64_t column, std::int64_t width, Real* sum) const {
    std::fill_n(sum, width, Real(0));
    const std::int64_t stride = problem_.grad_stride;
    for (std::int64_t i = segment.first; i < segment.last; ++i) {
      const T* grad = problem_.grad.at<T>(at_.positions[i]) + column * stride;
      if (stride == 1)
        for (std::int64_t k = 0; k < width; ++k) sum[k] = sum[k] + order::widen<Real>(grad[k]);
      else
        for (std::int64_t k = 0; k < width; ++k) sum[k] = sum[k] + order::widen<Real>(grad[k * stride]);
    }
  }

  void write_row(std::int64_t id) const {
    const Segment run = run_of(id);
    if (run.first == run.last) {
      if (!problem_.accumulate)
        std::memset(static_cast<T*>(problem_.grad_weight) + id * problem_.grad_weight_stride, 0,
                    static_cast<std::size_t>(problem_.columns) * sizeof(T));
      return;
    }
    const std::span<const Segment> segments(at_.segments, static_cast<std::size_t>(segment_count_));
    const bool is_long = run.last - run.first > order::kOccurrences;
    const auto first_segment =
        !is_long ? segments.begin() : std::ranges::lower_bound(segments, run.first, {}, &Segment::first);
    for (std::int64_t column = 0; column < problem_.columns; column += kColumns) {
      const std::int64_t width = width_at(column);
      Real total[kColumns] = {};
      if (is_long)
        for (auto s = first_segment; s != segments.end() && s->first < run.last; ++s) {
          const Real* sum = long_sum(s - segments.begin()) + column;
          for (std::int64_t k = 0; k < width; ++k) total[k] = total[k] + sum[k];
        }
      else
        sum_segment(run, column, width, total);
      store(id * problem_.grad_weight_stride + column, width, total);
    }
  }

  void store(std::int64_t at, std::int64_t width, const Real* total) const {
    if (problem_.accumulate) {
      Real* out = static_cast<Real*>(problem_.grad_weight) + at;
      for (std::int64_t k = 0; k < width; ++k) out[k] = order::round_to<Real>(out[k] + total[k]);
    } else {
      T* out = static_cast<T*>(problem_.grad_weight) + at;
      for (std::int64_t k = 0; k < width; ++k) out[k] = order::round_to<T>(total[k]);
    }
  }

  const EmbeddingProblem& problem_;
  const core::Executor& executor_;
  Buffers at_;
  std::int64_t segment_count_ = 0;
};

}  // namespace

void embedding_forward(const EmbeddingProblem& problem, const core::Executor& executor) {
  with_type(problem.dtype, [&]<class T>(T) {
    const T invalid = order::round_to<T>(problem.nan_on_invalid ? order::canonical_nan<float>() : 0.0f);
    over_rows(executor, problem.rows, problem.columns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) copy_row<T>(problem, row, invalid);
    });
  });
}

void embedding_backward(const EmbeddingProblem& problem, const core::Executor& executor) {
  with_type(problem.dtype, [&]<class T>(T) { Gradient<T>(problem, executor).run(); });
}

std::size_t embedding_backward_scratch_bytes(const EmbeddingProblem& problem, int) {
  return Buffers(problem, nullptr).bytes;
}

}  // namespace samebits::cpu
