// A 64-bit digest of the logits, so that an audit can tell "other logits" from "other arithmetic".
// It guards against mistakes, not against forgery.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace samebits::cli {

/// Digest of one row's bytes: eight independent multiply chains over little-endian words, so that it runs at memory
/// speed, then folded together with the length.
inline std::uint64_t row_digest(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15u;
  std::array<std::uint64_t, 8> lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = kPrime * (i + 1);
  const auto mix = [](std::uint64_t state, std::uint64_t word) {
    state = (state ^ word) * kPrime;
    return state ^ state >> 29;
  };
  std::array<std::uint64_t, 8> words;
  std::size_t at = 0;
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  words = {};
  if (at < bytes.size()) std::memcpy(words.data(), bytes.data() + at, bytes.size() - at);
  std::uint64_t result = bytes.size();
  for (std::size_t i = 0; i < lanes.size(); ++i) result = mix(result, mix(lanes[i], words[i]));
  return result;
}

/// Digests of rows, chained in row order: how the rows were grouped into calls does not matter.
class Digest {
 public:
  void add(std::uint64_t row) { state_ = (std::rotl(state_, 23) ^ row) * 0xd6e8feb86659fd93u; }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3u;
};

}  // namespace samebits::cli
