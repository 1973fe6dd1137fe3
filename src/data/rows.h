// SPDX-License-Identifier: Apache-2.0
// Rows of text from JSON, TSV, CSV and Arrow files, one at a time, packed by gzip or not. Relies on
// pread into one fixed buffer: a file may be any size, a row at most kMaxRowBytes. The readers
// check all foreign text (UTF-8, NUL, columns, types).
#pragma once

#include <memory>
#include <string>

#include "data/row_reader.h"

namespace snug::data {

/// By its suffix.
[[nodiscard]] bool is_json(const std::string& file);
/// By its suffix, whether its values are numbers or texts without being read as such.
[[nodiscard]] bool has_types(const std::string& file);

/// Opens a file; its suffix decides: .jsonl (one object a line), .json (the same, or one array of
/// objects where it begins so), .tsv (header line, tabs, no quoting), .csv (RFC 4180 with a
/// header); behind it may stand .gz; .arrow (io/arrow_file.h). Where the schema has no delimiter,
/// it is the suffix's own, or of comma, semicolon, tab and bar the first under which the header has
/// the text's column (and where none does, the one that cuts it, if the suffix's own does not).
/// With another than the tab .tsv is read as .csv is. `log` outlives the reader. Throws Error{io}
/// or Error{bad_config}.
[[nodiscard]] std::unique_ptr<RowReader> open_rows(const std::string& file, const RowSchema& schema,
                                                   BadRowLog& log);

}  // namespace snug::data
