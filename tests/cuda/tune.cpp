#include "tune.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <vector>

#include <samebits/samebits.h>

#include "choice_tables.h"
#include "cuda/runtime.h"

namespace samebits::test {
namespace {

using cuda::kAnySize;
using cuda::Sm90Choice;
using cuda::Sm90Form;
using cuda::Sm90Use;

constexpr Device kDevice{DeviceType::kCuda, 0};
// Rows that are measured; up to the most rows, and the largest size, for which an entry counts.
struct Class {
  std::int64_t measured, most;
};
constexpr Class kRows[] = {{64, 64}, {128, 128}, {256, 256}, {512, 512}, {2048, 3072}, {8192, kAnySize}};
struct Head {
  std::int64_t size, vocab, most_size;
};
constexpr Head kHeads[] = {{2688, 131072, 3392}, {4096, 151936, 5632}, {7168, 129280, kAnySize}};
// What another choice has to gain so that it takes the place of the one that is there.
constexpr double kGain = 0.985;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes));
    check(cudaMemset(data_, 0, bytes));
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  TensorView view(DType dtype, std::initializer_list<std::int64_t> shape) const {
    return {data_, dtype, shape, kDevice};
  }
  void* data() const { return data_; }
  std::span<std::byte> span() const { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

// A head of so many rows, and the calls whose products are tuned.
class Calls {
 public:
  Calls(std::int64_t rows, const Head& head)
      : hidden_(bytes(2 * rows * head.size)),
        weight_(bytes(2 * head.vocab * head.size)),
        grad_hidden_(bytes(2 * rows * head.size)),
        grad_weight_(bytes(2 * head.vocab * head.size)),
        p_(bytes(2 * rows * ((head.vocab + 63) / 64 * 64))),
        by_row_(bytes(8 * 8 * rows)),
        options_(flat(head.size)),
        hidden(hidden_.view(DType::kBFloat16, {rows, head.size})),
        weight(weight_.view(DType::kBFloat16, {head.vocab, head.size})),
        p(p_.view(DType::kBFloat16, {rows, (head.vocab + 63) / 64 * 64})),
        targets(row(0, DType::kInt64)),
        workspace_(std::max(
            linear_logp_workspace_bytes(hidden, weight, targets, {}, options_, false, "auto", {}, rows),
            linear_logp_backward_workspace_bytes(hidden, weight, targets, {}, options_, gradients()))) {
    fill_bfloat16(weight_.data(), head.vocab * head.size, 0);
    fill_bfloat16(hidden_.data(), rows * head.size, head.vocab * head.size);
    std::vector<float> ones(static_cast<std::size_t>(rows), 1.0f);
    check(cudaMemcpy(row(5, DType::kFloat32).data, ones.data(), ones.size() * 4, cudaMemcpyHostToDevice));
    context_.workspace = workspace_.span();
    forward(true);
  }

  void forward(bool saving) const {
    LogpOutputs outputs;
    outputs.logp = row(1, DType::kFloat32);
    outputs.lse = row(2, DType::kFloat32);
    outputs.row_max = row(3, DType::kFloat32);
    outputs.row_sum = row(4, DType::kInt64);
    linear_logp_forward(hidden, weight, targets, {}, options_, outputs, {}, context_,
                        saving ? p : TensorView());
  }
  void backward(bool saved) const {
    const LogpStats stats{row(3, DType::kFloat32), row(4, DType::kInt64), {}};
    LogpUpstream upstream;
    upstream.logp = row(5, DType::kFloat32);
    linear_logp_backward(hidden, weight, targets, {}, options_, stats, upstream, gradients(), "auto",
                         context_, saved ? p : TensorView());
  }
  // hidden x weight^T, where P lies.
  void product() const {
    const ConstTensorView transposed(weight.data, DType::kBFloat16, {weight.shape[1], weight.shape[0]},
                                     {weight.strides[1], weight.strides[0]}, kDevice);
    TensorView logits(p.data, DType::kBFloat16, {hidden.shape[0], weight.shape[0]}, {p.strides[0], 1},
                      kDevice);
    matmul(hidden, transposed, logits, {}, context_);
  }
  void run(Sm90Use use) const {
    switch (use) {
      case Sm90Use::kStatistics: return forward(false);
      case Sm90Use::kSaveP: return forward(true);
      case Sm90Use::kPlain: return product();
      case Sm90Use::kFillP: return backward(false);
      default: backward(false); return backward(true);
    }
  }

 private:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count); }
  TensorView row(std::int64_t number, DType dtype) const {
    const std::int64_t rows = hidden.shape[0];
    return {static_cast<std::byte*>(by_row_.data()) + 8 * rows * number, dtype, {rows}, kDevice};
  }
  LinearLogpGradients gradients() const {
    LinearLogpGradients wanted;
    wanted.hidden = grad_hidden_.view(DType::kBFloat16, {hidden.shape[0], hidden.shape[1]});
    wanted.weight = grad_weight_.view(DType::kBFloat16, {weight.shape[0], weight.shape[1]});
    return wanted;
  }

  // Elements have a deviation of 3; logits of one, as a model's have, draw as much power.
  static LogpOptions flat(std::int64_t size) {
    LogpOptions options;
    options.temperature = 9 * std::sqrt(static_cast<double>(size));
    return options;
  }

  Memory hidden_, weight_, grad_hidden_, grad_weight_, p_, by_row_;
  LogpOptions options_;

 public:
  TensorView hidden, weight, p, targets;

 private:
  Memory workspace_;
  ExecContext context_;
};

