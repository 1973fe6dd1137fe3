// SPDX-License-Identifier: Apache-2.0
// Chooses the reader of a file by its suffix.
#include "data/rows.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "data/source.h"
#include "io/gzip.h"

namespace snug::data {
namespace {

void check_distinct(const RowSchema& schema) {
  const std::pair<const char*, const std::string*> columns[] = {
      {"text_column", &schema.text_column},
      {"text_pair_column", &schema.text_pair_column},
      {"label_column", &schema.label_column},
      {"weight_column", &schema.weight_column}};
  for (size_t i = 0; i < std::size(columns); ++i) {
    for (size_t j = i + 1; j < std::size(columns); ++j) {
      if (columns[j].second->empty() || *columns[i].second != *columns[j].second) continue;
      throw Error(
          ErrorCode::bad_config, columns[j].first,
          std::string("names the column '") + *columns[j].second + "', as does " + columns[i].first,
          "name two different columns");
    }
  }
  if (schema.text_column.empty())
    throw Error(ErrorCode::bad_config, "text_column", "is empty", "name a column");
  if (schema.label_column.empty() && schema.needs_label) {
    throw Error(ErrorCode::bad_config, "label_column", "is empty", "name a column");
  }
}

// Without the .gz behind the suffix that says what is packed.
std::string_view unpacked_name(std::string_view file) {
  if (file.ends_with(".gz")) file.remove_suffix(3);
  return file;
}

}  // namespace

bool is_json(const std::string& file) {
  const std::string_view name = unpacked_name(file);
  return name.ends_with(".jsonl") || name.ends_with(".json");
}

bool has_types(const std::string& file) { return is_json(file) || file.ends_with(".arrow"); }

std::unique_ptr<RowReader> open_rows(const std::string& file, const RowSchema& schema,
                                     BadRowLog& log) {
  check_distinct(schema);
  const std::string_view name = unpacked_name(file);
  if (name != file && !io::is_gzip(io::File::open_read(file)))
    throw Error(ErrorCode::bad_data, file, "is no gzip archive, which its name says",
                "name it without .gz, or pack it: gzip FILE");
  if (has_types(file) && schema.delimiter != 0)
    throw Error(ErrorCode::bad_config, "delimiter",
                file + (is_json(file) ? " is JSON, which has none" : " is Arrow's, which has none"),
                "omit delimiter");
  if (is_json(file)) return open_json(file, schema, name.ends_with(".json"), log);
  if (file.ends_with(".arrow")) return open_arrow(file, schema, log);
  if (name.ends_with(".tsv")) return open_delimited(file, schema, '\t', log);
  if (name.ends_with(".csv")) return open_delimited(file, schema, ',', log);
  throw Error(ErrorCode::bad_config, file, "the kind of the file is unknown",
              "name it .jsonl (one JSON object a line), .json, .tsv or .csv; packed, .jsonl.gz and "
              "so on; or .arrow");
}

}  // namespace snug::data
