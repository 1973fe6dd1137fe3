// SPDX-License-Identifier: Apache-2.0
// A new file that is hashed while what is written is warm in cache.
#pragma once

#include <string>
#include <string_view>

#include "io/file.h"
#include "io/sha256.h"

namespace snug::io {

/// Large files take no memory: dirty pages count in a control group's limit, so they are forced out
/// and dropped on the way. Throws Error{io}.
class HashingWriter {
 public:
  explicit HashingWriter(const std::string& path) : file_(File::create(path)) {}

  void write(const void* src, int64_t bytes);
  /// Small texts are gathered.
  void write(std::string_view text);
  /// Everything is on the disk; returns the SHA-256 of the file.
  [[nodiscard]] std::string finish();

 private:
  void append(const std::byte* from, int64_t bytes);
  void flush();
  void release();

  File file_;
  Sha256 hash_;
  std::string texts_;
  int64_t unreleased_bytes_ = 0;
};

}  // namespace snug::io
