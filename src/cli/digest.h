// A 64-bit digest of an input, so that an audit can tell "other logits" from "other arithmetic".
// It guards against mistakes, not against forgery.
#pragma once

#include <array>
#include <bit>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

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
  Digest() = default;
  /// Goes on from the value() of another.
  explicit Digest(std::uint64_t value) : state_(value) {}

  void add(std::uint64_t row) { state_ = (std::rotl(state_, 23) ^ row) * 0xd6e8feb86659fd93u; }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3u;
};

/// 16 hexadecimal digits.
inline std::string digest_text(std::uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

}  // namespace samebits::cli
