// SPDX-License-Identifier: Apache-2.0
// Spans are seqeval's under every scheme (tools/golden/spans.py), and the scheme is the rows' own.
#include "tasks/spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/test_folder.h"
#include "tasks/registry.h"

namespace snug::tasks {
namespace {

using Strings = std::vector<std::string>;

// Ids of labels, which are those of the rows in the order in which they come.
std::vector<size_t> ids_of(const Strings& row, const Strings& labels) {
  std::vector<size_t> ids;
  for (const std::string& label : row)
    ids.push_back(
        static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin()));
  return ids;
}

TEST(Spans, are_seqevals_under_every_scheme) {
  std::ifstream file(SNUG_SOURCE_DIR "/tests/golden/spans.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  size_t compared = 0;
  for (const nlohmann::json& each : golden.at("cases")) {
    const auto row = each.at("labels").get<Strings>();
    const SpanLabels labels(row);
    std::set<std::tuple<size_t, size_t, std::string>> wanted;
    std::set<std::tuple<size_t, size_t, std::string>> found;
    for (const auto& span : each.at("spans"))
      wanted.insert({span[0].get<size_t>(), span[1].get<size_t>(), span[2].get<std::string>()});
    const SpanScheme scheme = find_span_scheme(each.at("scheme").get<std::string>()).value();
    for (const auto& [begin, end, kind] : labels.spans(scheme, ids_of(row, row)))
      found.insert({begin, end, labels.kinds()[kind]});
    EXPECT_EQ(found, wanted) << each;
    compared += wanted.size();
  }
  EXPECT_GE(compared, 1000u);
}

TEST(Spans, the_letters_of_the_labels_say_the_scheme) {
  const auto schemes = [](const Strings& labels) {
    std::string names;
    const SpanLabels places(labels);
    for (const SpanScheme each : places.schemes()) names += std::string(to_string(each)) + " ";
    return names;
  };
  EXPECT_EQ(schemes({"O", "B-X", "I-X"}), "IOB1 IOB2 ");
  EXPECT_EQ(schemes({"O", "I-X", "I-Y"}), "IOB1 ");
  EXPECT_EQ(schemes({"O", "B-X"}), "IOB2 ");
  EXPECT_EQ(schemes({"O", "B", "I", "E", "S"}), "BIOES ");
  EXPECT_EQ(schemes({"O", "S-X"}), "BIOES ");
  EXPECT_EQ(schemes({"O", "B-X", "L-X", "U-X"}), "BILOU ");
  for (const Strings& none : {Strings{"VERB", "NOUN"}, Strings{"O", "I-X", "E-X"},
                              Strings{"B-X", "E-X", "L-X"}, Strings{"O", "B_X"}})
    EXPECT_EQ(schemes(none), "") << none[0];
}

// One row of each list of labels, all predicted rightly but for what `found` says otherwise.
EvalMetrics metrics_of(const std::vector<Strings>& rows, const Strings& labels,
                       const std::string& scheme = "auto") {
  const Task& task = *find_task("token_classification");
  const std::unique_ptr<Meter> meter =
      (*task.meter)({.labels = labels, .settings = {.span_scheme = scheme}}, 1);
  for (const Strings& row : rows) {
    const std::vector<size_t> ids = ids_of(row, labels);
    data::RowColumns columns;
    const std::span<int32_t> places = columns.add_integers(static_cast<int64_t>(row.size()));
    for (size_t i = 0; i < row.size(); ++i) places[i] = static_cast<int32_t>(i);
    std::copy(ids.begin(), ids.end(),
              columns.add_integers(static_cast<int64_t>(row.size())).begin());
    std::vector<float> output(row.size() * labels.size());
    for (size_t i = 0; i < row.size(); ++i) output[i * labels.size() + ids[i]] = 1;
    meter->add(columns, output);
  }
  return meter->result();
}

TEST(Spans, of_B_and_I_the_rows_say_the_scheme_and_it_is_said) {
  const Strings labels = {"O", "I-PER", "B-PER", "I-LOC", "B-LOC"};
  const auto scheme_of = [&](const std::vector<Strings>& rows) {
    const EvalMetrics metrics = metrics_of(rows, labels);
    EXPECT_EQ(metrics.find("f1"), 1.0);
    EXPECT_EQ(metrics.words.at(0).first, "span_scheme");
    EXPECT_NE(metrics.notes.at(0).find(metrics.words.at(0).second), std::string::npos);
    return metrics.words.at(0).second;
  };
  EXPECT_EQ(scheme_of({{"O", "I-PER", "I-PER"}, {"I-LOC", "O", "I-PER", "B-PER"}}), "IOB1");
  EXPECT_EQ(scheme_of({{"I-LOC", "I-PER", "B-PER", "B-PER"}}), "IOB1");
  EXPECT_EQ(scheme_of({{"O", "B-PER", "I-PER"}, {"B-LOC", "B-LOC"}}), "IOB2");
  EXPECT_EQ(scheme_of({{"B-PER", "B-LOC", "I-LOC"}}), "IOB2");
}

TEST(Spans, of_neither_scheme_are_counted_and_the_key_decides) {
  const Strings labels = {"O", "I-PER", "B-PER"};
  const std::vector<Strings> rows = {{"B-PER", "I-PER"}, {"O", "I-PER"}, {"I-PER", "O"}};
  const EvalMetrics metrics = metrics_of(rows, labels);
  EXPECT_EQ(metrics.words.at(0).second, "IOB2");
  const Warning& warning = metrics.warnings.at(0);
  EXPECT_EQ(warning.code, "span_scheme");
  EXPECT_EQ(warning.count, 2);
  EXPECT_EQ(warning.share, 2.0 / 3);
  EXPECT_NE(warning.text.find("2 of 3 spans begin with I-"), std::string::npos) << warning.text;
  EXPECT_EQ(metrics.classes.at(0).rows, 1);
  const EvalMetrics other = metrics_of(rows, labels, "IOB1");
  EXPECT_EQ(other.classes.at(0).rows, 3);
  EXPECT_TRUE(other.warnings.empty());
  EXPECT_ERROR((void)metrics_of({}, {"O", "S-PER"}, "IOB2"),
               "bad_config: [span_scheme] the label 'S-PER' is not of IOB2");
}

TEST(Spans, of_BIOES_and_BILOU_are_spans) {
  EXPECT_EQ(metrics_of({{"B-X", "I-X", "E-X", "O", "S-X"}}, {"O", "B-X", "I-X", "E-X", "S-X"})
                .classes.at(0)
                .rows,
            2);
  const EvalMetrics metrics =
      metrics_of({{"B-X", "L-X", "U-X", "U-X"}}, {"O", "B-X", "I-X", "L-X", "U-X"});
  EXPECT_EQ(metrics.classes.at(0).rows, 3);
  EXPECT_EQ(metrics.find("f1"), 1.0);
  EXPECT_EQ(metrics.words.at(0).second, "BILOU");
}

}  // namespace
}  // namespace snug::tasks
