#include "cli/npy.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/cli_error.h"

namespace samebits::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 64 << 10;

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

// The header is a Python dict literal with three known keys; this reads that literal and nothing more.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  Header parse() {
    Header header;
    expect('{');
    while (!take('}')) {
      const std::string key = string_literal();
      expect(':');
      if (key == "descr" && !header.descr) {
        header.descr = descr();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !header.shape) {
        header.shape = tuple();
      } else {
        fail("unexpected or repeated header key " + shown(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail("text after the header's dictionary");
    return header;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw CliError(shown(path_) + ": not a readable npy file: " + what);
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t'))
      rest_.remove_prefix(1);
  }

  bool take(char wanted) {
    skip_space();
    if (rest_.empty() || rest_[0] != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!take(wanted)) fail(std::string("malformed header, expected '") + wanted + "'");
  }

  std::string string_literal() {
    skip_space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) fail("malformed header, expected a string");
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) fail("malformed header, unterminated string");
    const std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string descr() {
    skip_space();
    if (!rest_.empty() && rest_[0] == '[') fail("a structured dtype is not supported; save plain numbers");
    return string_literal();
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    fail("malformed header, expected True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!take(')')) {
      if (shape.size() == kMaxFileRank) fail("more than " + std::to_string(kMaxFileRank) + " dimensions");
      shape.push_back(extent());
      if (take(',')) continue;
      if (shape.size() == 1) fail("malformed header, the shape is not a tuple");
      expect(')');
      break;
    }
    return shape;
  }

  std::int64_t extent() {
    skip_space();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      if (digits == 18) fail("an extent of the shape is too large");
      value = value * 10 + (rest_[digits] - '0');
    }
    if (digits == 0) fail("malformed header, expected a non-negative number in the shape");
    rest_.remove_prefix(digits);
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // written by Python 2
    return value;
  }

  std::string_view rest_;
  const std::string& path_;
};

ElementType element_type(const std::string& descr, const HeaderParser& parser) {
  if (descr == "<f2") return ElementType::kF16;
  if (descr == "<f4") return ElementType::kF32;
  if (descr == "<f8") return ElementType::kF64;
  if (descr == "<i4") return ElementType::kI32;
  if (descr == "<i8") return ElementType::kI64;
  const std::string accepted = " is not supported; it may be <f2, <f4, <f8, <i4 or <i8";
  if (descr.starts_with('>')) parser.fail("big-endian data, dtype " + shown(descr) + "," + accepted);
  if (descr.starts_with("|O") || descr == "O")
    parser.fail("Python objects, dtype " + shown(descr) + "," + accepted);
  if (descr.starts_with("|V") || descr.starts_with("<V")) {
    parser.fail("raw bytes, dtype " + shown(descr) + "," + accepted + " (bfloat16: use a safetensors file)");
  }
  parser.fail("dtype " + shown(descr) + accepted);
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

FileTensor read_npy(std::span<const std::byte> bytes, const std::string& path) {
  const HeaderParser outer({}, path);
  if (!looks_like_npy(bytes)) outer.fail("the magic bytes are missing");
  if (bytes.size() < kMagic.size() + 4) outer.fail("truncated in its first bytes");
  const int major = std::to_integer<int>(bytes[6]);
  const int minor = std::to_integer<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    outer.fail("format version " + std::to_string(major) + "." + std::to_string(minor) +
               " is unknown; it may be 1.0, 2.0 or 3.0");
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t header_begin = 8 + length_bytes;
  if (bytes.size() < header_begin) outer.fail("truncated in its first bytes");
  const std::uint64_t length = little_endian(bytes.subspan(8, length_bytes));
  if (length > kMaxHeader)
    outer.fail("its header claims " + std::to_string(length) + " bytes, more than 65536");
  if (length > bytes.size() - header_begin) outer.fail("truncated inside its header");

  const auto* text = reinterpret_cast<const char*>(bytes.data() + header_begin);
  HeaderParser parser({text, static_cast<std::size_t>(length)}, path);
  const Header header = parser.parse();
  if (!header.descr || !header.fortran_order || !header.shape) {
    outer.fail("the header lacks one of descr, fortran_order, shape");
  }

  FileTensor tensor;
  tensor.type = element_type(*header.descr, outer);
  tensor.shape = *header.shape;
  const auto elements = element_count(tensor.shape);
  const auto size = elements ? byte_count(tensor.type, *elements) : std::nullopt;
  if (!size) outer.fail("the shape " + shape_text(tensor.shape) + " is too large");
  // In one dimension or none both orders are the same bytes, and NumPy may say either.
  if (*header.fortran_order && tensor.shape.size() > 1) {
    outer.fail("Fortran order is not supported; save numpy.ascontiguousarray(x)");
  }
  tensor.elements = *elements;
  tensor.data = bytes.subspan(header_begin + static_cast<std::size_t>(length));
  if (*size != tensor.data.size()) {
    outer.fail("the shape " + shape_text(tensor.shape) + " needs " + std::to_string(*size) +
               " bytes of data, the file holds " + std::to_string(tensor.data.size()));
  }
  return tensor;
}

}  // namespace samebits::cli
