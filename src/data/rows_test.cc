// SPDX-License-Identifier: Apache-2.0
// Row readers: what they accept, and every way a file can be bad, with code and text.
#include "data/rows.h"
#include "data/data_testing.h"

namespace snug::data {
namespace {

struct Read {
  std::vector<Row> rows;
  BadRowLog log;
};

Read read(const std::string& file, const RowSchema& schema = {}, BadRows policy = BadRows::stop) {
  Read result;
  result.log.policy = policy;
  const auto reader = open_rows(file, schema, result.log);
  Row row;
  while (reader->next(row)) result.rows.push_back(row);
  return result;
}

// The text of a label that is one value.
std::string label_of(const Row& row) {
  return row.label && !row.label->is_list ? row.label->items.at(0) : "none";
}

TEST(Bad_rows, each_that_is_skipped_is_told) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 8; ++i) text += i % 2 == 0 ? "{\"text\": \"a\"}\n" : "broken\n";
  const std::string file = folder.write("a.jsonl", text);
  std::vector<std::string> told;
  BadRowLog log{.policy = BadRows::skip};
  log.on_skip = [&](const std::string& what) { told.push_back(what); };
  const auto reader = open_rows(file, {.needs_label = false}, log);
  Row row;
  int64_t rows = 0;
  while (reader->next(row)) {
    ++rows;
    EXPECT_EQ(std::ssize(told), rows - 1);  // those before the row are told before it
  }
  ASSERT_EQ(told.size(), 4u);
  EXPECT_NE(told[3].find("a.jsonl:8: "), std::string::npos) << told[3];
}

TEST(Jsonl, labels_are_values_or_lists) {
  const TemporaryFolder folder;
  const Read got = read(folder.write("a.jsonl",
                                     "{\"text\": \"t\", \"label\": [\"a\", \"b\"]}\n"
                                     "{\"text\": \"t\", \"label\": []}\n"
                                     "{\"text\": \"t\", \"label\": [1, -2.5e-3, 3.0]}\n"
                                     "{\"text\": \"t\", \"label\": 0.25}\n"
                                     "{\"text\": \"t\", \"label\": \"0.25\"}\n"));
  ASSERT_EQ(got.rows.size(), 5u);
  const RowLabel& texts = *got.rows[0].label;
  EXPECT_TRUE(texts.is_list && !texts.is_number);
  EXPECT_EQ(texts.items, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(got.rows[1].label->is_list && got.rows[1].label->items.empty());
  const RowLabel& numbers = *got.rows[2].label;
  EXPECT_TRUE(numbers.is_list && numbers.is_number && numbers.has_fraction);
  EXPECT_EQ(numbers.items, (std::vector<std::string>{"1", "-2.5e-3", "3"}));
  EXPECT_EQ(label_of(got.rows[3]), "0.25");
  EXPECT_TRUE(got.rows[3].label->is_number && got.rows[3].label->has_fraction);
  EXPECT_FALSE(got.rows[4].label->is_number || got.rows[4].label->has_fraction);
}

TEST(Jsonl, a_whole_number_of_any_size_has_no_fraction) {
  const TemporaryFolder folder;
  const Read got = read(folder.write("a.jsonl",
                                     "{\"text\": \"t\", \"label\": 100000000000000000001}\n"
                                     "{\"text\": \"t\", \"label\": 1e20}\n"
                                     "{\"text\": \"t\", \"label\": -2.0}\n"));
  ASSERT_EQ(got.rows.size(), 3u);
  EXPECT_EQ(label_of(got.rows[0]), "100000000000000000001");
  EXPECT_EQ(label_of(got.rows[1]), "100000000000000000000");
  EXPECT_EQ(label_of(got.rows[2]), "-2");
  for (const Row& row : got.rows) EXPECT_FALSE(row.label->has_fraction);
}

TEST(Jsonl, a_text_may_be_a_list_of_words_where_the_schema_says_so) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl",
                                 "{\"text\": [\"a\", \"b c\"], \"label\": [\"X\", \"Y\"]}\n"
                                 "{\"text\": [], \"label\": []}\n");
  RowSchema schema;
  schema.text_form = TextForm::words;
  const Read got = read(file, schema);
  ASSERT_EQ(got.rows.size(), 2u);
  EXPECT_EQ(got.rows[0].words, (std::vector<std::string>{"a", "b c"}));
  EXPECT_TRUE(got.rows[1].has_words && got.rows[1].words.empty());
  expect_error([&] { (void)read(folder.write("b.jsonl", "{\"text\": \"a b\"}\n"), schema); },
               ErrorCode::bad_data, "the column 'text' is a string, not a list of words");
  expect_error([&] { (void)read(folder.write("c.jsonl", "{\"text\": [\"a\", 1]}\n"), schema); },
               ErrorCode::bad_data, "the column 'text' holds a number in its list");
  expect_error([&] { (void)read(folder.write("d.csv", "text,label\na,b\n"), schema); },
               ErrorCode::bad_config, "lists of words exist only in JSON");
  std::string many = "{\"text\": [\"a\"";
  for (int i = 0; i < 1 << 16; ++i) many += ",\"a\"";
  expect_error([&] { (void)read(folder.write("e.jsonl", many + "]}\n"), schema); },
               ErrorCode::bad_data, "is a list of more than 65536 values");
}

