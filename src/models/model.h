// SPDX-License-Identifier: Apache-2.0
// What every model offers: the shape of a micro-batch and the values that the
// trainer feeds and reads, by one set of names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "graph/builder.h"

namespace snug::models {

/// B rows of T tokens; B images, whose size is the model's own.
struct BatchShape {
  int64_t micro_batch = 0;
  int64_t length = 0;
  bool operator==(const BatchShape&) const = default;
};

// Names of the fed values and of the outputs.
inline constexpr const char* kInputIds = "input_ids";           // i32(B, T)
inline constexpr const char* kTokenTypeIds = "token_type_ids";  // i32(B, T)
inline constexpr const char* kAttentionMask =
    "attention_mask";                                        // bool(B, T): tokens that are there
inline constexpr const char* kPixelValues = "pixel_values";  // f32(B, H, W, C), normalised
inline constexpr const char* kLabels = "labels";             // what the task says
inline constexpr const char* kLogits =
    "logits";  // f32(B, num_labels), of tokens (B, T, num_labels)

/// What a network has a result for.
enum class HeadKind : uint8_t { row, token };

/// What the last layer is for.
struct Head {
  HeadKind kind = HeadKind::row;
  std::string problem_type{};  // Hugging Face's word in config.json; empty: not said
  // problem_type follows from there being one label: true of trained weights only, since headless
  // bases have any number of labels. A config.json that is written says it, so heads are equal
  // however they came by it.
  bool is_implied = false;
  std::map<std::string, std::string> settings{};  // of its task, by key: Task::kept
  bool operator==(const Head& other) const {
    return std::tie(kind, problem_type, settings) ==
           std::tie(other.kind, other.problem_type, other.settings);
  }
};

/// How the tokens of a text become one vector. own: as the family's head does.
enum class Pooling : uint8_t { own, first, mean, max, attention };

/// What text_head.h puts between the layers of a text model and its logits.
struct TextHead {
  Pooling pooling = Pooling::own;
  int64_t pooling_layers = 1;        // of which the hidden states are read, the last ones
  int64_t multi_sample_dropout = 1;  // masks whose logits are averaged
  bool operator==(const TextHead&) const = default;
  /// Whether it is a head that the family does not have.
  [[nodiscard]] bool is_snugs() const { return pooling != Pooling::own || pooling_layers > 1; }
};
inline constexpr const char* kSnugTask = "snug_task";  // a field of config.json: Head::settings
inline constexpr const char* kSnugHead = "snug_head";  // its scope, and its field of config.json

/// Training adds dropout.
struct BuildOptions {
  bool training = true;
  int64_t micro_batches = 1;  // of an update; batch norm shares its momentum among them
};

/// The values of one built model; kNone where the model has no use for one (rng without dropout,
/// pixels for a text model). A family builds up to the logits; the task does the rest.
struct SequenceModel {
  ValueId input_ids = kNone;
  ValueId token_type_ids = kNone;
  ValueId attention_mask = kNone;
  ValueId pixel_values = kNone;
  ValueId labels = kNone;
  ValueId row_weights = kNone;
  ValueId inv_total = kNone;
  ValueId rng = kNone;
  ValueId logits = kNone;
  ValueId loss = kNone;
};

}  // namespace snug::models
