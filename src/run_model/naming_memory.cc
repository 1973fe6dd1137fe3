// SPDX-License-Identifier: Apache-2.0
#include "run_model/naming_memory.h"

#include <optional>
#include <string>

#include "base/units.h"
#include "snug/error.h"
#include "snug/memory.h"

namespace snug::run_model {
namespace {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;

// Bytes of a part of a graph that only says its weights, and of their list: 29 KiB measured for a
// layer of BERT, 30 for two blocks of a residual network.
constexpr int64_t kNamingBytes = 16 * kMiB;
constexpr int64_t kNamingBytesOfPart = 32 * kKiB;
constexpr int64_t kNamingBytesOfLayerPart = 2 * kKiB;  // few nodes, weights alone: 1.8 measured

/// Bytes of the whole process, as measured, without room.
int64_t naming_bytes(const Model& model) {
  const models::ProgramSize size = model.size(1);
  return kNamingBytes + kNamingBytesOfPart * size.parts +
         kNamingBytesOfLayerPart * size.layer_parts;
}

}  // namespace

void check_naming_memory(const Model& model) {
  const std::optional<MemoryLimit> limit = group_memory();
  const int64_t bytes = naming_bytes(model);
  if (!limit || bytes <= limit->bytes) return;
  throw Error(ErrorCode::out_of_budget, "model",
              "the network of '" + model.name + "' has too many layers for this process: to know " +
                  "its weights alone needs " + format_bytes(bytes) + ", more than the " +
                  limit->source + ", which is " + format_bytes(limit->bytes) + " (" +
                  std::to_string(limit->bytes) + " bytes)",
              "raise that limit, or use a model of fewer layers");
}

}  // namespace snug::run_model
