// SPDX-License-Identifier: Apache-2.0
// Rows of Arrow's files.
#include "fuzz/rows.h"

namespace snug::fuzz {

void read_arrow(std::string_view input) { read_rows("rows.arrow", input); }

}  // namespace snug::fuzz
