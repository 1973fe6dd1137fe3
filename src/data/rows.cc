// SPDX-License-Identifier: Apache-2.0
// Chooses the reader of a file by its suffix, and keeps the log of bad rows.
#include "data/rows.h"

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/numbers.h"
#include "base/utf8.h"
#include "data/source.h"
#include "io/gzip.h"

namespace snug::data {
namespace {

constexpr size_t kMaxExampleBytes = 240;

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

void BadRowLog::report(const Error& error) {
  if (policy == BadRows::stop) throw Error(error);
  ++count;
  const bool is_example = static_cast<int64_t>(examples.size()) < kMaxBadExamples;
  if (!is_example && !on_skip) return;
  const std::string text = error.what();
  const size_t from = error.where().size() + 3;  // "[where] "
  const size_t end = error.hint().empty() ? text.size() : text.find("\nhint: ");
  const std::string what =
      error.where() + ": " + clip_text(text.substr(from, end - from), kMaxExampleBytes);
  if (is_example) examples.push_back(what);
  if (on_skip) on_skip(what);
}

float parse_weight(std::string_view text, const std::string& column, const std::string& where) {
  const double given = number_in<double>(text).value_or(-1);
  const auto weight = static_cast<float>(given);
  if (weight >= 0 && std::isfinite(weight)) return weight;
  if (given >= 0 && std::isfinite(given))
    throw RowError(
        ErrorCode::bad_data, where,
        "the weight " + number_text(given) + " of the column '" + column + "' does not fit 32 bits",
        "scale the weights: what counts is their ratio");
  throw RowError(ErrorCode::bad_data, where,
                 text.empty() ? "there is no weight in the column '" + column + "'"
                              : "the weight '" + clip_text(std::string(text), 40) +
                                    "' of the column '" + column + "' is no number of at least 0",
                 "give the row a weight, or set bad_rows to skip");
}

std::unique_ptr<RowReader> open_rows(const std::string& file, const RowSchema& schema,
                                     BadRowLog& log) {
  check_distinct(schema);
  const std::string_view name = unpacked_name(file);
  if (name != file && !io::is_gzip(io::File::open_read(file)))
    throw Error(ErrorCode::bad_data, file, "is no gzip archive, which its name says",
                "name it without .gz, or pack it: gzip FILE");
  if (is_json(file)) {
    if (schema.delimiter != 0)
      throw Error(ErrorCode::bad_config, "delimiter", file + " is JSON, which has none",
                  "omit delimiter");
    return open_json(file, schema, name.ends_with(".json"), log);
  }
  if (name.ends_with(".tsv")) return open_delimited(file, schema, '\t', log);
  if (name.ends_with(".csv")) return open_delimited(file, schema, ',', log);
  throw Error(ErrorCode::bad_config, file, "the kind of the file is unknown",
              "name it .jsonl (one JSON object a line), .json, .tsv or .csv; packed, .jsonl.gz and "
              "so on");
}

}  // namespace snug::data
