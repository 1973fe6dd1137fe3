// SPDX-License-Identifier: Apache-2.0
#include "io/hashing_writer.h"

#include <algorithm>

namespace snug::io {
namespace {

constexpr int64_t kHashChunkBytes = int64_t{1} << 20;
constexpr int64_t kReleaseHashedBytes = int64_t{64} << 20;
constexpr size_t kTextBytes = 1 << 16;

}  // namespace

void HashingWriter::write(const void* src, int64_t bytes) {
  flush();
  append(static_cast<const std::byte*>(src), bytes);
}

void HashingWriter::write(std::string_view text) {
  texts_ += text;
  if (texts_.size() >= kTextBytes) flush();
}

std::string HashingWriter::finish() {
  flush();
  release();
  file_.close();
  return hash_.finish();
}

void HashingWriter::append(const std::byte* from, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const int64_t chunk = std::min(kHashChunkBytes, bytes - done);
    hash_.update(from + done, chunk);
    file_.write_all(from + done, chunk);
    done += chunk;
    unreleased_bytes_ += chunk;
    if (unreleased_bytes_ >= kReleaseHashedBytes) release();
  }
}

void HashingWriter::flush() {
  append(reinterpret_cast<const std::byte*>(texts_.data()), std::ssize(texts_));
  texts_.clear();
}

void HashingWriter::release() {
  file_.sync();
  file_.release_cache();
  unreleased_bytes_ = 0;
}

}  // namespace snug::io
