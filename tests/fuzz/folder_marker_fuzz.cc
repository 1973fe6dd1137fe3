// SPDX-License-Identifier: Apache-2.0
// The completeness marker of a folder, and the check of the folder by it. The hash of the one file
// "file" may be written as "SHA256".
#include <algorithm>
#include <filesystem>
#include <string>

#include "fuzz/fuzz.h"
#include "io/file_hash.h"
#include "io/folder_marker.h"

namespace snug::fuzz {

void read_folder_marker(std::string_view input) {
  static const std::string hash = io::sha256_of_file(write_file("file", "0123456789"));
  const std::string text = replace(std::string(input), "SHA256", hash);
  const std::string marker = write_file(io::kCompleteMarkerName, text);
  const io::FolderFiles files = io::parse_marker(text, marker);
  const bool has_hashes = std::all_of(files.begin(), files.end(),
                                      [](const auto& file) { return !file.second.sha256.empty(); });
  if (has_hashes)
    require(io::parse_marker(io::marker_text(files), "again") == files, "what is written is read");
  const auto checked = io::check_folder(std::filesystem::path(marker).parent_path().string());
  require(checked == io::FolderCheck::by_size || has_hashes, "a hash is compared");
}

}  // namespace snug::fuzz
