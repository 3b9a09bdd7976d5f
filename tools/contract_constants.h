// The constants of the contract as docs/contract.md lists them, printed from src/order.
#pragma once

#include <cstdio>
#include <string>

#include "order/dot.h"
#include "order/p_form.h"
#include "order/row.h"
#include "order/tc16.h"

namespace samebits::tools {

inline std::string contract_constants() {
  std::string page;
  const auto line = [&page](const char* name, const char* value, const char* meaning) {
    page += "| `" + std::string(name) + "` | `" + value + "` | " + meaning + " |\n";
  };
  const auto number = [&line](const char* name, double value, const char* meaning) {
    char text[40];
    std::snprintf(text, sizeof text, "%a", value);
    line(name, text, meaning);
  };
  const auto bits = [&line](const char* name, unsigned long long value, const char* meaning) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", value);
    line(name, text, meaning);
  };
  const auto whole = [&line](const char* name, long long value, const char* meaning) {
    line(name, std::to_string(value).c_str(), meaning);
  };

  using order::Exp32, order::Exp64, order::Log64, order::Tc16;
  page += "| constant | value | of |\n|---|---|---|\n";
  whole("block", order::kBlock, "columns of a block");
  whole("lanes", order::kLanes, "partial sums of a block");
  whole("largest V", order::kMaxVocab, "both row contracts");
  whole("segment", order::kSegment, "k of one chain, all products");
  whole("group", Tc16::kGroup, "products of one step, `tc16.v1`");
  whole("fraction bits", Tc16::kFractionBits, "`tc16.v1`: kept of an aligned addend");
  whole("least exponent", Tc16::kLeastExponent, "`tc16.v1`: of the alignment");
  whole("significant bits", Tc16::kSignificandBits, "`tc16.v1`: of a step's result");
  whole("last bit", Tc16::kLeastResultBit, "`tc16.v1`: results are multiples of 2 to this power");
  whole("slices", order::kSlices, "P form: of the vocabulary");
  whole("occurrences", order::kOccurrences, "P form and embedding: rows of one chain of a sum over tokens");
  whole("bits of N", order::kHiddenBits, "P form: below the largest value of a row");
  whole("reach of the target", static_cast<long long>(order::kTargetReach),
        "P form, bf16: M - z_t up to which r is z_t");
  whole("shift", static_cast<long long>(order::kShift16), "P form, fp16: r is this far below M + L");
  whole("reach", static_cast<long long>(order::kEntropyReach), "P form: of z - M, in a");
  number("fixed-point unit", order::RowV1::kScaleDown, "`row.v1`: S and U count these");
  number("fixed-point unit", order::Row64V1::kScaleDown, "`row64.v1`");
  bits("NaN, fp32", order::kNanBits32, "every NaN written");
  bits("NaN, bf16 and fp16", order::kNanBits16, "every NaN written");
  bits("NaN, fp64", order::kNanBits64, "every NaN written");
  number("cut", Exp32::kCut, "e(d)");
  number("L", Exp32::kLog2e, "e(d)");
  number("magic", Exp32::kRoundMagic, "e(d)");
  number("c1", Exp32::kC1, "e(d)");
  number("c2", Exp32::kC2, "e(d)");
  number("c3", Exp32::kC3, "e(d)");
  number("c4", Exp32::kC4, "e(d)");
  number("c5", Exp32::kC5, "e(d)");
  number("cut", Exp64::kCut, "exp64");
  number("L", Exp64::kLog2e, "exp64");
  number("magic", Exp64::kRoundMagic, "exp64");
  number("ln2 high", Exp64::kLn2High, "exp64");
  number("ln2 low", Exp64::kLn2Low, "exp64");
  for (int i = 0; i < Exp64::kTerms; ++i)
    number(("c" + std::to_string(i)).c_str(), Exp64::coefficient(i), "exp64");
  bits("sqrt half", Log64::kSqrtHalf, "log64: bits of the smallest significand");
  number("ln2 high", Log64::kLn2High, "log64");
  number("ln2 low", Log64::kLn2Low, "log64");
  for (int i = 0; i < Log64::kTerms; ++i)
    number(("c" + std::to_string(i)).c_str(), Log64::coefficient(i), "log64");
  return page;
}

}  // namespace samebits::tools