TEST(Jsonl, rows_labels_lines_and_escapes) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl",
                                 "\xEF\xBB\xBF{\"text\": \"one \\u00e9\\n\", \"label\": \"x\", "
                                 "\"other\": {\"text\": [1, {\"label\": 2}]}}\r\n"
                                 "\n"
                                 "{\"label\": -3, \"text\": \"\"}\n"
                                 "{\"label\": true, \"text\": \"t\"}\n"
                                 "{\"label\": 2.0, \"text\": \"t\"}\n"
                                 "{\"label\": null, \"text\": \"t\"}\n"
                                 "{\"text\": \"t\"}\n"
                                 "{\"text\": \"last\", \"label\": \"\"}");
  const Read got = read(file);
  ASSERT_EQ(got.rows.size(), 7u);
  EXPECT_EQ(got.rows[0].text, "one \xC3\xA9\n");
  EXPECT_EQ(label_of(got.rows[0]), "x");
  EXPECT_EQ(label_of(got.rows[1]), "-3");
  EXPECT_EQ(got.rows[1].line, 3);
  EXPECT_EQ(label_of(got.rows[2]), "true");
  EXPECT_EQ(label_of(got.rows[3]), "2");
  EXPECT_FALSE(got.rows[4].label);
  EXPECT_FALSE(got.rows[5].label);
  EXPECT_FALSE(got.rows[6].label);
  EXPECT_EQ(got.rows[6].line, 8);
}

TEST(Jsonl, every_bad_row_is_named_with_file_and_line) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"{\"text\": \"a\"", "broken JSON at column"},
      {"{\"text\": \"a\"} x", "broken JSON at column"},
      {"{\"text\": \"\\ud800\"}", "broken JSON"},
      {"5", "a number where a JSON object is expected"},
      {"[1]", "a JSON array where an object is expected"},
      {"{\"text\": 5}", "the column 'text' is a number, not a string"},
      {"{\"text\": null}", "the column 'text' is null, not a string"},
      {"{\"text\": [\"a\"]}", "the column 'text' is an array, not a string"},
      {"{\"text\": \"a\", \"label\": {\"x\": 1}}", "the label is an object"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "the column 'text' occurs twice"},
      {"{\"body\": \"a\", \"label\": 1}",
       "there is no column 'text'; the columns are: body, label"},
      {"{\"text\": \"a\xFF\"}", "invalid UTF-8: byte 0xFF at offset 11"},
      {std::string("{\"text\": \"a\0\"}", 14), "a NUL byte at offset 11"},
      {"{\"text\": \"a\\u0000\"}", "holds a NUL character"},
      {std::string("{\"text\": \"") + std::string(static_cast<size_t>(kMaxRowBytes), 'a') + "\"}",
       "longer than 16 MiB"},
  };
  for (const auto& [line, text] : cases) {
    const std::string good = "{\"text\": \"ok\", \"label\": 1}\n";
    const auto file = folder.write("bad.jsonl", good + line + "\n" + good);
    expect_error([&] { (void)read(file); }, ErrorCode::bad_data, "bad.jsonl:2] ");
    expect_error([&] { (void)read(file); }, ErrorCode::bad_data, text);
    const Read skipped = read(file, {}, BadRows::skip);
    EXPECT_EQ(skipped.rows.size(), 2u) << text;
    EXPECT_EQ(skipped.rows.back().line, 3);
    EXPECT_EQ(skipped.log.count, 1);
    ASSERT_EQ(skipped.log.examples.size(), 1u);
    EXPECT_NE(skipped.log.examples[0].find("bad.jsonl:2: "), std::string::npos)
        << skipped.log.examples[0];
  }
}

