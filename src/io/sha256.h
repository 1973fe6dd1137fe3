// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a stream of bytes (nettle does the arithmetic).
#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace snug::io
