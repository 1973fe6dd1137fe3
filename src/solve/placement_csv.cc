// SPDX-License-Identifier: Apache-2.0
// Placement problems and solutions as CSV.
#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "base/numbers.h"
#include "base/units.h"
#include "io/csv.h"
#include "io/file.h"
#include "snug/error.h"
#include "snug/solve.h"

namespace snug {
namespace {

// What is read stays below 600 MiB.
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;
constexpr int64_t kMaxRecordBytes = int64_t{1} << 20;
constexpr size_t kMaxFields = 64;
constexpr size_t kMaxItems = 1'000'000;

enum Column : size_t { id_column, lower_column, upper_column, size_column };
constexpr std::array<std::string_view, 4> kNames = {"id", "lower", "upper", "size"};
constexpr std::string_view kOffset = "offset";
constexpr const char* kColumnsHint = "the first line names the columns id,lower,upper,size";

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

[[noreturn]] void fail(const std::string& place, const std::string& message,
                       const std::string& hint) {
  throw Error(ErrorCode::bad_data, place, message, hint);
}

// Which field holds each column.
std::array<size_t, kNames.size()> find_columns(const io::CsvRecord& header,
                                               const std::string& place) {
  constexpr size_t kMissing = SIZE_MAX;
  std::array<size_t, kNames.size()> fields;
  fields.fill(kMissing);
  bool has_offset = false;
  for (size_t f = 0; f < header.size(); ++f) {
    const std::string_view name = without_spaces(header.field(f));
    const std::string quoted = "'" + std::string(name) + "'";
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end() && name != kOffset) {
      fail(place, "unknown column " + quoted,
           "id, lower, upper and size are read, offset is passed over; omit the column where "
           "the placement does not depend on it");
    }
    const bool is_second = found == kNames.end()
                               ? std::exchange(has_offset, true)
                               : fields[static_cast<size_t>(found - kNames.begin())] != kMissing;
    if (is_second) fail(place, "the column " + quoted + " occurs twice", "remove one of the two");
    if (found != kNames.end()) fields[static_cast<size_t>(found - kNames.begin())] = f;
  }
  for (size_t c = 0; c < kNames.size(); ++c) {
    if (fields[c] == kMissing)
      fail(place, "there is no column '" + std::string(kNames[c]) + "'", kColumnsHint);
  }
  return fields;
}

int64_t read_number(std::string_view field, Column column, const std::string& place) {
  const std::string_view text = without_spaces(field);
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = end == text.data() + text.size();
  if (status == std::errc() && is_whole) return value;
  const bool is_too_large = status == std::errc::result_out_of_range && is_whole;
  fail(place,
       std::string(kNames[column]) + " '" + std::string(text) +
           (is_too_large ? "' does not fit a signed 64-bit number" : "' is not a whole number"),
       is_too_large ? "divide all numbers of the column by a common factor"
                    : "write digits alone, for example 4096");
}

}  // namespace

std::vector<PlacementItem> read_placement_csv(const std::string& file) {
  io::TextFile source(file);
  if (source.total_bytes() > kMaxFileBytes)
    fail(file,
         "the file has " + format_bytes(source.total_bytes()) + "; at most " +
             format_bytes(kMaxFileBytes) + " are read here",
         "check that this is the file you meant");
  source.begin_text();
  io::CsvReader reader(source, {.record_bytes = kMaxRecordBytes, .fields = kMaxFields});
  io::CsvRecord fields;
  if (!reader.next(fields)) fail(file, "the file is empty", kColumnsHint);
  const auto column = find_columns(fields, io::place_of(file, fields.line()));
  const size_t width = fields.size();
  std::vector<PlacementItem> items;
  std::unordered_map<std::string, int64_t> line_of;
  while (reader.next(fields)) {
    const std::string place = io::place_of(file, fields.line());
    if (fields.size() != width) {
      fail(place,
           std::to_string(fields.size()) + " fields where the header has " + std::to_string(width),
           "give every row one field for each column");
    }
    if (items.size() == kMaxItems) {
      fail(place, "the file has more than " + std::to_string(kMaxItems) + " rows",
           "split the problem where few items live at once, or omit small ones");
    }
    PlacementItem item;
    item.id = fields.field(column[id_column]);
    item.lower = read_number(fields.field(column[lower_column]), lower_column, place);
    item.upper = read_number(fields.field(column[upper_column]), upper_column, place);
    item.size = read_number(fields.field(column[size_column]), size_column, place);
    item.line = fields.line();
    const auto [first, is_new] = line_of.emplace(item.id, item.line);
    if (!is_new) {
      fail(place, "the id '" + item.id + "' is that of line " + std::to_string(first->second),
           "give every row its own id");
    }
    items.push_back(std::move(item));
  }
  return items;
}

int64_t parse_capacity(std::string_view text) {
  if (const auto units = number_in<int64_t>(text); units && *units >= 0) return *units;
  const bool has_unit = !text.empty() && text.find_first_not_of("0123456789.eE+- ") != text.npos;
  try {
    if (has_unit) return parse_bytes(text, "--capacity");
  } catch (const Error&) {
    // The text below knows both forms.
  }
  throw Error(
      ErrorCode::bad_config, "--capacity", "'" + std::string(text) + "' is no capacity",
      "write a whole number in the unit of the sizes (29), or bytes with their unit (1MiB)");
}

int64_t parse_max_nodes(std::string_view text) {
  const std::optional<int64_t> nodes = number_in<int64_t>(text);
  if (nodes && *nodes >= 0) return *nodes;
  throw Error(ErrorCode::bad_config, "--max-nodes",
              "'" + std::string(text) + "' is no number of nodes",
              "write a whole number (2000000); 0 leaves the exact search out");
}

void write_placement_csv(const std::string& file, const std::vector<PlacementItem>& items,
                         const std::vector<int64_t>& offsets) {
  std::string text = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < items.size(); ++i) {
    text += io::csv_field(items[i].id);
    for (const int64_t number : {items[i].lower, items[i].upper, items[i].size, offsets[i]})
      text += "," + std::to_string(number);
    text += "\n";
  }
  io::replace_file(file, text);
}

}  // namespace snug
