// SPDX-License-Identifier: Apache-2.0
#include "data/label_survey.h"

#include <gtest/gtest.h>

#include "data/data_testing.h"

namespace snug::data {
namespace {

LabelSurvey survey(const std::string& file) {
  return survey_labels({file}, {}, BadRows::stop, nullptr);
}

/// A table whose labels these are, each as often.
std::string table(const std::vector<std::string>& labels) {
  std::string text = "text,label\n";
  for (const std::string& label : labels) text += "a," + label + "\n";
  return text;
}

TEST(Label_survey, numbers_in_any_spelling_are_numbers) {
  const TemporaryFolder folder;
  const LabelSurvey found = survey(folder.write("a.csv", table({"0.25", " 1.5", "+1.5", "2"})));
  EXPECT_TRUE(found.all_numbers && found.has_fraction);
  EXPECT_EQ(found.numbers, 4);
  EXPECT_FALSE(doubt_of(found, "a.csv").has_value());
}

TEST(Label_survey, a_column_of_numbers_with_one_that_is_none_is_in_doubt) {
  const TemporaryFolder folder;
  for (const char* other : {"NA", "nan", "inf", "much"}) {
    std::vector<std::string> labels(9, "0.25");
    labels.emplace_back(other);
    const std::string file = folder.write("a.csv", table(labels));
    const auto doubt = doubt_of(survey(file), file);
    ASSERT_TRUE(doubt.has_value()) << other;
    const std::string text = doubt->what();
    for (const std::string& part :
         {std::string("9 of 10 labels are numbers such as 0.25"),
          "1 of 10 labels are none, such as '" + std::string(other) + "' at " + file + ":11",
          std::string("set task to")})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  // In JSON what stands in quotes is a text, whatever it says.
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += "{\"text\": \"a\", \"label\": 0.25}\n";
  const std::string json =
      folder.write("a.jsonl", lines + "{\"text\": \"a\", \"label\": \"1.5\"}\n");
  EXPECT_TRUE(doubt_of(survey(json), json).has_value());
  const auto quoted = [&](const std::string& first, const std::string& second) {
    const std::string all =
        folder.write("q.jsonl", "{\"text\": \"a\", \"label\": \"" + first +
                                    "\"}\n{\"text\": \"b\", \"label\": \"" + second + "\"}\n");
    const auto doubt = doubt_of(survey(all), all);
    return doubt ? std::string(doubt->what()) : std::string();
  };
  EXPECT_NE(quoted("0.5", "2").find("2 of 2 labels are numbers in quotes, such as '0.5' at "),
            std::string::npos);
  EXPECT_EQ(quoted("1.0", "2"), "");
  EXPECT_EQ(quoted("0.5", "x"), "");
  // Names of which a few are numbers, and whole numbers, are classes.
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"1.5", "other", "3", "2.5"},
        {"1.5", "NA", "nan", "2.5"},
        {"1", "2", "3", "NA"}}) {
    const LabelSurvey found = survey(folder.write("b.csv", table(labels)));
    EXPECT_FALSE(doubt_of(found, "b.csv").has_value()) << labels.front();
    EXPECT_FALSE(found.all_numbers);
  }
}

TEST(Label_survey, lists_of_0_and_1_are_in_doubt) {
  const TemporaryFolder folder;
  const auto doubt = [&](const std::string& first, const std::string& second) {
    const std::string file =
        folder.write("a.jsonl", "{\"text\": \"a\", \"label\": " + first +
                                    "}\n{\"text\": \"b\", \"label\": " + second + "}\n");
    const auto error = doubt_of(survey(file), file);
    return error ? std::string(error->what()) : std::string();
  };
  EXPECT_NE(doubt("[1.0, 0.0, 1.0]", "[0, 0, 0]")
                .find("the labels of all 2 rows are lists of 0 and 1, such as [1, 0, 1]"),
            std::string::npos);
  EXPECT_EQ(doubt("[1, 0]", "[0.5, 1]"), "");
  EXPECT_EQ(doubt("[1, 0]", "[2, 1]"), "");
  EXPECT_EQ(doubt("[\"a\"]", "[]"), "");
}

}  // namespace
}  // namespace snug::data
