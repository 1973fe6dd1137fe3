// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry; SNUG_FUZZ_READER is the reader of this program.
#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.h"

namespace snug::fuzz {
void SNUG_FUZZ_READER(std::string_view input);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  snug::fuzz::accept(snug::fuzz::SNUG_FUZZ_READER, {reinterpret_cast<const char*>(data), size});
  return 0;
}
