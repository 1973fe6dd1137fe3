// SPDX-License-Identifier: Apache-2.0
// Memory of the system's own: zeros until written, in large pages where the system has them, with
// one inaccessible page behind that turns a write past the end into a fault instead of silence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace snug {

class MappedBlock {
 public:
  MappedBlock() = default;
  /// Throws Error{out_of_budget} when the system refuses. From a large page's size on the block
  /// begins where such a page can: kernels that go through much memory look fewer addresses up. It
  /// takes no more memory than it has bytes, rounded up to a page, when all of it is written.
  explicit MappedBlock(int64_t bytes);
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;
  ~MappedBlock();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  int64_t mapped_bytes_ = 0;
};

/// Writes the value to every byte; throws Error{cancelled} between two parts of a long way.
void fill_bytes(std::span<std::byte> bytes, std::byte value);

}  // namespace snug
