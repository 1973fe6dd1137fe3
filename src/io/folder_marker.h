// SPDX-License-Identifier: Apache-2.0
// The completeness marker of a folder: which files were written, their bytes and SHA-256. Written
// last, so it says that all of them are there; checked before the folder is used again.
//
// {"format": 2, "files": {"model.safetensors": {"bytes": 123, "sha256": "..."}}}
// Format 1 (older folders) was lines of "bytes name".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace snug::io {

inline constexpr const char* kCompleteMarkerName = ".snug.complete";

struct FileRecord {
  int64_t bytes = 0;
  std::string sha256;  // empty: not known (format 1)
  bool operator==(const FileRecord&) const = default;
};

/// By name, below the folder ("sub/state").
using FolderFiles = std::map<std::string, FileRecord, std::less<>>;

[[nodiscard]] std::string marker_text(const FolderFiles& files);
/// Reads either format; `name` stands for it in errors. Throws Error{bad_data}.
[[nodiscard]] FolderFiles parse_marker(std::string_view text, const std::string& name);
/// The marker of a complete folder.
[[nodiscard]] FolderFiles read_marker(const std::string& folder);

/// In what a file that the marker names is not what was written; empty where it is. Reads it.
[[nodiscard]] std::string damage_of(const std::string& path, const FileRecord& record);

enum class FolderCheck : uint8_t { by_hash, by_size };
/// Compares every file that the marker names with what was written. A file that Snug would read, by
/// the end of its name, must be named; others do not count. Throws Error{bad_data} naming the first
/// file that differs. by_size: the marker is of format 1. Cost: the folder is read once, in bounded
/// memory.
FolderCheck check_folder(const std::string& folder);
/// As check_folder for one file of a folder that others may change. Without a marker the folder is
/// not Snug's and passes; so does a file that is neither named nor there.
void check_file_of_folder(const std::string& folder, const std::string& name);

}  // namespace snug::io
