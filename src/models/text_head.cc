// SPDX-License-Identifier: Apache-2.0
#include "models/text_head.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/config_reader.h"
#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "ops/token_pool/token_pool.h"
#include "snug/error.h"

namespace snug::models {
namespace {

constexpr int64_t kMaxSamples = 64;
constexpr int64_t kMaxLayers = 1 << 10;

// By Pooling; the first is no word of a config.json.
constexpr std::array<std::string_view, 5> kPoolings = {"auto", "first", "mean", "max", "attention"};

Pooling pooling_of(std::string_view word) {
  return static_cast<Pooling>(std::find(kPoolings.begin(), kPoolings.end(), word) -
                              kPoolings.begin());
}

// x (B, T, W) -> (B, W): the tokens weighed by their scores. H: the model's own width.
ValueId pool_by_attention(GraphBuilder& b, ValueId x, ValueId mask, int64_t hidden) {
  const ScopeGuard scope(b, "attention");
  const Shape shape = b.shape(x);
  const ValueId inner = tanh(b, nn::linear(b, "dense", x, hidden));
  // No bias: the softmax does not see what all tokens have in common.
  const ValueId v = b.parameter(nn::scoped(b, "score.weight"), {DType::f32, {1, hidden}});
  const ValueId scores =
      reshape(b, matmul(b, inner, v, {.transpose_b = true}), {shape[0], shape[1]});
  const ValueId weights = reshape(b, masked_softmax(b, scores, mask), {shape[0], 1, shape[1]});
  return reshape(b, matmul(b, weights, x), {shape[0], shape[2]});
}

ValueId pool(GraphBuilder& b, Pooling pooling, ValueId x, ValueId mask, int64_t hidden) {
  const Shape shape = b.shape(x);
  switch (pooling) {
    case Pooling::mean:
      return masked_mean(b, x, mask);
    case Pooling::max:
      return masked_max(b, x, mask);
    case Pooling::attention:
      return pool_by_attention(b, x, mask, hidden);
    case Pooling::first:
    case Pooling::own:
      break;
  }
  return reshape(b, slice(b, x, 1, 0, 1), {shape[0], shape[2]});
}

// The mean of x under `samples` masks.
ValueId drop(GraphBuilder& b, ValueId x, ValueId rng, double rate, int64_t samples) {
  if (samples == 1 || rng == kNone) return nn::dropout(b, x, rng, rate);
  ValueId sum = kNone;
  for (int64_t i = 0; i < samples; ++i) {
    const ValueId each = nn::dropout(b, x, rng, rate);
    sum = sum == kNone ? each : add(b, sum, each);
  }
  return scale(b, sum, 1.0 / static_cast<double>(samples));
}

}  // namespace

ValueId text_head(GraphBuilder& b, const TextHeadGraph& graph) {
  const TextHead& head = graph.head;
  const auto classify = [&](ValueId x, const std::string& name) {
    x = drop(b, x, graph.rng, graph.dropout, head.multi_sample_dropout);
    return nn::linear(b, name, x, graph.num_labels);
  };
  if (!head.is_snugs()) return classify(graph.own(graph.layers.back()), graph.classifier);
  const ScopeGuard scope(b, kSnugHead);
  const std::span<const ValueId> last = graph.layers.last(static_cast<size_t>(head.pooling_layers));
  const int64_t hidden = b.shape(last.back()).back();
  // The first token alone is taken before anything is put side by side.
  std::vector<ValueId> parts(last.begin(), last.end());
  const bool is_first = graph.kind == HeadKind::row && head.pooling == Pooling::first;
  if (is_first) {
    for (ValueId& part : parts) part = pool(b, Pooling::first, part, kNone, hidden);
  }
  ValueId x = parts.size() == 1 ? parts.front() : concat(b, parts, -1);
  if (graph.kind == HeadKind::row && !is_first)
    x = pool(b, head.pooling, x, graph.attention_mask, hidden);
  return classify(x, "classifier");
}

void read_text_head(ConfigReader& reader, TextHead& text_head, Head& head) {
  const auto field = reader.find(kSnugHead);
  if (!field) return;
  for (const std::string& key : field->keys()) {
    const io::JsonValue value = *field->find_or_null(key);
    if (key == "pooling") {
      const Pooling pooling = pooling_of(value.as_string());
      if (pooling == Pooling::own || pooling > Pooling::attention)
        value.fail("is \"" + value.as_string() + "\", which is not supported",
                   "first, mean, max or attention");
      text_head.pooling = pooling;
    } else if (key == "pooling_layers") {
      text_head.pooling_layers = value.as_int(1, kMaxLayers);
    } else if (key == "multi_sample_dropout") {
      text_head.multi_sample_dropout = value.as_int(1, kMaxSamples);
    } else if (key == "of_tokens") {
      if (value.as_bool()) head = {.kind = HeadKind::token};
    } else {
      value.fail("is a part of a head that this version does not know");
    }
  }
}

void append_text_head(nlohmann::ordered_json& json, const TextHead& text_head, const Head& head,
                      std::string_view body) {
  if (text_head == TextHead()) return;
  nlohmann::ordered_json& own = json[kSnugHead];
  own = nlohmann::ordered_json::object();
  if (text_head.pooling != Pooling::own) own["pooling"] = pooling_name(text_head.pooling);
  if (text_head.pooling_layers > 1) own["pooling_layers"] = text_head.pooling_layers;
  if (text_head.multi_sample_dropout > 1)
    own["multi_sample_dropout"] = text_head.multi_sample_dropout;
  if (!text_head.is_snugs()) return;
  if (head.kind == HeadKind::token) own["of_tokens"] = true;
  json["architectures"] = {body};
}

void check_text_head(const TextHead& text_head, HeadKind kind, int64_t layers, double dropout) {
  const auto refuse = [](const char* key, const std::string& message, const std::string& hint) {
    throw Error(ErrorCode::bad_config, key, message, hint);
  };
  const std::string count = std::to_string(text_head.pooling_layers);
  if (kind == HeadKind::token && text_head.pooling != Pooling::own) {
    refuse("pooling", "the head has a result for every token: there is nothing to pool",
           "omit pooling; pooling_layers works for tokens, too");
  }
  if (text_head.pooling_layers > layers) {
    refuse("pooling_layers",
           count + " layers are more than the model has (" + std::to_string(layers) + ")",
           "give at most " + std::to_string(layers));
  }
  if (kind == HeadKind::row && text_head.pooling_layers > 1 && text_head.pooling == Pooling::own) {
    refuse("pooling_layers", "the model's own head reads its last layer, not " + count,
           "set pooling, too: first, mean, max or attention");
  }
  if (text_head.multi_sample_dropout > 1 && dropout == 0) {
    refuse("multi_sample_dropout",
           "the dropout before the classifier is 0: all masks would be the same",
           "omit multi_sample_dropout, or set hidden_dropout_prob");
  }
}

std::string_view pooling_name(Pooling pooling) { return kPoolings[static_cast<size_t>(pooling)]; }

std::vector<ModelKey> with_text_head_keys(std::vector<ModelKey> keys) {
  for (const char* name : {"pooling", "pooling_layers", "multi_sample_dropout"})
    keys.push_back({name, ""});
  return keys;
}

void take_text_head_keys(const RunConfig& run, TextHead& text_head) {
  if (run.pooling != kPoolings[0]) text_head.pooling = pooling_of(run.pooling);
  if (run.pooling_layers > 0) text_head.pooling_layers = run.pooling_layers;
  if (run.multi_sample_dropout > 0) text_head.multi_sample_dropout = run.multi_sample_dropout;
}

}  // namespace snug::models
