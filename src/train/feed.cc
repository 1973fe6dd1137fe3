// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/listed.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "data/label_map.h"
#include "models/model.h"
#include "ops/fed_names.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr int64_t kStopRows = 4096;

/// Calls take(label, weight) for the labels of a row that count.
template <class Take>
void for_labels(const tasks::FedRow& fed, const Take& take) {
  const auto* labels = reinterpret_cast<const int32_t*>(fed.labels.data());
  for (size_t i = 0; i < fed.weights.size(); ++i) {
    if (fed.weights[i] != 0) take(static_cast<size_t>(labels[i]), fed.weights[i]);
  }
}

}  // namespace

RowLabels::RowLabels(const FeedContext& context) {
  const bool is_of_tokens = context.task->head->kind == models::HeadKind::token;
  const auto most = static_cast<size_t>(is_of_tokens ? context.longest : 1);
  ids.resize(most);
  weights.resize(most);
}

BatchRows::BatchRows(const FeedContext& context)
    : context_(context),
      row_weight_(context.rows->find_column(data::kWeightColumn)),
      labels_(context) {
  row_.reserve(context.rows->most_values());
}

// What the task feeds, times the weights of its labels and of the row.
void BatchRows::feed_row(int64_t row, const tasks::FedRow& fed) const {
  context_.rows->read_columns(row, row_);
  (*context_.task->feed)(row_, fed);
  if (!context_.class_weights.empty()) {
    for_labels(fed, [&](size_t label, float& weight) {
      weight = static_cast<float>(weight * context_.class_weights[label]);
    });
  }
  if (!row_weight_) return;
  for (float& weight : fed.weights) weight *= row_.reals(*row_weight_).front();
}

void BatchRows::add_weight(const tasks::FedRow& fed, double& sum) const {
  if (context_.class_weights.empty()) {
    sum += (*context_.task->weight)(row_) *
           (row_weight_ ? static_cast<double>(row_.reals(*row_weight_).front()) : 1.0);
    return;
  }
  for (const float each : fed.weights) sum += each;
}

double BatchRows::fill_weighed(std::span<const RowSlot> slots) const {
  if (slots.empty()) return 0;
  data::BatchBuffers buffers;
  std::span<std::byte> labels;
  std::span<float> weights;
  for (const RowSlot& slot : slots) {
    if (slot.input == models::kInputIds) buffers.input_ids = slot.values<int32_t>();
    if (slot.input == models::kTokenTypeIds) buffers.token_type_ids = slot.values<int32_t>();
    if (slot.input == models::kAttentionMask) buffers.attention_mask = slot.values<uint8_t>();
    if (slot.input == models::kPixelValues) buffers.pixel_values = slot.values<float>();
    if (slot.input == models::kLabels) labels = slot.bytes;
    if (slot.input == kRowWeights) weights = slot.values<float>();
  }
  const auto first = static_cast<size_t>(slots.front().first_row);
  const auto rows = static_cast<size_t>(slots.front().rows);
  context_.rows->fill({.rows = batch_.rows,
                       .first_slot = slots.front().first_row,
                       .size = slots.front().rows,
                       .bucket_length = batch_.bucket_length,
                       .pad_id = context_.pad_id},
                      buffers);
  double weight = 0;
  if (labels.empty() || weights.empty()) return weight;  // evaluation is fed neither
  const size_t label_bytes = labels.size() / rows;
  const size_t row_weights = weights.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    const tasks::FedRow fed{.labels = labels.subspan(i * label_bytes, label_bytes),
                            .weights = weights.subspan(i * row_weights, row_weights)};
    feed_row(batch_.rows[first + i], fed);
    add_weight(fed, weight);
  }
  return weight;
}

bool BatchRows::is_weighed_by(const std::string& input) {
  return input == kRowWeights || input == models::kLabels;
}

std::optional<double> BatchRows::total_weight(const std::string& input) const {
  if (!is_weighed_by(input)) return std::nullopt;
  double weight = 0;
  for (const int64_t row : batch_.rows) {
    if (context_.class_weights.empty())
      context_.rows->read_columns(row, row_);
    else
      feed_row(row, labels_.fed());
    add_weight(labels_.fed(), weight);
  }
  return weight;
}

