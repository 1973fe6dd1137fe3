// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_optimizers.h"

#include <algorithm>

namespace snug::config {
namespace {

constexpr std::string_view kOwnCodec = "Snug's own codes of 8 bits; optim_codec: bnb is the other";
constexpr std::string_view kBnbCodec = "bitsandbytes' map";
constexpr std::string_view kPaged = "states lie in the memory that is planned, none is paged";
constexpr std::string_view kPagedOwnCodec =
    "Snug's own codes of 8 bits (optim_codec: bnb is the other), none is paged";
constexpr std::string_view kRank =
    "give lora (docs/lora.md), or adafactor, whose states are as small";
constexpr std::string_view kFree = "give adamw or sgd with an lr_scheduler_type";
constexpr std::string_view kAdemamix = "give adamw, or lion, which has one state";
constexpr std::string_view kLomo = "give sgd, which keeps no states";

constexpr ForeignOptimizer kOptimizerNames[] = {
    {.name = "adamw_torch_xla", .optim = "adamw"},
    {.name = "adamw_torch_npu_fused", .optim = "adamw"},
    {.name = "adamw_apex_fused", .optim = "adamw"},
    {.name = "adamw_anyprecision", .optim = "adamw", .note = "states in float32, its default"},
    {.name = "adamw_torch_8bit", .optim = "adamw", .bits = 8, .note = kOwnCodec},
    {.name = "adamw_8bit", .optim = "adamw", .bits = 8, .note = kOwnCodec},
    {.name = "adamw_bnb_8bit", .optim = "adamw", .bits = 8, .is_bnb = true, .note = kBnbCodec},
    {.name = "paged_adamw", .optim = "adamw", .note = kPaged},
    {.name = "paged_adamw_32bit", .optim = "adamw", .note = kPaged},
    {.name = "paged_adamw_8bit", .optim = "adamw", .bits = 8, .note = kPagedOwnCodec},
    {.name = "lion_32bit", .optim = "lion"},
    {.name = "lion_8bit", .optim = "lion", .bits = 8, .note = kOwnCodec},
    {.name = "paged_lion_32bit", .optim = "lion", .note = kPaged},
    {.name = "paged_lion_8bit", .optim = "lion", .bits = 8, .note = kPagedOwnCodec},
    {.name = "rmsprop_bnb", .optim = "rmsprop"},
    {.name = "rmsprop_bnb_32bit", .optim = "rmsprop"},
    {.name = "rmsprop_bnb_8bit", .optim = "rmsprop", .bits = 8, .is_bnb = true, .note = kBnbCodec},
    {.name = "adamw_torch_4bit", .note = "give adamw_8bit: states have 8 bits or 32"},
    {.name = "ademamix", .note = kAdemamix},
    {.name = "ademamix_8bit", .note = kAdemamix},
    {.name = "paged_ademamix_32bit", .note = kAdemamix},
    {.name = "paged_ademamix_8bit", .note = kAdemamix},
    {.name = "galore_adamw", .note = kRank},
    {.name = "galore_adamw_8bit", .note = kRank},
    {.name = "galore_adafactor", .note = kRank},
    {.name = "galore_adamw_layerwise", .note = kRank},
    {.name = "galore_adamw_8bit_layerwise", .note = kRank},
    {.name = "galore_adafactor_layerwise", .note = kRank},
    {.name = "apollo_adamw", .note = kRank},
    {.name = "apollo_adamw_layerwise", .note = kRank},
    {.name = "lomo", .note = kLomo},
    {.name = "adalomo", .note = "give adafactor, whose states are as small"},
    {.name = "grokadamw", .note = "give adamw"},
    {.name = "stable_adamw", .note = "give adamw with max_grad_norm, or lamb"},
    {.name = "schedule_free_radam", .note = kFree},
    {.name = "schedule_free_adamw", .note = kFree},
    {.name = "schedule_free_sgd", .note = kFree},
};

}  // namespace

std::span<const ForeignOptimizer> foreign_optimizers() { return kOptimizerNames; }

const ForeignOptimizer* find_foreign_optimizer(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kOptimizerNames), std::end(kOptimizerNames),
                                         [&](const auto& row) { return row.name == name; });
  return found == std::end(kOptimizerNames) ? nullptr : found;
}

}  // namespace snug::config
