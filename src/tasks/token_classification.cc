// SPDX-License-Identifier: Apache-2.0
// One label a word, at the word's first token: softmax and its cross-entropy over tokens, spans in
// IOB2. B rows, T tokens, C labels.
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/check.h"
#include "ops/fed_names.h"
#include "ops/loss/loss.h"
#include "ops/shape/shape.h"
#include "snug/error.h"
#include "tasks/class_counts.h"
#include "tasks/task.h"

namespace snug::tasks {
namespace {

// Columns: each word's first token (-1: the word was cut off, or is no token at all), its label.
constexpr size_t kWords = data::kWordColumn;
constexpr size_t kLabels = 1;

void read_row(const data::Row& row, const data::EncodedRow& encoded, const std::string& where,
              std::span<data::ColumnDraft> columns) {
  columns[kWords].integers = encoded.words;
  if (!row.label) return;
  const data::RowLabel& label = *row.label;
  if (!label.is_list || (label.is_number && !label.items.empty())) {
    throw Error(ErrorCode::bad_data, where, "the label is no list of texts",
                R"(write a label for each word: "text": ["a", "word"], "label": ["O", "O"])");
  }
  if (label.items.size() != row.words.size()) {
    throw Error(ErrorCode::bad_data, where,
                std::to_string(label.items.size()) + " labels for " +
                    std::to_string(row.words.size()) + " words",
                "give every word one label, or set bad_rows to skip");
  }
  columns[kLabels].names = label.items;
}

double weight(const data::RowColumns& row) {
  const std::span<const int32_t> words = row.integers(kWords);
  return static_cast<double>(
      std::count_if(words.begin(), words.end(), [](int32_t token) { return token >= 0; }));
}

// labels i32(B, T), row_weights f32(B, T): 1 for the first token of a word, else 0.
void append_loss(GraphBuilder& builder, models::SequenceModel& model, const Settings& settings) {
  const Shape shape = builder.shape(model.logits);
  const int64_t tokens = element_count({DType::f32, shape}) / shape.back();
  const Shape fed(shape.begin(), shape.end() - 1);
  model.labels = builder.input(models::kLabels, {DType::i32, fed});
  model.row_weights = builder.input(kRowWeights, {DType::f32, fed});
  model.inv_total = builder.input(kInverseTotal, {DType::f32, {}});
  const ScopeGuard scope(builder, "loss");
  model.loss =
      softmax_cross_entropy(
          builder, reshape(builder, model.logits, {tokens, shape.back()}),
          reshape(builder, model.labels, {tokens}), reshape(builder, model.row_weights, {tokens}),
          model.inv_total,
          {.label_smoothing = settings.label_smoothing, .focal_gamma = settings.focal_gamma})
          .loss;
}

void feed(const data::RowColumns& row, const FedRow& fed) {
  const std::span<int32_t> labels(reinterpret_cast<int32_t*>(fed.labels.data()),
                                  fed.labels.size() / sizeof(int32_t));
  std::fill(labels.begin(), labels.end(), static_cast<int32_t>(kIgnoreIndex));
  std::fill(fed.weights.begin(), fed.weights.end(), 0.0F);
  const std::span<const int32_t> words = row.integers(kWords);
  for (size_t word = 0; word < words.size(); ++word) {
    if (words[word] < 0) continue;
    const auto token = static_cast<size_t>(words[word]);
    SNUG_CHECK(token < labels.size(), "a word behind the row's end");
    labels[token] = row.integers(kLabels)[word];
    fed.weights[token] = 1;
  }
}

std::span<const float> logits_of(std::span<const float> output, int32_t token, size_t labels) {
  return output.subspan(static_cast<size_t>(token) * labels, labels);
}

size_t argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double token_loss(std::span<const float> logits, size_t label) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<double>(z) - top);
  return top + std::log(sum) - static_cast<double>(logits[label]);
}

// ---- spans ----

/// "B-PER": where it stands in a span, and of which kind.
struct Tag {
  char place = 'O';  // B, I or O; anything else is no IOB2
  std::string kind{};
};

Tag tag_of(const std::string& label) {
  if (label == "O") return {};
  const bool is_tag =
      (label[0] == 'B' || label[0] == 'I') && (label.size() == 1 || label[1] == '-');
  if (!is_tag) return {.place = '?'};
  return {.place = label[0], .kind = label.substr(std::min<size_t>(2, label.size()))};
}

/// First and last word, and the kind by its first label.
using Span = std::tuple<size_t, size_t, size_t>;

/// As seqeval's mode='strict' with IOB2: a span begins with B and goes on with I of its kind; an I
/// that continues nothing is no span.
class Spans {
 public:
  explicit Spans(const std::vector<std::string>& labels) {
    for (const std::string& label : labels) {
      tags_.push_back(tag_of(label));
      is_scheme_ = is_scheme_ && tags_.back().place != '?';
      const auto same = [&](const std::string& kind) { return kind == tags_.back().kind; };
      const auto found = std::find_if(kinds_.begin(), kinds_.end(), same);
      kind_of_.push_back(static_cast<size_t>(found - kinds_.begin()));
      if (found == kinds_.end()) kinds_.push_back(tags_.back().kind);
    }
  }
  [[nodiscard]] bool is_scheme() const { return is_scheme_; }
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }

  [[nodiscard]] std::set<Span> of(const std::vector<size_t>& labels) const {
    std::set<Span> spans;
    for (size_t begin = 0; begin < labels.size();) {
      size_t end = begin + 1;
      if (tags_[labels[begin]].place == 'B') {
        const size_t kind = kind_of_[labels[begin]];
        while (end < labels.size() && tags_[labels[end]].place == 'I' &&
               kind_of_[labels[end]] == kind) {
          ++end;
        }
        spans.insert({begin, end, kind});
      }
      begin = end;
    }
    return spans;
  }

 private:
  std::vector<Tag> tags_;        // by label
  std::vector<size_t> kind_of_;  // by label
  std::vector<std::string> kinds_;
  bool is_scheme_ = true;
};

