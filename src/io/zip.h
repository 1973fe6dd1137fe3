// SPDX-License-Identifier: Apache-2.0
// The directory of a ZIP archive whose entries are stored as they are, which is how torch.save
// writes them: where each entry's bytes lie, to be read with pread straight to their place. A
// library would hand out streams instead, and inflate; this reads the directory alone and refuses
// everything else that ZIP can be: compression, encryption, several disks, entries that overlap, a
// name twice. Checksums are not compared: torch.load does not either, and files may lack them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/file.h"

namespace snug::io {

struct ZipEntry {
  std::string name;
  int64_t begin = 0;  // of its bytes, in the file
  int64_t bytes = 0;
};

struct ZipDirectory {
  std::vector<ZipEntry> entries;  // sorted by name
  int64_t bytes = 0;              // of the file

  /// Null where there is none of that name.
  [[nodiscard]] const ZipEntry* find(const std::string& name) const;
};

/// Throws Error{bad_data}.
[[nodiscard]] ZipDirectory read_zip_directory(const File& file);

}  // namespace snug::io
