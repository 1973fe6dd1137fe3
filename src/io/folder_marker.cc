// SPDX-License-Identifier: Apache-2.0
#include "io/folder_marker.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/file_hash.h"
#include "io/json_file.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr int64_t kFormat = 2;
constexpr int64_t kMaxMarkerBytes = int64_t{1} << 20;
constexpr size_t kHashDigits = 64;

// A file below the folder itself: foreign bytes may not name other places.
bool is_inside(std::string_view name) {
  if (name.empty() || name.find('\0') != std::string_view::npos) return false;
  while (true) {
    const size_t end = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == name.size()) return true;
    name.remove_prefix(end + 1);
  }
}

constexpr const char* kTakeCopy =
    "the folder was changed after it was written: take it from a copy";

[[noreturn]] void fail_marker(const std::string& name, const std::string& message,
                              const std::string& hint = kTakeCopy) {
  throw Error(ErrorCode::bad_data, name, message, hint);
}

FolderFiles parse_lines(std::string_view text, const std::string& name) {
  FolderFiles files;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() == text.size()) fail_marker(name, "the last line is cut off");
    text.remove_prefix(line.size() + 1);
    FileRecord record;
    const auto [end, status] =
        std::from_chars(line.data(), line.data() + line.size(), record.bytes);
    const auto digits = static_cast<size_t>(end - line.data());
    const bool is_good =
        status == std::errc() && record.bytes >= 0 && digits < line.size() && line[digits] == ' ';
    if (!is_good || !is_inside(line.substr(digits + 1)))
      fail_marker(name, "a line is not 'BYTES NAME'");
    files[std::string(line.substr(digits + 1))] = record;
  }
  return files;
}

FolderFiles parse_objects(const JsonValue& root) {
  if (root.get_int("format") != kFormat) {
    root.at("format").fail("must be " + std::to_string(kFormat),
                           "the folder comes from a newer version of Snug");
  }
  const JsonValue list = root.at("files");
  FolderFiles files;
  for (const std::string& name : list.keys()) {
    const JsonValue file = list.at(name);
    if (!is_inside(name)) file.fail("must be the name of a file in this folder");
    const std::string sha256 = file.get_string("sha256");
    if (sha256.size() != kHashDigits ||
        sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
      file.at("sha256").fail("must be 64 hexadecimal digits");
    files[name] = {.bytes = file.at("bytes").as_int(0), .sha256 = sha256};
  }
  return files;
}

/// How the names of all files end that Snug reads in such a folder: weights, states, configurations
/// and tokenizers. What others put beside them (README.md, .DS_Store) ends otherwise.
constexpr const char* kReadSuffixes[] = {".json", ".safetensors", ".bin", ".txt", ".model"};

bool is_read(const std::string& name) {
  return std::ranges::any_of(kReadSuffixes,
                             [&](const char* suffix) { return name.ends_with(suffix); });
}

[[noreturn]] void fail_unnamed(const std::string& path, const std::string& hint) {
  fail_marker(path,
              "the folder's marker does not name the file; if you put it there, move it elsewhere",
              hint);
}

void check_file(const std::string& path, const FileRecord& record, const std::string& hint) {
  const std::string damage = damage_of(path, record);
  if (!damage.empty()) fail_marker(path, damage, hint);
}

}  // namespace

std::string marker_text(const FolderFiles& files) {
  nlohmann::ordered_json list = nlohmann::ordered_json::object();
  for (const auto& [name, record] : files)
    list[name] = {{"bytes", record.bytes}, {"sha256", record.sha256}};
  return nlohmann::ordered_json{{"format", kFormat}, {"files", list}}.dump(1) + "\n";
}

FolderFiles parse_marker(std::string_view text, const std::string& name) {
  if (!text.empty() && text.front() >= '0' && text.front() <= '9') return parse_lines(text, name);
  return parse_objects(parse_json(text, name));
}

FolderFiles read_marker(const std::string& folder) {
  const std::string path = folder + "/" + kCompleteMarkerName;
  return parse_marker(read_all(path, kMaxMarkerBytes), path);
}

std::string damage_of(const std::string& path, const FileRecord& record) {
  if (!file_exists(path)) return "the file is gone; the folder's marker names it";
  const int64_t bytes = File::open_read(path).size_bytes();
  if (bytes != record.bytes) {
    return "the file has " + std::to_string(bytes) + " bytes, " + std::to_string(record.bytes) +
           " were written";
  }
  if (record.sha256.empty()) return {};
  const std::string sha256 = sha256_of_file(path);
  if (sha256 == record.sha256) return {};
  return "the file is not what was written: its SHA-256 is " + sha256 +
         ", the folder's marker says " + record.sha256;
}

FolderCheck check_folder(const std::string& folder) {
  FolderCheck check = FolderCheck::by_hash;
  const FolderFiles files = read_marker(folder);
  for (const std::string& name : list_folder(folder)) {
    const std::string path = folder + "/" + name;
    if (is_read(name) && !files.contains(name) && file_exists(path)) fail_unnamed(path, kTakeCopy);
  }
  for (const auto& [name, record] : files) {
    check_file(folder + "/" + name, record, kTakeCopy);
    if (record.sha256.empty()) check = FolderCheck::by_size;
  }
  return check;
}

void check_file_of_folder(const std::string& folder, const std::string& name) {
  const std::string marker = folder + "/" + kCompleteMarkerName;
  if (!has_file(marker)) return;
  const FolderFiles files = read_marker(folder);
  const auto found = files.find(name);
  const std::string path = folder + "/" + name;
  const std::string hint =
      "take it from a copy; to read as a model what was changed on purpose, remove " + marker +
      " (a resume needs it)";
  if (found != files.end()) return check_file(path, found->second, hint);
  if (file_exists(path)) fail_unnamed(path, hint);
}

}  // namespace snug::io
