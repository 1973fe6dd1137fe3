// SPDX-License-Identifier: Apache-2.0
// Rows of Arrow's files beside the same rows as JSON lines, and files that are none. The files are
// pyarrow's (tools/golden/arrow_rows.py).
#include <algorithm>

#include "data/class_names.h"
#include "data/data_testing.h"
#include "data/row_files.h"
#include "data/rows.h"
#include "io/file.h"

namespace snug::data {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

std::string golden(const std::string& name) {
  return std::string(SNUG_SOURCE_DIR) + "/tests/golden/arrow_rows/" + name;
}

std::vector<Row> rows_of(const std::string& file, const RowSchema& schema,
                         BadRows policy = BadRows::stop) {
  BadRowLog log{.policy = policy};
  const auto reader = open_rows(file, schema, log);
  std::vector<Row> rows;
  Row row;
  while (reader->next(row)) rows.push_back(row);
  EXPECT_LE(reader->bytes_read(), reader->total_bytes());
  return rows;
}

void expect_equal(const Row& got, const Row& wanted) {
  EXPECT_EQ(got.text, wanted.text);
  EXPECT_EQ(got.words, wanted.words);
  EXPECT_EQ(got.has_words, wanted.has_words);
  EXPECT_EQ(got.pair, wanted.pair);
  EXPECT_EQ(got.weight, wanted.weight);
  ASSERT_EQ(got.label.has_value(), wanted.label.has_value());
  if (!got.label) return;
  EXPECT_EQ(got.label->is_list, wanted.label->is_list);
  EXPECT_EQ(got.label->is_number, wanted.label->is_number);
  EXPECT_EQ(got.label->has_fraction, wanted.label->has_fraction);
  ASSERT_EQ(got.label->items.size(), wanted.label->items.size());
  for (size_t i = 0; i < got.label->items.size(); ++i) {
    if (got.label->has_fraction) {  // 1e-09 and 1e-9 are one number
      EXPECT_EQ(std::stod(got.label->items[i]), std::stod(wanted.label->items[i]));
    } else {
      EXPECT_EQ(got.label->items[i], wanted.label->items[i]);
    }
  }
}

TEST(Arrow, rows_are_those_of_json_lines) {
  RowSchema plain;
  RowSchema all{.text_pair_column = "pair", .label_column = "number", .weight_column = "weight"};
  std::vector<RowSchema> schemas = {plain, all};
  for (const char* label : {"real", "is_it", "tags", "names", "shares", "two"})
    schemas.push_back({.label_column = label});
  schemas.push_back(
      {.text_column = "words", .label_column = "names", .text_form = TextForm::words});
  schemas.push_back({.text_column = "words", .text_form = TextForm::any});
  for (const RowSchema& schema : schemas) {
    SCOPED_TRACE(schema.text_column + " " + schema.label_column);
    const std::vector<Row> wanted = rows_of(golden("rows.jsonl"), schema);
    for (const char* name : {"stream.arrow", "file.arrow"}) {
      const std::vector<Row> got = rows_of(golden(name), schema);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) {
        expect_equal(got[i], wanted[i]);
        EXPECT_EQ(got[i].line, static_cast<int64_t>(i) + 1);
      }
    }
    const std::vector<Row> slice = rows_of(golden("slice.arrow"), schema);
    ASSERT_EQ(slice.size(), 6u);
    for (size_t i = 0; i < slice.size(); ++i) expect_equal(slice[i], wanted[i + 3]);
  }
  EXPECT_TRUE(rows_of(golden("empty.arrow"), plain).empty());
}

