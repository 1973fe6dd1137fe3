// SPDX-License-Identifier: Apache-2.0
// Rows of JSON lines.
#include "fuzz/rows.h"

namespace snug::fuzz {

void read_jsonl(std::string_view input) { read_rows("rows.jsonl", input); }

}  // namespace snug::fuzz
