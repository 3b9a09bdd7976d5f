#include "cli/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cli/cli_error.h"
#include "cli/npy.h"
#include "cli/safetensors.h"

namespace samebits::cli {
namespace {

// Data of a file has any alignment, so elements are copied out byte by byte.
template <class Element, class Wide>
std::vector<Wide> widened(const FileTensor& tensor) {
  std::vector<Wide> values(static_cast<std::size_t>(tensor.elements));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Element value;
    std::memcpy(&value, tensor.data.data() + i * sizeof(Element), sizeof(Element));
    values[i] = static_cast<Wide>(value);
  }
  return values;
}

[[noreturn]] void refuse(const FileTensor& tensor, const std::string& what, const char* accepted) {
  throw CliError(what + ": has element type " + std::string(element_type_name(tensor.type)) + "; it may be " +
                 accepted);
}

}  // namespace

TensorFile::TensorFile(const std::string& path) : file_(path), npy_(looks_like_npy(file_.bytes())) {
  if (npy_) {
    tensors_.push_back(read_npy(file_.bytes(), path));
  } else {
    SafetensorsFile contents = read_safetensors(file_.bytes(), path);
    tensors_ = std::move(contents.tensors);
    metadata_ = std::move(contents.metadata);
  }
}

bool TensorFile::has(const std::string& name) const {
  return npy_ || std::ranges::find(tensors_, name, &FileTensor::name) != tensors_.end();
}

const FileTensor& TensorFile::tensor(const std::string& name, const std::string& role) const {
  if (npy_) return tensors_.front();
  const auto found = std::ranges::find(tensors_, name, &FileTensor::name);
  if (found != tensors_.end()) return *found;
  constexpr std::size_t kListed = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(tensors_.size(), kListed); ++i) {
    names += (i == 0 ? "" : ", ") + shown(tensors_[i].name);
  }
  if (tensors_.size() > kListed) names += ", ...";
  throw CliError(shown(path()) + ": has no tensor " + shown(name) + " (" + role + "); it has " +
                 (names.empty() ? "none" : names));
}

DType floating_dtype(const FileTensor& tensor, const std::string& what) {
  switch (tensor.type) {
    case ElementType::kF16: return DType::kFloat16;
    case ElementType::kBF16: return DType::kBFloat16;
    case ElementType::kF32: return DType::kFloat32;
    case ElementType::kF64: return DType::kFloat64;
    default: refuse(tensor, what, "F32, BF16, F16 or F64");
  }
}

std::vector<std::int64_t> integer_values(const FileTensor& tensor, const std::string& what) {
  if (tensor.type == ElementType::kI32) return widened<std::int32_t, std::int64_t>(tensor);
  if (tensor.type == ElementType::kI64) return widened<std::int64_t, std::int64_t>(tensor);
  refuse(tensor, what, "I32 or I64");
}

std::vector<double> floating_values(const FileTensor& tensor, const std::string& what) {
  if (tensor.type == ElementType::kF32) return widened<float, double>(tensor);
  if (tensor.type == ElementType::kF64) return widened<double, double>(tensor);
  refuse(tensor, what, "F32 or F64");
}

}  // namespace samebits::cli
