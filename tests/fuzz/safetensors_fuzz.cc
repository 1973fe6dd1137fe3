// SPDX-License-Identifier: Apache-2.0
// safetensors files. Most inputs are a header alone: its length and as many data bytes as its first
// byte says are put around it, since random bytes seldom agree with themselves.
#include <vector>

#include "fuzz/fuzz.h"
#include "io/safetensors.h"
#include "snug/error.h"

namespace snug::fuzz {

void read_safetensors(std::string_view input) {
  const unsigned char choice = take_byte(input);
  std::string bytes(input);
  if (choice < 0xff) {
    const auto length = static_cast<uint64_t>(input.size());
    bytes = std::string(reinterpret_cast<const char*>(&length), sizeof length) + bytes +
            std::string(choice, '\x3c');
  }
  const io::SafetensorsFile file(write_file("model.safetensors", bytes));
  for (const io::StoredTensor& tensor : file.tensors()) {
    require(file.find(tensor.name) != nullptr, "every tensor is found by its name");
    require(tensor.size_bytes() >= 0 && tensor.size_bytes() <= static_cast<int64_t>(bytes.size()),
            "a tensor lies in its file");
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    try {
      file.read_f32(tensor.name, values);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::bad_data, "a type that is no real is refused");
    }
  }
}

}  // namespace snug::fuzz
