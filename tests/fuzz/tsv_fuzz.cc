// SPDX-License-Identifier: Apache-2.0
// Rows of TSV.
#include "fuzz/rows.h"

namespace snug::fuzz {

void read_tsv(std::string_view input) { read_rows("rows.tsv", input); }

}  // namespace snug::fuzz