// Milliseconds of the call under each table, round by round: medians.
std::vector<float> times(const std::function<void()>& call,
                         const std::vector<std::vector<Sm90Choice>>& tables, int rounds, int repeat) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<std::vector<float>> all(tables.size());
  for (int round = -1; round < rounds; ++round)
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const ChosenBackend chosen(tables[i]);
      check(cudaEventRecord(begin));
      for (int k = 0; k < repeat; ++k) call();
      check(cudaEventRecord(end));
      check(cudaEventSynchronize(end));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin, end));
      if (round >= 0) all[i].push_back(milliseconds / static_cast<float>(repeat));
    }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::vector<float> medians;
  for (std::vector<float>& own : all) {
    std::ranges::sort(own);
    medians.push_back(own[own.size() / 2]);
  }
  return medians;
}

const char* name_of(Sm90Use use) {
  constexpr const char* kNames[] = {"kStatistics", "kSaveP",     "kFillP", "kAddHidden",
                                    "kHoldHidden", "kAddWeight", "kPlain"};
  return kNames[static_cast<int>(use)];
}
const char* name_of(Sm90Form form) {
  constexpr const char* kNames[] = {"k64x128", "k128x128", "k64x192", "k128x192", "k256x192"};
  return kNames[static_cast<int>(form)];
}

std::int64_t rows_of(Sm90Form form) {
  if (form == Sm90Form::k256x192) return 256;
  return form == Sm90Form::k128x128 || form == Sm90Form::k128x192 ? 128 : 64;
}

bool is_used(Sm90Use use, std::int64_t rows) {
  // Sums are held for few rows alone, see head_split.h.
  return use == Sm90Use::kHoldHidden ? rows <= 512 : use != Sm90Use::kAddHidden || rows > 512;
}

