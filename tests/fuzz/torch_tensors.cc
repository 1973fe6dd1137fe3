// SPDX-License-Identifier: Apache-2.0
#include "fuzz/torch_tensors.h"

#include <vector>

#include "fuzz/fuzz.h"
#include "io/torch_file.h"
#include "snug/error.h"

namespace snug::fuzz {

void read_torch_tensors(const std::string& path, size_t file_bytes) {
  const io::TorchFile file(path);
  for (const io::StoredTensor& tensor : file.tensors()) {
    require(file.find(tensor.name) != nullptr, "every tensor is found by its name");
    require(tensor.begin >= 0 && tensor.size_bytes() >= 0 &&
                tensor.size_bytes() <= static_cast<int64_t>(file_bytes),
            "a tensor lies in its file");
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.size_bytes()));
    file.read(tensor.name, bytes.data(), tensor.size_bytes());
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    try {
      file.read_f32(tensor.name, values);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::bad_data, "a type that is no real is refused");
    }
  }
}

}  // namespace snug::fuzz
