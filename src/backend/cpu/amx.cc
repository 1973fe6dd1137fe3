// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/amx.h"

#include <hwy/highway.h>

#include <cstdint>

#include "snug/instruction_set.h"

#if HWY_ARCH_X86
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace snug {

#if HWY_ARCH_X86

namespace {
// Linux's names for it; its headers have them since 5.16.
constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr long kTileData = 18;               // XFEATURE_XTILEDATA

// What LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
constexpr TileShapes kWholeTiles;
}  // namespace

bool has_amx() {
  static const bool has = instruction_set() >= InstructionSet::amx &&
                          syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return has;
}

// Written out, since GCC 12's intrinsic tells the compiler of the first eight bytes only.
TileConfig::TileConfig() noexcept { asm volatile("ldtilecfg %0" : : "m"(kWholeTiles)); }
TileConfig::~TileConfig() { asm volatile("tilerelease"); }

#else

bool has_amx() { return false; }
TileConfig::TileConfig() noexcept = default;
TileConfig::~TileConfig() = default;

#endif

}  // namespace snug
