// SPDX-License-Identifier: Apache-2.0
#include "io/file_hash.h"

#include <cstddef>
#include <vector>

#include "io/file.h"
#include "io/sha256.h"

namespace snug::io {

std::string sha256_of_file(const std::string& path,
                           const std::function<void(int64_t done, int64_t total)>& on_chunk) {
  const File file = File::open_read(path);
  const int64_t total_bytes = file.size_bytes();
  Sha256 hash;
  std::vector<std::byte> chunk(size_t{256} << 10);
  const auto chunk_bytes = static_cast<int64_t>(chunk.size());
  for (int64_t offset = 0;;) {
    const int64_t got = file.read_some_at(offset, chunk.data(), chunk_bytes);
    hash.update(chunk.data(), got);
    offset += got;
    if (on_chunk) on_chunk(offset, total_bytes);
    if (got < chunk_bytes) break;
  }
  return hash.finish();
}

}  // namespace snug::io