// The best choice of a use, all others as they are in `table`, which holds one for each use.
Sm90Choice best_of(Sm90Use use, const Calls& calls, std::vector<Sm90Choice> table) {
  Sm90Choice& own = *std::ranges::find(table, use, &Sm90Choice::use);
  const Sm90Choice before = own;
  const int repeat = calls.hidden.shape[0] <= 512 ? 3 : 1;
  // The fastest of those and the choice that is there, which stays unless the gain is worth it.
  const auto fastest = [&](std::vector<Sm90Choice> among, int rounds) {
    if (among.empty()) return before;
    among.insert(among.begin(), before);
    std::vector<std::vector<Sm90Choice>> tables;
    for (const Sm90Choice& choice : among) {
      own = choice;
      tables.push_back(table);
    }
    const std::vector<float> measured = times([&] { calls.run(use); }, tables, rounds, repeat);
    for (std::size_t i = 0; i < among.size(); ++i)
      std::printf("  %s %s/%d %.4f", i == 0 ? name_of(use) : "", name_of(among[i].form), among[i].group,
                  static_cast<double>(measured[i]));
    std::printf("\n");
    const auto at = static_cast<std::size_t>(std::ranges::min_element(measured) - measured.begin());
    return measured[at] < kGain * static_cast<double>(measured[0]) ? among[at] : before;
  };
  const auto alike = [](const Sm90Choice& a, const Sm90Choice& b) {
    return a.form == b.form && a.group == b.group;
  };
  std::vector<Sm90Choice> forms, groups;
  for (const Sm90Choice& choice : candidates(use))
    if (choice.group == before.group && choice.form != before.form) forms.push_back(choice);
  const Sm90Form form = fastest(forms, 2).form;
  // As many tiles along the rows as there are, or more, are one order.
  const std::int64_t tiles =
      use == Sm90Use::kAddWeight ? kAnySize : (calls.hidden.shape[0] + rows_of(form) - 1) / rows_of(form);
  for (const Sm90Choice& choice : candidates(use)) {
    const auto same_order = [&](const Sm90Choice& other) {
      return other.form == form &&
             std::min<std::int64_t>(other.group, tiles) == std::min<std::int64_t>(choice.group, tiles);
    };
    if (choice.form == form && !same_order(before) && std::ranges::none_of(groups, same_order))
      groups.push_back(choice);
  }
  const Sm90Choice best = fastest(groups, 3);
  return alike(best, before) ? before : fastest({best}, 7);  // not by chance
}

// Entries that follow each other and choose alike are one.
void write(const std::string& path, const std::vector<Sm90Choice>& all) {
  FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + path);
  std::fprintf(file, "// Written by cuda_bench --tune on an %s.\n// clang-format off\n",
               cuda::traits(kDevice).name.c_str());
  const auto number = [](std::int64_t most) {
    return most == kAnySize ? std::string("kAnySize") : std::to_string(most);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Sm90Choice& c = all[i];
    if (i + 1 < all.size() && all[i + 1].use == c.use && all[i + 1].most_size == c.most_size &&
        all[i + 1].form == c.form && all[i + 1].group == c.group)
      continue;
    std::fprintf(file, "{Sm90Use::%s, %s, %s, Sm90Form::%s, %d},\n", name_of(c.use),
                 number(c.most_rows).c_str(), number(c.most_size).c_str(), name_of(c.form), c.group);
  }
  std::fclose(file);
}

}  // namespace

bool tune(const std::string& path) {
  if (cuda::traits(kDevice).major != 9) return false;
  std::vector<Sm90Choice> all;
  for (const Head& head : kHeads)
    for (const auto& [rows, most_rows] : kRows) {
      std::printf("rows %lld, H %lld, V %lld: ms\n", static_cast<long long>(rows),
                  static_cast<long long>(head.size), static_cast<long long>(head.vocab));
      std::vector<Sm90Choice> table;
      for (const Sm90Use use : cuda::kSm90Uses)
        table.push_back(*cuda::find_choice(cuda::sm90_choices(), use, rows, head.size));
      const Calls calls(rows, head);
      for (const Sm90Use use : cuda::kSm90Uses) {
        Sm90Choice& own = *std::ranges::find(table, use, &Sm90Choice::use);
        if (is_used(use, rows)) own = best_of(use, calls, table);
        all.push_back({use, most_rows, head.most_size, own.form, own.group});
      }
      std::fflush(stdout);
    }
  std::ranges::stable_sort(all, {}, &Sm90Choice::use);  // by size and rows they are in order
  // A use that chooses alike for all sizes has entries for any.
  std::vector<Sm90Choice> kept;
  constexpr std::size_t kEach = std::size(kRows);
  for (std::size_t first = 0; first < all.size(); first += kEach * std::size(kHeads)) {
    const auto same = [&](std::size_t head) {
      return std::ranges::equal(
          std::span(all).subspan(first, kEach), std::span(all).subspan(first + head * kEach, kEach),
          [](const Sm90Choice& a, const Sm90Choice& b) { return a.form == b.form && a.group == b.group; });
    };
    const std::size_t heads = std::size(kHeads);
    const bool alike = same(1) && same(2);
    const std::size_t from = alike ? (heads - 1) * kEach : 0;
    kept.insert(kept.end(), all.begin() + static_cast<std::ptrdiff_t>(first + from),
                all.begin() + static_cast<std::ptrdiff_t>(first + heads * kEach));
  }
  write(path, kept);
  return true;
}

}  // namespace samebits::test
