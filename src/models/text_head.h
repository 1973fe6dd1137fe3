// SPDX-License-Identifier: Apache-2.0
// How every family of texts ends its graph: hidden states of the layers -> pooling -> dropout ->
// classifier. A family gives what is its own; the keys pooling, pooling_layers and
// multi_sample_dropout are the same for all.
//
// To take part a family (1) derives from TransformerFamily (text_family.h), which has the keys and
// the traits; (2) holds a TextHead in its configuration, reads it with read_text_head, writes it
// with append_text_head (last: it may change `architectures`) and checks it with check_text_head;
// (3) ends its graph with text_head().
//
// Where pooling or more than one layer is asked for, the head is Snug's own, whatever the family's
// is (its pooler and classifier are not built): its weights are called "snug_head.", and
// config.json says it in the field snug_head, which no other program reads.
//   x = the last `pooling_layers` hidden states side by side, the lowest first     (B, T, k H)
//   first: x of token 0. mean, max: over the tokens that are there. attention: sum of a_t x_t with
//   a = softmax over the tokens that are there of v . tanh(W x_t + b), W (H, k H), v (H).
//   logits = classifier(dropout(pooled)); of tokens classifier(dropout(x)).
// multi_sample_dropout n, of any head: the logits are the mean of those of n dropout masks, and the
// loss is that of the mean. The classifier is affine, so it is computed once, of the mean of the
// masked vectors, which is the same number.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/family.h"

namespace snug::models {

class ConfigReader;

struct TextHeadGraph {
  const TextHead& head;
  HeadKind kind = HeadKind::row;
  int64_t num_labels = 0;
  std::span<const ValueId> layers;  // (B, T, H) behind each layer, the first layer's first
  ValueId attention_mask = kNone;   // bool(B, T)
  ValueId rng = kNone;              // kNone: no dropout (evaluation)
  double dropout = 0;               // of what the classifier reads
  /// The family's own head up to that dropout: from the last hidden state (B, T, H) to (B, width),
  /// of tokens (B, T, width). Not called where the head is Snug's.
  std::function<ValueId(ValueId last)> own{};
  std::string classifier = "classifier";  // the family's own name of the last layer, with its scope
};
/// Returns the logits: (B, num_labels), of tokens (B, T, num_labels).
[[nodiscard]] ValueId text_head(GraphBuilder& builder, const TextHeadGraph& graph);

/// What a config.json says: of `kind` where `architectures` cannot.
void read_text_head(ConfigReader& reader, TextHead& text_head, Head& head);
/// Adds snug_head where it says anything. `body` is transformers' class without a head
/// ("BertModel"), which `architectures` names where the head is Snug's.
void append_text_head(nlohmann::ordered_json& json, const TextHead& text_head, const Head& head,
                      std::string_view body);
/// Throws Error{bad_config}: at the key's name for what cannot be, whether a key or a config.json
/// asked for it. `dropout` as in TextHeadGraph.
void check_text_head(const TextHead& text_head, HeadKind kind, int64_t layers, double dropout);
/// "first", "mean", ...; of Pooling::own "auto".
[[nodiscard]] std::string_view pooling_name(Pooling pooling);
/// A family's keys and those of the head.
[[nodiscard]] std::vector<ModelKey> with_text_head_keys(std::vector<ModelKey> keys);
void take_text_head_keys(const RunConfig& run, TextHead& text_head);

}  // namespace snug::models