class TokenMeter final : public Meter {
 public:
  explicit TokenMeter(const Context& context)
      : labels_(context.labels.size()),
        spans_(context.labels),
        wanted_(spans_.kinds().size()),
        found_(spans_.kinds().size()),
        hits_(spans_.kinds().size()) {}

  void add(const data::RowColumns& row, std::span<const float> output) override {
    const std::span<const int32_t> words = row.integers(kWords);
    std::vector<size_t> wanted;
    std::vector<size_t> found;
    for (size_t word = 0; word < words.size(); ++word) {
      if (words[word] < 0) continue;
      const std::span<const float> logits = logits_of(output, words[word], labels_);
      wanted.push_back(static_cast<size_t>(row.integers(kLabels)[word]));
      found.push_back(argmax(logits));
      loss_sum_ += token_loss(logits, wanted.back());
      correct_ += wanted.back() == found.back() ? 1 : 0;
    }
    ++rows_;
    tokens_ += static_cast<int64_t>(wanted.size());
    if (!spans_.is_scheme()) return;
    const std::set<Span> of_labels = spans_.of(wanted);
    for (const Span& span : of_labels) ++wanted_[std::get<2>(span)];
    for (const Span& span : spans_.of(found)) {
      ++found_[std::get<2>(span)];
      hits_[std::get<2>(span)] += of_labels.count(span) != 0 ? 1 : 0;
    }
  }

  [[nodiscard]] EvalMetrics result() const override {
    EvalMetrics out{.rows = rows_, .loss = 0, .values = {}, .classes = {}};
    int64_t wanted = 0;
    int64_t found = 0;
    int64_t hits = 0;
    for (size_t kind = 0; kind < wanted_.size() && spans_.is_scheme(); ++kind) {
      wanted += wanted_[kind];
      found += found_[kind];
      hits += hits_[kind];
      if (wanted_[kind] + found_[kind] == 0) continue;
      out.classes.push_back({.label = spans_.kinds()[kind],
                             .rows = wanted_[kind],
                             .precision = ratio(hits_[kind], found_[kind]),
                             .recall = ratio(hits_[kind], wanted_[kind]),
                             .f1 = ratio(2 * hits_[kind], wanted_[kind] + found_[kind])});
    }
    const auto of_spans = [&](double value) { return spans_.is_scheme() ? value : kUndefined; };
    const double precision = of_spans(ratio(hits, found));
    const double recall = of_spans(ratio(hits, wanted));
    const double f1 = of_spans(ratio(2 * hits, wanted + found));
    const double accuracy = mean_of(static_cast<double>(correct_), tokens_);
    if (tokens_ > 0) out.loss = loss_sum_ / static_cast<double>(tokens_);
    out.values = {{"precision", precision, number_text("precision", precision)},
                  {"recall", recall, number_text("recall", recall)},
                  {"f1", f1, number_text("F1", f1)},
                  {"accuracy", accuracy, percent_text("accuracy", accuracy)}};
    return out;
  }

 private:
  size_t labels_;
  Spans spans_;
  int64_t rows_ = 0;
  int64_t tokens_ = 0;
  int64_t correct_ = 0;
  double loss_sum_ = 0;
  std::vector<int64_t> wanted_;  // by kind of span
  std::vector<int64_t> found_;
  std::vector<int64_t> hits_;
};

void predict(const Context& context, const data::RowColumns& row, std::span<const float> output,
             Prediction& out) {
  out.labels.emplace();
  for (const int32_t token : row.integers(kWords)) {
    if (token < 0) {
      out.labels->emplace_back(std::nullopt);
    } else {
      const auto logits = logits_of(output, token, context.labels.size());
      out.labels->emplace_back(context.labels[argmax(logits)]);
    }
  }
}

}  // namespace

const Task& token_classification_task() {
  static const Task task = {
      .name = "token_classification",
      .inputs = std::vector{models::InputKind::text},
      .head = models::Head{.kind = models::HeadKind::token, .problem_type = ""},
      .keys = std::vector<std::string>{"label_smoothing_factor", "class_weights", "focal_gamma",
                                       "label_order"},
      .kept = std::vector<std::string>{},
      .least_labels = int64_t{2},
      .rows = data::RowForm{.name = "labels of words",
                            .has_words = true,
                            .columns = {{.name = "word",
                                         .form = data::ColumnForm::ragged,
                                         .type = data::ColumnType::integer,
                                         .is_of_label = false},
                                        {.name = "label", .form = data::ColumnForm::ragged}},
                            .read = read_row},
      .fits =
          [](const data::LabelSurvey& labels) {
            return labels.lists_of_text + labels.lists_of_numbers > 0 && labels.lists_of_words > 0;
          },
      .weight = weight,
      .append_loss = append_loss,
      .feed = feed,
      .metrics =
          std::vector<Metric>{
              {.name = "precision"}, {.name = "recall"}, {.name = "f1"}, {.name = "accuracy"}},
      .meter = [](const Context& context, int64_t) -> std::unique_ptr<Meter> {
        return std::make_unique<TokenMeter>(context);
      },
      .bytes_of_rows = [](const Settings&, int64_t, int64_t) { return int64_t{0}; },
      .predict = predict,
      .predicted = "labels"};
  return task;
}

}  // namespace snug::tasks
