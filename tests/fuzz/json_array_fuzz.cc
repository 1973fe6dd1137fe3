// SPDX-License-Identifier: Apache-2.0
// Rows of one array of JSON.
#include "fuzz/rows.h"

namespace snug::fuzz {

void read_json_array(std::string_view input) { read_rows("rows.json", input); }

}  // namespace snug::fuzz
