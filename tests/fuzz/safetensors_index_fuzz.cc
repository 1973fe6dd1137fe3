// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json beside one shard that holds the tensors "a" and "b".
#include <string>

#include "fuzz/fuzz.h"
#include "io/weight_files.h"

namespace snug::fuzz {

void read_safetensors_index(std::string_view input) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]}})";
  const auto length = static_cast<uint64_t>(header.size());
  (void)write_file("s.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) +
                                        header + std::string(8, '\0'));
  const io::WeightFiles model(write_file("model.safetensors.index.json", input));
  for (const io::StoredTensor& tensor : model.tensors())
    require(model.file_of(tensor.name).find(tensor.name) != nullptr, "a shard holds its tensors");
}

}  // namespace snug::fuzz
