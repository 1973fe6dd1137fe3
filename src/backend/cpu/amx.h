// SPDX-License-Identifier: Apache-2.0
// Tiles of x86 (AMX): whether kernels of our own may use them, and their shapes, which are a state
// of each thread.
#pragma once

namespace snug {

/// Whether products of bf16 on tiles are in force here: the instruction set of this process has
/// them (snug/instruction_set.h), and the system permits this process to use them.
[[nodiscard]] bool has_amx();

/// While it lives, each of the eight tiles of the calling thread has 16 rows of 64 bytes. Then the
/// thread has none, as oneDNN expects, which gives its tiles shapes of its own. Only where
/// has_amx().
class TileConfig {
 public:
  TileConfig() noexcept;
  TileConfig(const TileConfig&) = delete;
  TileConfig& operator=(const TileConfig&) = delete;
  ~TileConfig();
};

}  // namespace snug
