// SPDX-License-Identifier: Apache-2.0
// One label a word, at the word's first token: softmax and its cross-entropy over tokens, spans
// (spans.h). B rows, T tokens, C labels.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/printable.h"
#include "ops/loss/loss.h"
#include "ops/shape/shape.h"
#include "snug/error.h"
#include "tasks/class_counts.h"
#include "tasks/spans.h"
#include "tasks/task.h"

namespace snug::tasks {
namespace {

// Columns: each word's first token (-1: the word was cut off, or is no token at all), its label.
constexpr size_t kWords = data::kWordColumn;
constexpr size_t kLabels = 1;

// Numbers are ids of labels (their places in label_order), or what they are called where nothing
// says more; a word of -100 has none, as in the field's data sets, and is left out like one that
// was cut off. Its label is another word's, so that every word of the row has one.
void take_numbers(const data::RowLabel& label, const std::string& where,
                  std::span<data::ColumnDraft> columns) {
  const std::string ignored = std::to_string(kIgnoreIndex);
  columns[kLabels].names_are_ids = true;
  const auto first = std::find_if(label.items.begin(), label.items.end(),
                                  [&](const std::string& item) { return item != ignored; });
  if (first == label.items.end()) {
    columns[kWords].integers.clear();
    return;
  }
  for (size_t word = 0; word < label.items.size(); ++word) {
    const std::string& item = label.items[word];
    const bool is_ignored = item == ignored;
    if (is_ignored) columns[kWords].integers[word] = -1;
    if (!is_ignored && (label.has_fraction || item.starts_with('-')))
      throw Error(ErrorCode::bad_data, where, "the label " + item + " of a word is no id",
                  "give whole numbers from 0, and -100 for words without a label");
    columns[kLabels].names.push_back(is_ignored ? *first : item);
  }
}

void read_row(const data::Row& row, const data::EncodedRow& encoded, const std::string& where,
              std::span<data::ColumnDraft> columns) {
  columns[kWords].integers = encoded.words;
  if (!row.label) return;
  const data::RowLabel& label = *row.label;
  if (!label.is_list) {
    throw Error(ErrorCode::bad_data, where, "the label is no list of texts or numbers",
                R"(write a label for each word: "text": ["a", "word"], "label": ["O", "O"])");
  }
  if (label.items.size() != row.words.size()) {
    throw Error(ErrorCode::bad_data, where,
                std::to_string(label.items.size()) + " labels for " +
                    std::to_string(row.words.size()) + " words",
                "give every word one label, or set bad_rows to skip");
  }
  if (label.is_number) {
    take_numbers(label, where, columns);
  } else {
    columns[kLabels].names = label.items;
  }
}

double weight(const data::RowColumns& row) {
  const std::span<const int32_t> words = row.integers(kWords);
  return static_cast<double>(
      std::count_if(words.begin(), words.end(), [](int32_t token) { return token >= 0; }));
}

// labels i32(B, T), row_weights f32(B, T): 1 for the first token of a word, else 0.
void append_loss(GraphBuilder& builder, models::SequenceModel& model,
                 const TaskSettings& settings) {
  const Shape shape = builder.shape(model.logits);
  const int64_t tokens = element_count({DType::f32, shape}) / shape.back();
  const Shape fed(shape.begin(), shape.end() - 1);
  declare_labels(builder, model, {DType::i32, fed}, fed);
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

/// What a scheme counts of all rows, by kind of span.
struct SpanCounts {
  SpanScheme scheme;
  ClassCounts counts;
};

// Where the letters leave two schemes, both count until the rows have decided.
class TokenMeter final : public Meter {
 public:
  explicit TokenMeter(const Context& context)
      : labels_(context.labels.size()), spans_(context.labels) {
    given_ = find_span_scheme(context.settings.span_scheme);
    if (given_ && !spans_.misfit(given_).empty()) {
      throw Error(ErrorCode::bad_config, "span_scheme",
                  "the label '" + printable(spans_.misfit(given_)) + "' is not of " +
                      std::string(to_string(*given_)),
                  "omit span_scheme: the labels say their scheme");
    }
    for (const SpanScheme scheme : given_ ? std::vector{*given_} : spans_.schemes())
      counts_.push_back({scheme, ClassCounts(spans_.kinds().size())});
  }

  void add(const data::RowColumns& row, std::span<const float> output) override {
    const std::span<const int32_t> words = row.integers(kWords);
    std::vector<size_t> wanted;
    std::vector<size_t> found;
    std::vector<std::optional<size_t>> read;  // words that were cut off, too
    for (size_t word = 0; word < words.size(); ++word) {
      read.emplace_back();
      if (words[word] < 0) continue;
      const std::span<const float> logits = logits_of(output, words[word], labels_);
      wanted.push_back(static_cast<size_t>(row.integers(kLabels)[word]));
      read.back() = wanted.back();
      found.push_back(argmax(logits));
      loss_sum_ += token_loss(logits, wanted.back());
      correct_ += wanted.back() == found.back() ? 1 : 0;
    }
    ++rows_;
    tokens_ += static_cast<int64_t>(wanted.size());
    if (counts_.size() > 1) evidence_.add(spans_, read);
    for (SpanCounts& each : counts_) count(wanted, found, each);
  }

  [[nodiscard]] EvalMetrics result() const override {
    EvalMetrics out{.rows = rows_, .loss = 0, .values = {}, .classes = {}};
    const SpanCounts* spans = chosen();
    int64_t wanted = 0;
    int64_t found = 0;
    int64_t hits = 0;
    for (size_t kind = 0; kind < spans_.kinds().size() && spans != nullptr; ++kind) {
      const ClassCounts& counts = spans->counts;
      wanted += counts.wanted[kind];
      found += counts.found[kind];
      hits += counts.hits[kind];
      if (counts.wanted[kind] + counts.found[kind] > 0)
        out.classes.push_back(counts.score(kind, spans_.kinds()[kind]));
    }
    const auto of_spans = [&](double value) { return spans != nullptr ? value : kUndefined; };
    const double precision = of_spans(ratio(hits, found));
    const double recall = of_spans(ratio(hits, wanted));
    const double f1 = of_spans(ratio(2 * hits, wanted + found));
    const double accuracy = mean_of(static_cast<double>(correct_), tokens_);
    if (tokens_ > 0) out.loss = loss_sum_ / static_cast<double>(tokens_);
    out.values = {{"precision", precision, number_text("precision", precision)},
                  {"recall", recall, number_text("recall", recall)},
                  {"f1", f1, number_text("F1", f1)},
                  {"accuracy", accuracy, percent_text("accuracy", accuracy)}};
    if (spans != nullptr) out.words = {{"span_scheme", std::string(to_string(spans->scheme))}};
    out.notes = {note(spans)};
    out.warnings = misfits();
    return out;
  }

 private:
  void count(std::span<const size_t> wanted, std::span<const size_t> found,
             SpanCounts& into) const {
    const std::set<Span> of_labels = spans_.spans(into.scheme, wanted);
    for (const Span& span : of_labels) ++into.counts.wanted[std::get<2>(span)];
    for (const Span& span : spans_.spans(into.scheme, found)) {
      ++into.counts.found[std::get<2>(span)];
      into.counts.hits[std::get<2>(span)] += of_labels.count(span) != 0 ? 1 : 0;
    }
  }

  /// Null where the labels are of no scheme.
  [[nodiscard]] const SpanCounts* chosen() const {
    if (counts_.empty()) return nullptr;
    if (counts_.size() == 1) return &counts_.front();
    const auto found = std::find_if(counts_.begin(), counts_.end(), [&](const SpanCounts& each) {
      return each.scheme == evidence_.scheme();
    });
    return &*found;
  }

  [[nodiscard]] std::string note(const SpanCounts* spans) const {
    if (spans == nullptr) {
      const std::string other = spans_.misfit();
      return "precision, recall and F1 are undefined: the labels are of no scheme of spans (IOB1, "
             "IOB2, BIOES, BILOU)" +
             (other.empty() ? std::string() : ", such as '" + other + "'");
    }
    const std::string scheme(to_string(spans->scheme));
    return "spans are read as " + scheme + " (span_scheme: " + (given_ ? scheme : "auto") + ")";
  }

  // Warns of rows that are neither IOB1 nor IOB2, where nothing says which.
  [[nodiscard]] std::vector<Warning> misfits() const {
    const int64_t stray = counts_.size() > 1 ? evidence_.stray() : 0;
    if (stray == 0) return {};
    const int64_t spans = evidence_.openings();
    return {{.code = "span_scheme",
             .text = "the labels are neither IOB1 nor IOB2: " + std::to_string(stray) + " of " +
                     std::to_string(spans) +
                     " spans begin with I-, which IOB2 does not count, the others with B- (correct "
                     "the labels, or give span_scheme: IOB1 where the B- are the mistakes)",
             .count = stray,
             .share = static_cast<double>(stray) / static_cast<double>(spans)}};
  }

  size_t labels_;
  SpanLabels spans_;
  std::optional<SpanScheme> given_;
  std::vector<SpanCounts> counts_;
  SchemeEvidence evidence_;
  int64_t rows_ = 0;
  int64_t tokens_ = 0;
  int64_t correct_ = 0;
  double loss_sum_ = 0;
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
                                       "span_scheme", "label_order"},
      .kept = std::vector<std::string>{"span_scheme"},
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
      .bytes_of_rows = [](const TaskSettings&, int64_t, int64_t) { return int64_t{0}; },
      .predict = predict,
      .predicted = "labels"};
  return task;
}

}  // namespace snug::tasks
