// Which tile a product on SM90 is cut into, and in which order: by the shape of the product, from a table that
// `cuda_bench --tune` writes (sm90_choices.inc). No choice can change a bit, for every element is one chain of steps of
// 16 products whatever the tiles are; a test runs all that can be chosen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace samebits::cuda {

// What a product's epilogue does: the statistics of a head's logits, alone or with P saved; P; grad_hidden in integers or
// in sums that are held; grad_weight; or a plain product.
enum class Sm90Use { kStatistics, kSaveP, kFillP, kAddHidden, kHoldHidden, kAddWeight, kPlain };
inline constexpr Sm90Use kSm90Uses[] = {Sm90Use::kStatistics, Sm90Use::kSaveP,      Sm90Use::kFillP,
                                        Sm90Use::kAddHidden,  Sm90Use::kHoldHidden, Sm90Use::kAddWeight,
                                        Sm90Use::kPlain};

// Rows and columns of a cluster's tile. 256 rows are two CTAs', else a cluster is a CTA.
enum class Sm90Form { k64x128, k128x128, k64x192, k128x192, k256x192 };

// Of logits a tile is a block, or a pair of tiles three.
inline constexpr Sm90Form kSm90LogitForms[] = {Sm90Form::k64x128, Sm90Form::k128x128, Sm90Form::k256x192};
inline constexpr Sm90Form kSm90OtherForms[] = {Sm90Form::k64x192, Sm90Form::k128x192, Sm90Form::k256x192};
inline constexpr Sm90Form kSm90PlainForms[] = {Sm90Form::k128x128, Sm90Form::k128x192, Sm90Form::k256x192};

// The forms that are compiled for a use.
constexpr std::span<const Sm90Form> forms_of(Sm90Use use) {
  switch (use) {
    case Sm90Use::kStatistics:
    case Sm90Use::kSaveP:
    case Sm90Use::kFillP: return kSm90LogitForms;
    case Sm90Use::kHoldHidden: return kSm90OtherForms;
    case Sm90Use::kPlain: return kSm90PlainForms;
    case Sm90Use::kAddWeight: return std::span<const Sm90Form>(kSm90OtherForms).last(1);
    default: return std::span<const Sm90Form>(kSm90OtherForms).last(2);
  }
}

inline constexpr std::int64_t kAnySize = std::int64_t{1} << 62;

// Of a product of a head, `rows` are positions and `size` is H; of a plain one rows and depth.
struct Sm90Choice {
  Sm90Use use;
  std::int64_t most_rows, most_size;  // that it is for
  Sm90Form form;
  int group;  // tiles along the rows that are walked through before the next ones along the columns
};
using Sm90Choices = std::span<const Sm90Choice>;

// The table.
Sm90Choices sm90_choices();

// The first entry that fits counts.
constexpr const Sm90Choice* find_choice(Sm90Choices table, Sm90Use use, std::int64_t rows,
                                        std::int64_t size) {
  for (const Sm90Choice& choice : table)
    if (choice.use == use && rows <= choice.most_rows && size <= choice.most_size) return &choice;
  return nullptr;
}

// Whether there is a choice for every product, and it can be launched.
constexpr bool is_complete(Sm90Choices table) {
  for (const Sm90Use use : kSm90Uses)
    if (find_choice(table, use, kAnySize, kAnySize) == nullptr) return false;
  for (const Sm90Choice& choice : table)
    if (choice.group < 1 || std::ranges::count(forms_of(choice.use), choice.form) == 0) return false;
  return true;
}
}  // namespace samebits::cuda