namespace {

[[noreturn]] void refuse_weights(const std::string& message, const std::string& hint) {
  throw Error(ErrorCode::bad_config, "class_weights", message, hint);
}

// The weight that NUMBER or LABEL=NUMBER says.
double weight_of(const std::string& entry) {
  const std::string text = entry.substr(entry.rfind('=') + 1);  // of none: all of it
  const double value = number_in<double>(text).value_or(-1);
  if (!(value >= 0) || !std::isfinite(static_cast<float>(value)))
    refuse_weights("'" + text + "' is no weight", "give numbers of at least 0");
  return value;
}

const std::vector<std::string> kBalanced = {"balanced"};

std::vector<double> listed_weights(const std::vector<std::string>& given,
                                   const std::vector<std::string>& of_model) {
  const std::vector<std::string> labels = data::told_apart(of_model);
  if (given.size() != labels.size()) {
    refuse_weights(
        std::to_string(given.size()) + " weights for " + std::to_string(labels.size()) + " labels",
        "give balanced, LABEL=NUMBER for each label, or one number for each in the order of their "
        "ids: " +
            data::list_labels(labels));
  }
  std::vector<double> weights(labels.size(), -1);
  const bool has_names = given.front().find('=') != std::string::npos;
  const data::Labels known = data::Labels::from_names(labels);
  const data::NumericNames numbers(labels);
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t equals = given[i].rfind('=');
    if ((equals != std::string::npos) != has_names)
      refuse_weights("'" + given[i] + "' is of another form than the first",
                     "give numbers alone, or LABEL=NUMBER for each label");
    size_t label = i;
    if (has_names) {
      const auto found = data::find_class(known, numbers, given[i].substr(0, equals));
      if (!found)
        refuse_weights("there is no label '" + given[i].substr(0, equals) + "'",
                       "the labels are " + data::list_labels(labels));
      label = static_cast<size_t>(*found);
    }
    if (weights[label] >= 0) refuse_weights("'" + given[i] + "' is given twice", "give it once");
    weights[label] = weight_of(given[i]);
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; }))
    refuse_weights("all weights are 0", "give one of them above 0");
  return weights;
}

}  // namespace

void check_class_weights(const RunConfig& config) {
  if (config.class_weights == kBalanced) return;
  for (const std::string& entry : config.class_weights) (void)weight_of(entry);
}

void check_class_weights(const RunConfig& config, const std::vector<std::string>& labels) {
  if (!config.class_weights.empty() && config.class_weights != kBalanced)
    (void)listed_weights(config.class_weights, labels);
}

std::vector<double> class_weights_of(const RunConfig& config, const FeedContext& context,
                                     const data::Subset& part,
                                     const std::vector<std::string>& labels) {
  if (config.class_weights.empty()) return {};
  if (config.class_weights != kBalanced) return listed_weights(config.class_weights, labels);
  RowLabels row(context);
  std::vector<double> counts(labels.size(), 0.0);
  double total = 0;
  data::RowColumns columns;
  columns.reserve(context.rows->most_values());
  for (int64_t i = 0; i < part.size(); ++i) {
    if (i % kStopRows == 0) stop_point();
    context.rows->read_columns(part.row(i), columns);
    const tasks::FedRow fed = row.fed();
    (*context.task->feed)(columns, fed);
    for_labels(fed, [&](size_t label, float&) { counts[label] += 1, total += 1; });
  }
  for (double& count : counts)
    count = count == 0 ? 0 : total / (static_cast<double>(labels.size()) * count);
  return counts;
}

void refuse_weightless_rows(const FeedContext& context, const data::Subset& part,
                            const std::string& column) {
  const std::optional<size_t> weight = context.rows->find_column(data::kWeightColumn);
  if (!weight) return;
  data::RowColumns columns;
  columns.reserve(context.rows->most_values());
  for (int64_t i = 0; i < part.size(); ++i) {
    if (i % kStopRows == 0) stop_point();
    context.rows->read_columns(part.row(i), columns);
    if (columns.reals(*weight).front() > 0) return;
  }
  throw Error(ErrorCode::bad_data, column, "every row to train on weighs 0",
              "give one of them a weight above 0, or omit weight_column");
}

std::string class_weight_notice(const std::vector<double>& weights,
                                const std::vector<std::string>& labels) {
  std::vector<std::string> entries;
  for (size_t i = 0; i < weights.size(); ++i)
    entries.push_back(labels[i] + " " + fmt::format("{:.4g}", weights[i]));
  return entries.empty() ? "" : "the classes weigh " + joined(entries, kListed);
}

}  // namespace snug::train
