// A tensor named on the command line by the file, or the sharded checkpoint, that holds it.
#pragma once

#include <memory>
#include <string>

#include "cli/tensor_file.h"

namespace samebits::cli {

struct LocatedTensor {
  std::unique_ptr<TensorFile>
      file;  // where the data of `tensor` lies; null when another owner keeps the file
  FileTensor tensor;
};

/// Finds PLACE or PLACE::NAME; without NAME the tensor is called `default_name`. PLACE is a safetensors or npy file, the
/// index of a sharded checkpoint (*.json, `{"weight_map": {NAME: FILE}}` with files beside it), or a folder that holds
/// `model.safetensors.index.json` or `model.safetensors`. Throws CliError naming the place and the `role` of the tensor.
LocatedTensor locate_tensor(const std::string& place, const std::string& default_name,
                            const std::string& role);

}  // namespace samebits::cli
