// SPDX-License-Identifier: Apache-2.0
// What rows count: weights of classes and rows as they are fed, and windows as one text.
#include "train/feed.h"
#include "ops/fed_names.h"

#include <gtest/gtest.h>

#include "snug/error.h"
#include "tasks/registry.h"
#include "train/window_fold.h"

namespace snug::train {
namespace {

struct TestRow {
  std::vector<int32_t> words;  // empty: one label
  std::vector<int32_t> labels;
  float weight = 1;
};

class TestRows final : public data::RowStore {
 public:
  TestRows(std::vector<TestRow> rows, bool has_weights)
      : rows_(std::move(rows)), has_weights_(has_weights) {}

  [[nodiscard]] int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  [[nodiscard]] const data::Labels& labels() const override { return labels_; }
  [[nodiscard]] uint64_t content_hash() const override { return 0; }
  [[nodiscard]] int64_t most_values() const override { return 16; }
  void read_columns(int64_t row, data::RowColumns& out) const override {
    const TestRow& from = rows_.at(static_cast<size_t>(row));
    const auto copy = [&](const std::vector<int32_t>& values) {
      std::copy(values.begin(), values.end(),
                out.add_integers(static_cast<int64_t>(values.size())).begin());
    };
    out.clear();
    if (!from.words.empty()) copy(from.words);
    copy(from.labels);
    if (has_weights_) out.add_reals(1).front() = from.weight;
  }
  [[nodiscard]] std::optional<size_t> find_column(std::string_view name) const override {
    if (name != data::kWeightColumn || !has_weights_) return {};
    return rows_.front().words.empty() ? 1 : 2;
  }
  void read_lengths(std::span<const int64_t>, std::span<int32_t>) const override {}
  void fill(const data::MicroBatch&, const data::BatchBuffers&) const override {}

 private:
  std::vector<TestRow> rows_;
  bool has_weights_;
  data::Labels labels_;
};

// The weights that all rows are fed with, and what their sum is said to be.
std::pair<std::vector<float>, double> fed(const FeedContext& context, int64_t of_row) {
  BatchRows rows(context);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < context.rows->rows(); ++i) ids.push_back(i);
  rows.begin({.rows = ids, .bucket_length = static_cast<int32_t>(of_row)});
  const auto count = static_cast<size_t>(context.rows->rows());
  std::vector<int32_t> labels(count * static_cast<size_t>(of_row));
  std::vector<float> weights(labels.size());
  const std::string names[] = {models::kLabels, kRowWeights};
  const Shape shape = {of_row};
  const std::optional<std::string> length;
  const auto slot = [&](const std::string& name, std::span<std::byte> bytes) {
    return RowSlot{.input = name,
                   .row_shape = shape,
                   .length = length,
                   .first_row = 0,
                   .rows = static_cast<int64_t>(count),
                   .bytes = bytes};
  };
  const std::vector<RowSlot> slots = {slot(names[0], std::as_writable_bytes(std::span(labels))),
                                      slot(names[1], std::as_writable_bytes(std::span(weights)))};
  rows.fill_all(slots);
  return {weights, rows.total_weight(models::kLabels).value()};
}

const tasks::Task& task(const char* name) { return *tasks::find_task(name); }

TEST(Feed, weights_of_classes_and_rows_multiply) {
  const TestRows rows({{{}, {0}, 2}, {{}, {1}, 0.5}, {{}, {1}, 0}, {{}, {2}, 1}}, true);
  const std::vector<double> classes = {0.5, 4, 1};
  FeedContext context{.rows = &rows, .task = &task("classification")};
  EXPECT_EQ(fed(context, 1), (std::pair{std::vector<float>{2, 0.5, 0, 1}, 3.5}));
  context.class_weights = classes;
  EXPECT_EQ(fed(context, 1), (std::pair{std::vector<float>{1, 2, 0, 1}, 4.0}));
}

TEST(Feed, of_tokens_every_labelled_one_has_the_weights) {
  const TestRows rows({{{1, 3}, {0, 1}, 2}, {{1, -1}, {1, 1}, 1}}, true);
  const std::vector<double> classes = {0.5, 4};
  const FeedContext context{
      .rows = &rows, .task = &task("token_classification"), .class_weights = classes, .longest = 4};
  EXPECT_EQ(fed(context, 4), (std::pair{std::vector<float>{0, 1, 0, 8, 0, 4, 0, 0}, 13.0}));
}

TEST(Feed, rows_that_all_weigh_nothing_are_refused) {
  const TestRows rows({{{}, {0}, 0}, {{}, {0}, 0}, {{}, {1}, 1}}, true);
  const FeedContext context{.rows = &rows, .task = &task("classification")};
  EXPECT_NO_THROW(refuse_weightless_rows(context, data::Subset::all(3), "weight"));
  try {
    refuse_weightless_rows(context, data::Subset::all(2), "weight");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_data);
    EXPECT_NE(std::string(error.what()).find("weighs 0"), std::string::npos) << error.what();
  }
}

