// SPDX-License-Identifier: Apache-2.0
// What a gzip file holds, front to back and member after member (a file may be several, one behind
// the other), through buffers of fixed size. Trusts nothing: damage, a cut end and bytes behind the
// last member are errors that name the file and the offset in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/file.h"

namespace snug::io {

/// True where the file begins as gzip's do.
[[nodiscard]] bool is_gzip(const File& file);

class GzipReader {
 public:
  GzipReader();
  ~GzipReader();
  GzipReader(GzipReader&&) noexcept;
  GzipReader& operator=(GzipReader&&) noexcept;

  /// The next bytes of the content, `bytes` of them but at its end. `file` is the same in every
  /// call (which moves with its owner). Throws Error{bad_data} where the file is damaged or cut
  /// off, Error{io}.
  [[nodiscard]] int64_t read(const File& file, std::byte* dst, int64_t bytes);
  /// How much of the file is read.
  [[nodiscard]] int64_t position() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace snug::io
