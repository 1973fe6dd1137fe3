// SPDX-License-Identifier: Apache-2.0
// pytorch_model.bin, every byte of it: the archive, whose directory is found from its end.
#include "fuzz/fuzz.h"
#include "fuzz/torch_tensors.h"

namespace snug::fuzz {

void read_torch_file(std::string_view input) {
  read_torch_tensors(write_file("pytorch_model.bin", input), input.size());
}

}  // namespace snug::fuzz