TEST(Jsonl, hints_fit_what_is_wrong) {
  const TemporaryFolder folder;
  const std::string object = "\nhint: write every row as an object: {\"text\": \"a text\"";
  const std::pair<std::string, std::string> cases[] = {
      {"[\"good\", \"pos\"]", "a JSON array where an object is expected" + object},
      {"[[\"good\"], 1]", "a JSON array where an object is expected" + object},
      {"\"good\"", "a string where a JSON object is expected" + object},
      {"7", "a number where a JSON object is expected" + object},
      {"null", "null where a JSON object is expected" + object},
      {"{}", "the columns are: none\nhint: write every row as"},
      {"{\"text\": null}", "is null, not a string\nhint: give the row a text, or set bad_rows"},
      {"{\"text\": 5}", "is a number, not a string\nhint: write the value as a string"},
      {"{\"text\": [\"a\", \"b\"]}", "an array, not a string\nhint: join the tokens of a row"},
      {"{\"id\": 1, \"tokens\": [\"a\", \"b\"], \"label\": \"x\"}",
       "there is no column 'text', and 'tokens' is a list; the columns are: id, tokens, "
       "label\nhint: "
       "join the tokens of a row"},
      {"{\"text\": \"a\", \"label\": {\"x\": 1}}",
       "the label is an object\nhint: write \"label\": \"its label\""},
      {"{\"text\": \"a\", \"label\": [\"x\", 1]}", "texts and numbers\nhint: give texts alone"},
      {"{\"text\": \"a\", \"label\": [1, \"x\"]}", "texts and numbers\nhint: give texts alone"},
      {"{\"text\": \"a\", \"label\": [[1]]}", "the column 'label' holds a list in a list"},
      {"{\"text\": \"a\", \"label\": [{}]}", "the column 'label' holds an object in its list"},
      {"{\"text\": \"a\", \"label\": [null]}", "the column 'label' holds null in its list"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "occurs twice\nhint: keep one"},
  };
  for (const auto& [line, text] : cases) {
    const auto file = folder.write("bad.jsonl", line + "\n");
    try {
      (void)read(file);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
  for (const char* begin : {"[", "[{\"text\": \"a\"},", "[ {\"text\": \"a\"}]"}) {
    expect_error([&] { (void)read(folder.write("array.jsonl", std::string(begin) + "\n")); },
                 ErrorCode::bad_data, "name a file that is one array .json");
  }
}

TEST(Jsonl, a_column_that_the_first_row_lacks_is_a_configuration_error) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl", "{\"sentence\": \"a\", \"label\": 1}\n");
  expect_error([&] { (void)read(file, {}, BadRows::skip); }, ErrorCode::bad_config,
               "there is no column 'text'; the columns are: sentence, label\nhint: set text_column "
               "to one of them");
  expect_error([&] { (void)read(file, {.text_column = "sentence", .text_pair_column = "b"}); },
               ErrorCode::bad_config, "set text_pair_column");
  EXPECT_EQ(read(file, {.text_column = "sentence"}).rows.at(0).text, "a");
  const auto array = folder.write("array.jsonl", "[\n{\"text\": \"a\"}]\n");
  expect_error([&] { (void)read(array, {}, BadRows::skip); }, ErrorCode::bad_data, "jq -c");
}

TEST(Jsonl, hostile_nesting_and_numbers_are_survived) {
  const TemporaryFolder folder;
  const std::string deep = "{\"x\": " + std::string(2'000'000, '[') + "\n";
  expect_error([&] { (void)read(folder.write("deep.jsonl", deep)); }, ErrorCode::bad_data,
               "broken JSON");
  expect_error(
      [&] { (void)read(folder.write("big.jsonl", "{\"label\": 1e999, \"text\": \"a\"}\n")); },
      ErrorCode::bad_data, "big.jsonl:1");
}

TEST(BadRowLog, keeps_the_first_few_examples_only) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "broken\n";
  const Read got = read(folder.write("a.jsonl", text), {}, BadRows::skip);
  EXPECT_EQ(got.log.count, 100);
  EXPECT_EQ(static_cast<int64_t>(got.log.examples.size()), kMaxBadExamples);
}

