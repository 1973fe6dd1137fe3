// SPDX-License-Identifier: Apache-2.0
// pytorch_model.bin: tensors as torch.save writes them since PyTorch 1.6, an archive (zip.h) of one
// pickle (torch_pickle.h) and one entry for each storage. Nothing of the file is run. Tensors that
// share a storage are read each for itself; strides are kept. Refused, with the line that converts:
// the older forms of torch.save; by name: TorchScript, big-endian storages, a tensor that does not
// lie in its storage or repeats elements of it.
#pragma once

#include <string>

#include "io/tensor_file.h"

namespace snug::io {

class TorchFile : public TensorFile {
 public:
  /// Throws Error{bad_data}.
  explicit TorchFile(const std::string& path);
};

}  // namespace snug::io