TEST(Arrow, a_label_or_weight_that_is_NaN_is_not_there) {
  const std::vector<Row> rows = rows_of(golden("nan.arrow"), {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_FALSE(rows[0].label);
  EXPECT_EQ(rows[1].label->items.at(0), "1.5");
  expect_error([] { (void)rows_of(golden("nan.arrow"), {.weight_column = "weight"}); },
               ErrorCode::bad_data, "nan.arrow:2] there is no weight in the column 'weight'");
  expect_error([] { (void)rows_of(golden("nan.arrow"), {.label_column = "inf"}); },
               ErrorCode::bad_data, "nan.arrow:1] the label inf is not finite");
}

TEST(Arrow, numbers_of_classes_are_read_by_name) {
  const auto labels_of = [](const std::string& column, bool class_names = true) {
    std::string said;
    const bool is_list = column == "tags" || column == "older";
    const RowSchema schema{.text_column = is_list ? "words" : "text",
                           .label_column = column,
                           .text_form = TextForm::any,
                           .class_names = class_names};
    for (const Row& row : rows_of(golden("classes.arrow"), schema)) {
      if (row.label) {
        EXPECT_EQ(row.label->is_number, !class_names || column == "number");
      }
      if (!said.empty()) said += "|";
      for (const std::string& item : row.label ? row.label->items : std::vector<std::string>{"-"})
        said += item + ",";
    }
    return said;
  };
  EXPECT_EQ(labels_of("label"), "it depends,|no,|-,|yes,");
  EXPECT_EQ(labels_of("label", false), "2,|0,|-1,|1,");
  EXPECT_EQ(labels_of("number"), "0,|1,|2,|0,");
  const std::vector<Row> tags =
      rows_of(golden("classes.arrow"),
              {.text_column = "words", .label_column = "tags", .text_form = TextForm::any});
  EXPECT_EQ(tags[0].label->items, (std::vector<std::string>{"yes", "yes"}));
  EXPECT_FALSE(tags[0].label->is_number);
  EXPECT_EQ(labels_of("older"), "no,|yes,|it depends,|");
  expect_error([] { (void)rows_of(golden("wrong_classes.arrow"), {}); }, ErrorCode::bad_data,
               "the label 3 is none of the 3 classes that the column 'label' names");
  expect_error([] { (void)rows_of(golden("broken_classes.arrow"), {}); }, ErrorCode::bad_data,
               "broken_classes.arrow");
}

TEST(Arrow, files_of_other_classes_are_refused) {
  const std::string file = golden("classes.arrow");
  EXPECT_EQ(class_names_of(file, "tags"), (std::vector<std::string>{"no", "yes", "it depends"}));
  EXPECT_TRUE(class_names_of(file, "number").empty());
  EXPECT_TRUE(class_names_of("rows.jsonl", "label").empty());
  expect_error([&] { (void)class_names_of(file + "," + golden("nan.arrow"), "label"); },
               ErrorCode::bad_data, "none, and no, yes, it depends");
}

TEST(Arrow, columns_of_other_types_are_refused_by_name) {
  const auto refuses = [](const RowSchema& schema, const std::string& text) {
    expect_error([&] { (void)rows_of(golden("stream.arrow"), schema); }, ErrorCode::bad_config,
                 text);
  };
  refuses({.text_column = "txt"}, "there is no column 'txt'; the columns are: id, text, image");
  refuses({.text_column = "id"}, "the column 'id' is of the type int32, not of text");
  refuses({.text_column = "view"}, "of the type string_view, not of text");
  refuses({.text_column = "kind"}, "of the type dictionary of string, not of text");
  refuses({.text_column = "words"}, "of the type list of string, not of text");
  refuses({.text_form = TextForm::words}, "of the type string, not of lists of words");
  refuses({.text_pair_column = "real"}, "of the type float64, not of text");
  refuses({.label_column = "image"}, "of the type struct, not of texts, numbers or lists");
  refuses({.weight_column = "pair"}, "of the type large_string, not of numbers");
  refuses({.delimiter = ';'}, "is Arrow's, which has none");
  // Nobody reads the label of a row that is predicted.
  EXPECT_EQ(rows_of(golden("stream.arrow"), {.label_column = "image", .needs_label = false}).size(),
            12u);
}

TEST(Arrow, null_texts_and_rows_beyond_the_budget) {
  RowSchema schema{.text_column = "label", .label_column = "number"};
  expect_error([&] { (void)rows_of(golden("stream.arrow"), schema); }, ErrorCode::bad_data,
               "stream.arrow:3] the column 'label' is null, not a string");
  EXPECT_EQ(rows_of(golden("stream.arrow"), schema, BadRows::skip).size(), 9u);
  expect_error([] { (void)rows_of(golden("stream.arrow"), {.affordable_bytes = 1000}); },
               ErrorCode::out_of_budget, "a row is longer than 1000 bytes");
}

TEST(Arrow, what_is_no_whole_file_is_refused) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& bytes, ErrorCode code, const std::string& text) {
    const std::string file = folder.write("a.arrow", bytes);
    expect_error([&] { (void)rows_of(file, {}); }, code, text);
  };
  expect_error([] { (void)rows_of(golden("packed.arrow"), {}); }, ErrorCode::unsupported,
               "its columns are compressed");
  refuses("", ErrorCode::bad_data, "does not begin as one");
  refuses("{\"text\": 1}", ErrorCode::bad_data, "does not begin as one");
  const std::string whole = io::read_all(golden("slice.arrow"), kMostBytes);
  for (const size_t size : {size_t{6}, size_t{100}, whole.size() / 2, whole.size() - 100})
    refuses(whole.substr(0, size), ErrorCode::bad_data, "");
  // A byte after the other of the schema and of the first batch's metadata.
  for (size_t i = 8; i < 3000; i += 3) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 0x55);
    try {
      (void)rows_of(folder.write("b.arrow", broken), {}, BadRows::skip);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << i << ": " << error.what();
    }
  }
}

TEST(Arrow, a_stream_is_known_by_its_beginning) {
  EXPECT_EQ(suffix_of_rows(golden("stream.arrow")), ".arrow");
  EXPECT_EQ(suffix_of_rows(golden("file.arrow")), ".arrow");
}

}  // namespace
}  // namespace snug::data