TEST(Tsv, fields_are_split_at_tabs_and_quotes_are_text) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "id\tlabel\ttext\r\n0\tx\tsaid \"no\r\n\n1\t\tb\n");
  const Read got = read(file);
  ASSERT_EQ(got.rows.size(), 2u);
  EXPECT_EQ(got.rows[0].text, "said \"no");
  EXPECT_EQ(label_of(got.rows[0]), "x");
  EXPECT_FALSE(got.rows[1].label);
  EXPECT_EQ(got.rows[1].line, 4);
}

TEST(Tsv, bad_rows_and_headers_are_named) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "text\tlabel\na\tx\nb\nc\tx\ty\n\xC3\tx\nd\tz\n");
  expect_error([&] { (void)read(file); }, ErrorCode::bad_data,
               "a.tsv:3] 1 fields where the header has 2");
  const Read got = read(file, {}, BadRows::skip);
  EXPECT_EQ(got.rows.size(), 2u);
  EXPECT_EQ(got.log.count, 3);
  expect_error([&] { (void)read(folder.write("b.tsv", "a\tb\n1\t2\n")); }, ErrorCode::bad_config,
               "b.tsv:1] there is no column 'text'; the columns are: a, b\nhint: set text_column");
  expect_error([&] { (void)read(folder.write("c.tsv", "text\tb\n1\t2\n")); }, ErrorCode::bad_config,
               "set label_column");
  EXPECT_EQ(read(folder.file("c.tsv"), {.needs_label = false}).rows.size(), 1u);
  expect_error([&] { (void)read(folder.write("d.tsv", "text\ttext\tlabel\n")); },
               ErrorCode::bad_data, "occurs twice");
  expect_error([&] { (void)read(folder.write("e.tsv", "")); }, ErrorCode::bad_data,
               "a header line is expected");
}

TEST(Csv, rfc_4180_quotes_delimiters_and_line_breaks) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.csv",
                                 "text,\"label\"\r\n"
                                 "plain,1\r\n"
                                 "\"a, b\",2\n"
                                 "\"say \"\"hi\"\"\",3\n"
                                 "\"two\r\nlines\n\",4\n"
                                 "\n"
                                 "\"\",5\n"
                                 ",6\n"
                                 " spaced ,\"\"\n"
                                 "end,\"7\"");
  const Read got = read(file);
  ASSERT_EQ(got.rows.size(), 8u);
  EXPECT_EQ(got.rows[0].text, "plain");
  EXPECT_EQ(got.rows[1].text, "a, b");
  EXPECT_EQ(got.rows[2].text, "say \"hi\"");
  EXPECT_EQ(got.rows[3].text, "two\r\nlines\n");
  EXPECT_EQ(got.rows[3].line, 5);
  EXPECT_EQ(got.rows[4].text, "");
  EXPECT_EQ(got.rows[4].line, 9);
  EXPECT_EQ(label_of(got.rows[5]), "6");
  EXPECT_EQ(got.rows[6].text, " spaced ");
  EXPECT_FALSE(got.rows[6].label);
  EXPECT_EQ(label_of(got.rows[7]), "7");
}

