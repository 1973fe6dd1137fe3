// SPDX-License-Identifier: Apache-2.0
#include "data/label_map.h"

#include <gtest/gtest.h>

#include "data/data_testing.h"

namespace snug::data {
namespace {

using Names = std::vector<std::string>;

LabelMap map_of(const LabelRule& rule, const Names& data) {
  return map_labels(rule, labels_of_text(Labels::from_names(data)), "train.jsonl");
}

LabelRule trained(const Names& names) { return {.model = names, .is_trained = true}; }

TEST(LabelMap, a_trained_head_keeps_its_order_by_name) {
  const LabelMap map = map_of(trained({"pos", "neg"}), {"neg", "pos"});
  EXPECT_EQ(map.labels.names(), (Names{"pos", "neg"}));
  EXPECT_EQ(map.id_of, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(map.source, LabelSource::names);
}

TEST(LabelMap, a_trained_head_keeps_its_names_where_the_data_gives_ids) {
  const LabelMap map = map_of(trained({"neg", "neu", "pos"}), {"0", "1", "2"});
  EXPECT_EQ(map.labels.names(), (Names{"neg", "neu", "pos"}));
  EXPECT_EQ(map.id_of, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(map.source, LabelSource::ids);
}

TEST(LabelMap, data_may_have_fewer_labels_than_the_head) {
  EXPECT_EQ(map_of(trained({"neg", "neu", "pos"}), {"pos"}).id_of, std::vector<int32_t>{2});
  EXPECT_EQ(map_of(trained({"neg", "neu", "pos"}), {"1"}).id_of, std::vector<int32_t>{1});
  EXPECT_EQ(map_of(trained({"neg", "neu", "pos"}), {"1"}).labels.size(), 3);
}

TEST(LabelMap, names_without_meaning_are_matched_by_id_or_as_they_are) {
  const LabelRule rule = trained({"LABEL_0", "LABEL_1"});
  EXPECT_EQ(map_of(rule, {"0", "1"}).source, LabelSource::ids);
  EXPECT_EQ(map_of(rule, {"0", "1"}).labels.names(), rule.model);
  EXPECT_EQ(map_of(rule, {"LABEL_0", "LABEL_1"}).source, LabelSource::names);
  EXPECT_EQ(map_of(trained({"0", "1", "2"}), {"0", "2"}).id_of, (std::vector<int32_t>{0, 2}));
}

TEST(LabelMap, what_does_not_match_is_refused_with_both_lists) {
  const auto refused = [](const Names& model, const Names& data, const std::string& text) {
    expect_error([&] { (void)map_of(trained(model), data); }, ErrorCode::bad_data, text);
  };
  refused({"pos", "neg"}, {"negative", "positive"},
          "the labels of the data are negative, positive; those of the trained model are pos, neg, "
          "and the two do not match");
  refused({"LABEL_0", "LABEL_1"}, {"neg", "pos"}, "which does not say which is which");
  refused({"neg", "neu", "pos"}, {"1", "2", "3"}, "those of the trained model are neg, neu, pos");
  refused({"neg", "neu", "pos"}, {"-1", "0"}, "give ids from 0 to 2");
  refused({"neg", "pos"}, {"0", "pos"}, "the labels of the data are 0, pos");
  refused({"neg", "pos"}, {"00", "01"}, "the labels of the data are 00, 01");
  refused({"neg", "pos"}, {"neg", "pos", "other"}, "set fresh_head to train a new head");
}

TEST(LabelMap, ids_of_a_model_whose_names_are_other_numbers_are_never_guessed) {
  const LabelRule stars = trained({"1", "2", "3", "4", "5"});
  EXPECT_EQ(map_of(stars, {"1", "5"}).id_of, (std::vector<int32_t>{0, 4}));
  expect_error(
      [&] {
        (void)map_of(stars, {"0", "1", "2", "3", "4"});
      },
      ErrorCode::bad_data, "the two do not match");
  EXPECT_EQ(map_of(trained({"1", "0"}), {"0", "1"}).id_of, (std::vector<int32_t>{1, 0}));
}

TEST(LabelMap, numbers_mean_the_names_that_are_these_numbers_in_any_spelling) {
  for (const Names& model : {Names{"1.0", "2.0", "3.0"}, Names{"01", "02", "03"},
                             Names{" 1", "+2", "3e0"}, Names{"1", "2", "other"}}) {
    const LabelMap map = map_of(trained(model), {"1", "2"});
    EXPECT_EQ(map.id_of, (std::vector<int32_t>{0, 1})) << model.front();
    EXPECT_EQ(map.source, LabelSource::names);
    EXPECT_EQ(map.labels.names(), model);
  }
  EXPECT_EQ(map_of(trained({"1", "2"}), {"2.0", "1.0"}).id_of, (std::vector<int32_t>{1, 0}));
  // A name in full goes first; two names of one number are told apart by nothing else.
  EXPECT_EQ(map_of(trained({"1.0", "1"}), {"1"}).id_of, std::vector<int32_t>{1});
  expect_error(
      [] {
        (void)map_of(trained({"1.0", "01"}), {"1"});
      },
      ErrorCode::bad_data, "the two do not match");
  // Two spellings in the data are one class of the model.
  EXPECT_EQ(map_of(trained({"1", "2"}), {"1", "1.0"}).id_of, (std::vector<int32_t>{0, 0}));
  // Ids are never meant where some name is a number, whatever the others are.
  expect_error(
      [] {
        (void)map_of(trained({"2.0", "3.0"}), {"0", "1"});
      },
      ErrorCode::bad_data, "the two do not match");
}

TEST(LabelMap, an_id_that_another_name_says_is_refused_with_both_readings) {
  const auto refused = [](const Names& model, const Names& data, const std::string& text) {
    expect_error([&] { (void)map_of(trained(model), data); }, ErrorCode::bad_data, text);
    expect_error([&] { (void)map_of({.model = model}, data); }, ErrorCode::bad_data, text);
    const Labels names = Labels::from_names(model);
    expect_error([&] { (void)LabelLookup(names).find(data.front(), "f:7"); }, ErrorCode::bad_data,
                 "f:7] " + text);
  };
  refused({"1 star", "2 stars", "3 stars"}, {"1", "2"},
          "the label 1 has two readings: as an id it is the class '2 stars', and '1 star' says "
          "that number, too\nhint: give the names of the classes as labels: 1 star, 2 stars");
  refused({"none", "level 0"}, {"0", "1"},
          "the label 0 has two readings: as an id it is the class 'none', and 'level 0' says");
  // Names that say their own ids, and other numbers, leave one reading.
  EXPECT_EQ(map_of(trained({"class 0", "class 1"}), {"0", "1"}).source, LabelSource::ids);
  EXPECT_EQ(map_of(trained({"flu", "covid-19"}), {"0", "1"}).source, LabelSource::ids);
}

TEST(LabelMap, an_order_is_that_of_fresh_labels_and_must_have_them_all) {
  const auto in_order = [](Names order, const Names& data, int64_t count = 0) {
    return map_of({.count = count, .order = std::move(order), .order_key = "label_order"}, data);
  };
  const LabelMap map = in_order({"low", "mid", "high"}, {"high", "low"});
  EXPECT_EQ(map.labels.names(), (Names{"low", "mid", "high"}));
  EXPECT_EQ(map.id_of, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(map.source, LabelSource::data);
  EXPECT_EQ(in_order({"2", "1"}, {"1.0", "2.0"}).id_of, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(in_order({"b", "a"}, {"a"}, 3).labels.names(), (Names{"b", "a", "LABEL_2"}));
  expect_error(
      [&] {
        (void)in_order({"low"}, {"high", "low"});
      },
      ErrorCode::bad_config,
      "[label_order] it lacks the label 'high' of the data, whose labels are high, low");
  expect_error(
      [&] {
        (void)in_order({"a", "b", "c"}, {"a"}, 2);
      },
      ErrorCode::bad_config, "2 is less than the order's 3 labels");
  // Numbers are places in an order of names that are none.
  const LabelMap places = in_order({"O", "B", "I"}, {"2", "0"});
  EXPECT_EQ(places.labels.names(), (Names{"O", "B", "I"}));
  EXPECT_EQ(places.id_of, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(in_order({"O", "B"}, {"2", "0"}, 3).labels.names(), (Names{"O", "B", "LABEL_2"}));
  expect_error(
      [&] {
        (void)in_order({"O", "B"}, {"0", "2"});
      },
      ErrorCode::bad_config,
      "[label_order] it has 2 names, for the ids 0 to 1, and the data have the id 2");
  expect_error(
      [&] {
        (void)in_order({"1 star", "2 stars"}, {"0", "1"});
      },
      ErrorCode::bad_data, "[label_order] the label 1 has two readings");
  // That of a run that is resumed yields to other data, which is refused for its rows.
  EXPECT_EQ(map_of({.order = {"10.0", "2.0"}}, {"2.0", "10.0"}).labels.names(),
            (Names{"10.0", "2.0"}));
  EXPECT_EQ(map_of({.order = {"x", "y"}}, {"a"}).labels.names(), Names{"a"});
}

TEST(LabelMap, images_have_ids_and_may_have_names) {
  const auto images = [](const Names& names) { return DataLabels{.names = names, .ids = {0, 1}}; };
  const LabelRule numbers = trained({"0", "1"});
  EXPECT_EQ(map_labels(numbers, images({"cat", "dog"}), "x").source, LabelSource::ids);
  EXPECT_EQ(map_labels(trained({"dog", "cat"}), images({"cat", "dog"}), "x").id_of,
            (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(map_labels(trained({"dog", "cat"}), images({"0", "1"}), "x").source, LabelSource::ids);
  expect_error(
      [&] {
        (void)map_labels(trained({"car", "bus"}), images({"cat", "dog"}), "x");
      },
      ErrorCode::bad_data, "do not match");
}

TEST(LabelMap, a_fresh_head_takes_the_labels_of_the_data) {
  const LabelMap map = map_of({}, {"a", "b"});
  EXPECT_EQ(map.labels.names(), (Names{"a", "b"}));
  EXPECT_EQ(map.source, LabelSource::data);
  EXPECT_EQ(map_of({.model = {"LABEL_0", "LABEL_1"}}, {"0", "1"}).labels.names(),
            (Names{"0", "1"}));
  EXPECT_EQ(map_of({.model = {"x", "y"}}, {"a", "b"}).labels.names(), (Names{"a", "b"}));
  // A configuration that names the labels is followed where the data fits it.
  EXPECT_EQ(map_of({.model = {"b", "a"}}, {"a", "b"}).id_of, (std::vector<int32_t>{1, 0}));
}

TEST(LabelMap, more_labels_than_the_data_has_are_honoured_and_fewer_refused) {
  EXPECT_EQ(map_of({.count = 4}, {"a", "b"}).labels.names(),
            (Names{"a", "b", "LABEL_2", "LABEL_3"}));
  const LabelMap ids = map_of({.count = 3}, {"0", "2"});
  EXPECT_EQ(ids.labels.names(), (Names{"0", "1", "2"}));
  EXPECT_EQ(ids.id_of, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(map_of({.count = 3}, {"1", "3"}).labels.names(), (Names{"1", "3", "LABEL_2"}));
  expect_error(
      [] {
        (void)map_of({.count = 2}, {"a", "b", "c"});
      },
      ErrorCode::bad_config, "num_labels] 2 is less than the data's 3 labels: a, b, c");
}

TEST(LabelLookup, rows_give_names_or_ids_and_never_both) {
  const Labels model = Labels::from_names({"neg", "pos"});
  LabelLookup names(model);
  EXPECT_EQ(names.find("pos", "f:1"), 1);
  EXPECT_EQ(names.find("2", "f:2"), std::nullopt);
  EXPECT_EQ(names.find("other", "f:2"), std::nullopt);
  expect_error([&] { (void)names.find("0", "f:3"); }, ErrorCode::bad_data,
               "f:3] the label '0' is an id, those before are names");
  LabelLookup ids(model);
  EXPECT_EQ(ids.find("1", "f:1"), 1);
  expect_error([&] { (void)ids.find("neg", "f:2"); }, ErrorCode::bad_data,
               "is a name, those before are ids");
  const Labels numbers = Labels::from_names({"1", "2"});
  EXPECT_EQ(LabelLookup(numbers).find("0", "f:1"), std::nullopt);
  EXPECT_EQ(LabelLookup(numbers).find("2", "f:1"), 1);
  const Labels floats = Labels::from_names({"1.0", "2.0"});
  EXPECT_EQ(LabelLookup(floats).find("1", "f:1"), 0);
  EXPECT_EQ(LabelLookup(floats).find("0", "f:1"), std::nullopt);
  // Two whole numbers that are one double.
  const Labels large = Labels::from_names({"9007199254740992", "2"});
  EXPECT_EQ(LabelLookup(large).find("9007199254740993", "f:1"), std::nullopt);
  EXPECT_EQ(LabelLookup(large).find("9007199254740992.0", "f:1"), 0);
}

}  // namespace
}  // namespace snug::data
