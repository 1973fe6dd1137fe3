// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a stream of bytes (nettle does the arithmetic).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace snug::io {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(const void* src, int64_t bytes);
  /// Returns the 64 lower-case hexadecimal digits of everything so far and starts again.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string sha256_of_bytes(const void* src, int64_t bytes);
/// Reads the file in bounded chunks. `on_chunk` hears how many bytes are read and how many there
/// are, and may throw.
[[nodiscard]] std::string sha256_of_file(
    const std::string& path, const std::function<void(int64_t done, int64_t total)>& on_chunk = {});

}  // namespace snug::io