TEST(Csv, stray_quotes_are_errors_and_reading_goes_on_at_the_next_line) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"a 5\" disk,x", "a quote inside a field"},
      {"\"a\"b,x", "text after the closing quote"},
      {"a\rb,x", "a carriage return without a line feed"},
      {"a,b,c", "3 fields where the header has 2"},
      {"a", "1 fields where the header has 2"},
      {"\"\xE2\x82\",x", "invalid UTF-8"},
      {std::string("a\0,x", 4), "a NUL byte"},
      {std::string(static_cast<size_t>(kMaxRowBytes) + 9, 'a') + ",x", "longer than 16 MiB"},
  };
  for (const auto& [line, text] : cases) {
    const auto file = folder.write("bad.csv", "text,label\nok,1\n" + line + "\nok,2\n");
    expect_error([&] { (void)read(file); }, ErrorCode::bad_data, "bad.csv:3] ");
    expect_error([&] { (void)read(file); }, ErrorCode::bad_data, text);
    const Read got = read(file, {}, BadRows::skip);
    ASSERT_EQ(got.rows.size(), 2u) << text;
    EXPECT_EQ(got.rows[1].line, 4) << text;
    EXPECT_EQ(got.log.count, 1);
  }
}

TEST(Csv, a_broken_header_is_no_row_to_skip_and_nobody_says_so) {
  const TemporaryFolder folder;
  for (const char* header : {"\"text\"s,label", "te\"xt,label", "te\rxt,label"}) {
    const auto file = folder.write("bad.csv", std::string(header) + "\nok,1\n");
    try {
      (void)read(file, {}, BadRows::skip);
      ADD_FAILURE() << header;
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), file + ":1");
      EXPECT_FALSE(error.hint().empty());
      EXPECT_EQ(error.hint().find("skip"), std::string::npos) << error.hint();
    }
  }
}

TEST(Csv, the_header_says_what_ends_a_field) {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& name, const std::string& text, char delimiter = 0) {
    RowSchema schema{.delimiter = delimiter};
    if (delimiter != 0) schema.text_column = "text|label", schema.label_column = "text;label";
    const Read got = read(folder.write(name, text), schema);
    ASSERT_EQ(got.rows.size(), 2u) << text;
    EXPECT_EQ(got.rows[0].text, "a, b|c") << text;
    EXPECT_EQ(label_of(got.rows[1]), "7") << text;
  };
  check("semicolon.csv", "id;text;label\n1;a, b|c;x\n2;d;7\n");
  check("tab.csv", "text\tlabel\n\"a, b|c\"\tx\nd\t7\n");
  check("bar.csv", "\n\"text\"|\"label\"\n\"a, b|c\"|x\nd|7\n");
  check("semicolon.tsv", "label;text\nx;\"a, b|c\"\n7;d\n");
  check("comma.csv", "text,label,a;b\n\"a, b|c\",x,\nd,7,\n");
  check("given.csv", "text;label,text|label\nx,\"a, b|c\"\n7,d\n", ',');
}

TEST(Csv, the_column_that_is_missing_is_missing_among_those_of_the_header) {
  const TemporaryFolder folder;
  expect_error([&] { (void)read(folder.write("a.csv", "review;sentiment\na;1\n")); },
               ErrorCode::bad_config, "the columns are: review, sentiment");
  expect_error([&] { (void)read(folder.write("b.csv", "text;label\na;1\n"), {.delimiter = ','}); },
               ErrorCode::bad_config, "the columns are: text;label");
  expect_error([&] { (void)read(folder.write("c.jsonl", "{}\n"), {.delimiter = ','}); },
               ErrorCode::bad_config, "[delimiter] ");
}

