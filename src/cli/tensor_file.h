// An input file of either format, told apart by its content.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <samebits/dtype.h>

#include "cli/file_tensor.h"
#include "cli/mapped_file.h"

namespace samebits::cli {

class TensorFile {
 public:
  /// Throws CliError when the file cannot be read as npy or safetensors.
  explicit TensorFile(const std::string& path);

  const MappedFile& file() const { return file_; }
  const std::string& path() const { return file_.path(); }
  bool is_npy() const { return npy_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// The tensor called `name`; of an npy file, its only tensor. Throws CliError that says what `role` it should have
  /// played and lists the names there are.
  const FileTensor& tensor(const std::string& name, const std::string& role) const;
  bool has(const std::string& name) const;

 private:
  MappedFile file_;
  bool npy_;
  std::vector<FileTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The values of an I32 or I64 tensor, widened. Throws CliError naming `what` for another element type.
std::vector<std::int64_t> integer_values(const FileTensor& tensor, const std::string& what);

/// The library's name of a floating element type. Throws CliError naming `what` for another element type.
DType floating_dtype(const FileTensor& tensor, const std::string& what);

/// The values of an F32 or F64 tensor, widened (exactly). Throws CliError naming `what` for another element type.
std::vector<double> floating_values(const FileTensor& tensor, const std::string& what);

}  // namespace samebits::cli