RunConfig with_weights(std::vector<std::string> weights) {
  RunConfig config;
  config.class_weights = std::move(weights);
  return config;
}

TEST(Class_weights, balanced_are_scikit_learn_s) {
  const TestRows rows({{{}, {0}}, {{}, {1}}, {{}, {1}}, {{}, {1}}}, false);
  const FeedContext context{.rows = &rows, .task = &task("classification"), .longest = 1};
  const auto found =
      class_weights_of(with_weights({"balanced"}), context, data::Subset::all(4), {"a", "b", "c"});
  EXPECT_EQ(found, (std::vector<double>{4.0 / 3, 4.0 / 9, 0}));
  EXPECT_TRUE(class_weights_of(RunConfig(), context, data::Subset::all(4), {"a", "b"}).empty());
}

TEST(Class_weights, a_list_is_by_id_or_by_name) {
  const TestRows rows({{{}, {0}}}, false);
  const FeedContext context{.rows = &rows, .task = &task("classification"), .longest = 1};
  const auto of = [&](std::vector<std::string> given) {
    return class_weights_of(with_weights(std::move(given)), context, data::Subset::all(1),
                            {"no", "yes"});
  };
  EXPECT_EQ(of({"1", "2.5"}), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(of({"yes=2.5", "no=1"}), (std::vector<double>{1, 2.5}));
  for (const auto& [given, text] :
       {std::pair<std::vector<std::string>, const char*>{{"1"}, "1 weights for 2 labels"},
        {{"1", "-2"}, "'-2' is no weight"},
        {{"1", "nan"}, "'nan' is no weight"},
        {{"0", "0"}, "all weights are 0"},
        {{"yes=1", "2"}, "another form"},
        {{"yes=1", "yes=2"}, "given twice"},
        {{"yes=1", "maybe=2"}, "there is no label 'maybe'"}}) {
    try {
      (void)of(given);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

TEST(Class_weights, a_label_may_be_its_number_in_another_spelling_and_is_never_an_id) {
  const TestRows rows({{{}, {0}}}, false);
  const FeedContext context{.rows = &rows, .task = &task("classification"), .longest = 1};
  const auto of = [&](std::vector<std::string> given) {
    return class_weights_of(with_weights(std::move(given)), context, data::Subset::all(1),
                            {"1.0", "2.0"});
  };
  EXPECT_EQ(of({"2=4", "1=3"}), (std::vector<double>{3, 4}));
  EXPECT_THROW((void)of({"0=4", "1=3"}), Error);
}

TEST(Class_weights, are_numbers_whatever_the_labels) {
  for (const std::vector<std::string>& good :
       {std::vector<std::string>{}, {"balanced"}, {"1", "2.5"}, {"a=b=2"}})
    EXPECT_NO_THROW(check_class_weights(with_weights(good)));
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{"1", "nan"}, {"a=-1"}, {"a="}, {"balanced", "1"}})
    EXPECT_THROW(check_class_weights(with_weights(bad)), Error);
}

data::RowColumns columns_of(const std::vector<int32_t>& first, int32_t window) {
  data::RowColumns columns;
  columns.reserve(8);
  std::copy(first.begin(), first.end(),
            columns.add_integers(static_cast<int64_t>(first.size())).begin());
  columns.add_integers(1).front() = window;
  return columns;
}

TEST(Window_fold, of_rows_is_the_mean_of_the_logits) {
  std::vector<std::vector<float>> found;
  WindowFold fold(1, 0, [&](const data::RowColumns&, std::span<const float> output) {
    found.emplace_back(output.begin(), output.end());
  });
  fold.add(columns_of({7}, 0), std::vector<float>{1, -2});
  fold.add(columns_of({7}, 1), std::vector<float>{2, 4});
  fold.add(columns_of({5}, 0), std::vector<float>{3, 3});
  fold.finish();
  EXPECT_EQ(found, (std::vector<std::vector<float>>{{1.5, 1}, {3, 3}}));
}

TEST(Window_fold, of_tokens_takes_each_word_from_its_window) {
  std::vector<int32_t> words;
  std::vector<float> logits;
  WindowFold fold(1, 2, [&](const data::RowColumns& columns, std::span<const float> output) {
    words.assign(columns.integers(0).begin(), columns.integers(0).end());
    logits.assign(output.begin(), output.end());
  });
  // Windows of three and of two tokens, two labels.
  fold.add(columns_of({1, -1, -1}, 0), std::vector<float>{0, 0, 1, 1, 2, 2});
  fold.add(columns_of({-1, 1, -1}, 1), std::vector<float>{5, 5, 6, 6});
  fold.finish();
  EXPECT_EQ(words, (std::vector<int32_t>{1, 4, -1}));
  EXPECT_EQ(logits.at(4 * 2), 6);
}

}  // namespace
}  // namespace snug::train