TEST(Rows, lines_may_end_with_carriage_returns_alone) {
  const TemporaryFolder folder;
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"a.csv", "text,label\r\"b\",x\rc,y"},
        {"a.tsv", "text\tlabel\rb\tx\rc\ty\r"},
        {"a.jsonl",
         "\xEF\xBB\xBF{\"text\": \"b\", \"label\": \"x\"}\r{\"text\": \"c\", "
         "\"label\": \"y\"}\r"}}) {
    const Read got = read(folder.write(name, text));
    ASSERT_EQ(got.rows.size(), 2u) << name;
    EXPECT_EQ(got.rows[0].text, "b");
    EXPECT_EQ(label_of(got.rows[1]), "y");
    EXPECT_EQ(got.rows[1].line, name == "a.jsonl" ? 2 : 3);
  }
}

TEST(Csv, an_open_quote_is_never_skipped) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.csv", "text,label\nok,1\n\"open,2\nrow,3\n");
  expect_error([&] { (void)read(file, {}, BadRows::skip); }, ErrorCode::bad_data,
               "a.csv:3] the quote that opens here is not closed");
  const auto header = folder.write("b.csv", "te\"xt,label\nok,1\n");
  expect_error([&] { (void)read(header, {}, BadRows::skip); }, ErrorCode::bad_data,
               "b.csv:1] a quote inside a field");
}

TEST(Rows, files_that_cannot_be_read_at_all) {
  const TemporaryFolder folder;
  expect_error([&] { (void)read(folder.file("none.jsonl")); }, ErrorCode::io,
               "cannot read: No such file");
  expect_error([&] { (void)read(folder.write("a.parquet", "x")); }, ErrorCode::bad_config,
               "name it .jsonl");
  std::filesystem::create_directory(folder.file("d.csv"));
  expect_error([&] { (void)read(folder.file("d.csv")); }, ErrorCode::io, "Is a directory");
  expect_error([&] { (void)read(folder.write("u.csv", "\xFF\xFEt")); }, ErrorCode::bad_data,
               "UTF-16");
  expect_error([&] { (void)read(folder.write("l.csv", std::string("t\0e\0", 4))); },
               ErrorCode::bad_data, "the file is UTF-16LE");
  expect_error([&] { (void)read(folder.write("b.csv", std::string("\0t\0e", 4))); },
               ErrorCode::bad_data, "iconv -f utf-16be -t utf-8");
  expect_error([&] { (void)read(folder.write("z.jsonl", "\x28\xB5\x2F\xFD")); },
               ErrorCode::bad_data, "compressed");
  EXPECT_TRUE(read(folder.write("empty.jsonl", "")).rows.empty());
  const auto file = folder.write("a.tsv", "a\tb\n1\t2\n");
  expect_error([&] { (void)read(file, {.text_column = "a", .label_column = "a"}); },
               ErrorCode::bad_config, "[label_column] names the column 'a', as does text_column");
  expect_error([&] { (void)read(file, {.text_column = ""}); }, ErrorCode::bad_config,
               "[text_column] is empty");
}

TEST(Rows, text_pairs_come_from_their_column) {
  const TemporaryFolder folder;
  const RowSchema schema{.text_column = "a", .text_pair_column = "b"};
  for (const auto& file :
       {folder.write("a.jsonl", "{\"a\": \"1\", \"b\": \"2\", \"label\": \"x\"}\n"),
        folder.write("a.tsv", "a\tb\tlabel\n1\t2\tx\n"),
        folder.write("a.csv", "a,b,label\n1,2,x\n")}) {
    const Read got = read(file, schema);
    EXPECT_EQ(got.rows.at(0).text, "1");
    EXPECT_EQ(got.rows.at(0).pair, "2");
  }
}

}  // namespace
}  // namespace snug::data
