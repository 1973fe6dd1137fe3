// SPDX-License-Identifier: Apache-2.0
// The pickle in a file of torch.save (its data.pkl): names, and for each where in which storage
// its elements lie. A pickle is a program for a machine with a stack that can call anything; this
// machine knows dicts, tuples, texts, numbers and the few globals that tensors are made of, calls
// nothing, and refuses everything else by its name and byte. What it makes is in proportion to the
// text: more than one value for four bytes, which no writer makes, is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_file.h"

namespace snug::io {

struct PickledTensor {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::string storage;           // its key
  int64_t storage_elements = 0;  // that it should have
  int64_t offset = 0;            // of the first element, in elements
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements, as many as dimensions
};

/// The tensors of a pickled dict, in its order. Numbers are as they are written, negative ones too.
/// `path` is for errors. Throws Error{bad_data}.
[[nodiscard]] std::vector<PickledTensor> read_torch_pickle(std::string_view text,
                                                           const std::string& path);

}  // namespace snug::io
