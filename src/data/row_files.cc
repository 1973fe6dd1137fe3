// SPDX-License-Identifier: Apache-2.0
#include "data/row_files.h"

#include <algorithm>
#include <string_view>

#include "io/arrow_file.h"
#include "io/file.h"
#include "io/file_pattern.h"
#include "io/stream.h"
#include "io/text_file.h"
#include "snug/error.h"

namespace snug::data {
namespace {

constexpr size_t kLongestPath = 4095;

bool is_there(const std::string& path) {
  return path.size() <= kLongestPath && io::anything_at(path);
}

std::vector<std::string> names_between_commas(std::string_view list) {
  std::vector<std::string> names;
  for (;;) {
    const size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    names.emplace_back(name);
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

void refuse_twice(const std::string& given, std::vector<std::string> files) {
  std::sort(files.begin(), files.end());
  const auto twice = std::adjacent_find(files.begin(), files.end());
  if (twice == files.end()) return;
  throw Error(ErrorCode::bad_config, given, "names the file " + *twice + " twice",
              "name it once: its rows would count twice");
}

}  // namespace

std::vector<std::string> row_files(const std::string& given) {
  const bool is_list = given.find(',') != std::string::npos;
  if ((!is_list && !io::has_wildcard(given)) || is_there(given)) return {given};
  std::vector<std::string> files;
  for (const std::string& name : names_between_commas(given)) {
    if (name.empty())
      throw Error(ErrorCode::bad_config, given, "the list of files has an empty name",
                  "write a,b: a comma stands between two names");
    if (io::is_stream(name))
      throw Error(ErrorCode::bad_config, given,
                  "'" + name + "' is a stream, and several files are read more than once",
                  "pipe all rows into one stream, or write them to a file");
    if (!io::has_wildcard(name) || is_there(name)) {
      files.push_back(name);
      continue;
    }
    const std::vector<std::string> found = io::files_like(name);
    if (found.empty())
      throw Error(ErrorCode::bad_config, name, "no file has a name like this",
                  "check the pattern and its folder (* any bytes, ? one, [0-9] one of some)");
    files.insert(files.end(), found.begin(), found.end());
  }
  refuse_twice(given, files);
  return files;
}

std::string suffix_of_rows(const std::string& file) {
  if (io::begins_as_arrow(io::File::open_read(file))) return ".arrow";
  io::TextFile source(file, io::Gzip::is_unpacked);
  source.begin_text();
  constexpr std::string_view kBlanks = " \t\r\n";
  int byte = source.peek();
  while (byte >= 0 && kBlanks.find(static_cast<char>(byte)) != std::string_view::npos) {
    (void)source.get();
    byte = source.peek();
  }
  if (byte == '[') return ".json";
  if (byte == '{') return ".jsonl";
  while (byte >= 0 && byte != '\n' && byte != '\t' && byte != ',') byte = source.get();
  return byte == '\t' ? ".tsv" : ".csv";
}

}  // namespace snug::data
