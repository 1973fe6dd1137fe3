// SPDX-License-Identifier: Apache-2.0
// In how many bits each state of an optimizer is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ops/optimizer/optimizer_codec.h"
#include "optim/optimizer.h"
#include "snug/config.h"

namespace snug::optim {

struct StateStorage {
  int64_t bits = 32;  // 32 or 8
  StateCodec codec = StateCodec::adaptive;
  std::vector<StateBits> overrides = {};  // the first that matches a name wins
};

/// From options as users give them: `codec` is "default" or "bnb". Throws Error{bad_config} at
/// "optim_bits", "optim_bits_overrides" or "optim_codec" for what cannot be.
[[nodiscard]] StateStorage make_storage(int64_t bits, const std::string& codec,
                                        std::vector<StateBits> overrides);
/// The word of `codec` in options and reports.
[[nodiscard]] const char* word_of(StateCodec codec);

/// What is left in 32 bits unless a rule says otherwise: states of fewer elements, which weigh
/// little, and those of tables of embeddings, whose rows are seldom seen (bitsandbytes' rules).
inline constexpr int64_t kFewestCodedElements = 4096;

/// The codec of the states of one parameter; nothing where they are f32.
[[nodiscard]] std::optional<StateCodec> codec_for(const StateStorage& storage,
                                                  const Options& options,
                                                  const std::string& parameter, const Shape& shape,
                                                  bool is_table);

/// Whether any state may be stored in 8 bits.
[[nodiscard]] bool has_codes(int64_t bits, std::span<const StateBits> overrides);

/// A weight that is trained.
struct StateOwner {
  std::string name;
  Shape shape;
  bool is_table = false;  // of embeddings
};

/// What would change nothing is refused. Throws Error{bad_config} at "optim_bits" where the
/// optimizer has no states of a weight's shape or none is stored in 8 bits, and at
/// "optim_bits_overrides" for a pattern that matches no weight of `owners`. `names`: of all
/// weights.
void check_storage(const StateStorage& storage, const Options& options,
                   const std::vector<std::string>& names, const std::vector<StateOwner>& owners);

}  // namespace snug::optim
