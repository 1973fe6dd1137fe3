// SPDX-License-Identifier: Apache-2.0
// The first byte chooses the columns and what a bad row does.
#include "fuzz/rows.h"

#include "data/rows.h"
#include "fuzz/fuzz.h"

namespace snug::fuzz {

void read_rows(const std::string& file_name, std::string_view input) {
  const unsigned char choice = take_byte(input);
  data::RowSchema schema;
  schema.needs_label = (choice & 1) != 0;
  if ((choice & 2) != 0) schema.text_pair_column = "pair";
  if ((choice & 8) != 0) schema.text_form = data::TextForm::any;
  data::BadRowLog log;
  log.policy = (choice & 4) != 0 ? BadRows::stop : BadRows::skip;
  const auto reader = data::open_rows(write_file(file_name, input), schema, log);
  data::Row row;
  int64_t line = 0;
  int64_t item = 0;
  while (reader->next(row)) {
    require(row.line > line || (row.line == line && row.item > item), "rows follow each other");
    item = row.item;
    require(row.text.find('\0') == std::string::npos, "no text holds a NUL");
    line = row.line;
    if (!row.label) continue;
    require(row.label->is_list || row.label->items.size() == 1, "a label is a value or a list");
  }
  require(log.count <= static_cast<int64_t>(input.size()), "bad rows are rows");
}

}  // namespace snug::fuzz
