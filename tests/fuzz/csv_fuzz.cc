// SPDX-License-Identifier: Apache-2.0
// Rows of CSV.
#include "fuzz/rows.h"

namespace snug::fuzz {

void read_csv(std::string_view input) { read_rows("rows.csv", input); }

}  // namespace snug::fuzz
