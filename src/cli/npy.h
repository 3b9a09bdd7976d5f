// NumPy .npy files, header versions 1, 2 and 3.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cli/file_tensor.h"

namespace samebits::cli {

/// True when the bytes start with the npy magic.
bool looks_like_npy(std::span<const std::byte> bytes);

/// Reads the header and returns a tensor whose data points into `bytes`. Accepted: float16, float32, float64, int32,
/// int64, little-endian, C order. Throws CliError, naming `path`, for anything else or malformed: Fortran order,
/// big-endian, object, structured or other types, a header of more than 64 KiB, a shape whose size is not the file's.
FileTensor read_npy(std::span<const std::byte> bytes, const std::string& path);

}  // namespace samebits::cli
