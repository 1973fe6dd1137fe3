// SPDX-License-Identifier: Apache-2.0
// The pickle of pytorch_model.bin: an archive is put around it whose storage "0" has as many bytes
// as its first byte says, and "1" one of 4.
#include "fuzz/fuzz.h"
#include "fuzz/torch_tensors.h"
#include "io/test_zip.h"

namespace snug::fuzz {

void read_torch_pickle(std::string_view input) {
  const unsigned char bytes = take_byte(input);
  const std::string file = io::make_zip({.entries = {{"a/data.pkl", std::string(input)},
                                                     {"a/data/0", std::string(bytes, '\x3c')},
                                                     {"a/data/1", std::string(4, '\x3c')}}});
  read_torch_tensors(write_file("pytorch_model.bin", file), file.size());
}

}  // namespace snug::fuzz
