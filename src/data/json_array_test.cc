// SPDX-License-Identifier: Apache-2.0
// Rows out of one array of objects, and which files a value means.
#include "data/json_array.h"

#include "data/data_testing.h"
#include "data/row_files.h"
#include "data/rows.h"

namespace snug::data {
namespace {

struct ReadArray {
  std::vector<std::string> texts;
  std::vector<std::string> labels;
  std::vector<int64_t> lines;
  BadRowLog log;
};

ReadArray read(const std::string& file, BadRows policy = BadRows::stop,
               const RowSchema& schema = {}) {
  ReadArray result;
  result.log.policy = policy;
  const auto reader = open_rows(file, schema, result.log);
  Row row;
  while (reader->next(row)) {
    result.texts.push_back(row.text);
    result.labels.push_back(row.label ? row.label->items.front() : "");
    result.lines.push_back(row.line);
    EXPECT_EQ(row.item, static_cast<int64_t>(result.texts.size()) + result.log.count);
  }
  return result;
}

TEST(JsonArray, rows_are_its_objects_however_they_are_laid_out) {
  const TemporaryFolder folder;
  const auto one_line = folder.write(  // pandas: orient="records"
      "a.json", R"([{"text":"a, b","label":1},{"text":"say \"]}\" \\","label":2}])");
  const ReadArray flat = read(one_line);
  EXPECT_EQ(flat.texts, (std::vector<std::string>{"a, b", "say \"]}\" \\"}));
  EXPECT_EQ(flat.labels, (std::vector<std::string>{"1", "2"}));
  const auto pretty = folder.write(
      "b.json",
      "\xEF\xBB\xBF\n [\r\n  {\r\n    \"text\": \"a\",\r\n    \"more\": {\"x\": [1, [2]]},\r\n"
      "    \"label\": \"x\"\r\n  } ,\n  {\"label\": \"y\", \"text\": \"b\"}\n]\n\n");
  const ReadArray laid_out = read(pretty);
  EXPECT_EQ(laid_out.texts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(laid_out.labels, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(laid_out.lines, (std::vector<int64_t>{3, 8}));
  EXPECT_TRUE(read(folder.write("empty.json", " [ ] ")).texts.empty());
  const auto lines = folder.write("lines.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  BadRowLog log;
  const auto reader = open_rows(lines, {}, log);
  Row row;
  EXPECT_TRUE(reader->next(row));
  EXPECT_EQ(row.item, 0);
}

TEST(JsonArray, an_object_that_is_bad_is_named_and_can_be_skipped) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "a.json",
      "[{\"text\": \"a\"},\n{\"text\": 7}, 12, \"x\", [1], null, {\"text\": \"b\"},\n{\"text\" 1}, "
      "{\"text\": \"c\xFF\"}, {\"text\": \"d\"}]");
  expect_error([&] { (void)read(file); }, ErrorCode::bad_data,
               "a.json:2, object 2] the column 'text' is a number, not a string");
  const ReadArray got = read(file, BadRows::skip);
  EXPECT_EQ(got.texts, (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(got.log.count, 7);
  expect_error([&] { (void)read(folder.write("b.json", "[{\"text\": \"a\"}, {\"text\" 1}]")); },
               ErrorCode::bad_data, "every element of the array must be one complete JSON object");
}

TEST(JsonArray, what_is_no_array_is_an_error_that_cannot_be_skipped) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"[", "ends inside of its array"},
      {"[{\"text\": \"a\"},\n{\"text\": \"b",
       "a.json:2] the file ends inside of its array, in or "
       "behind the object 2, which begins in line 2"},
      {"[{\"text\": \"a\"}\n", "ends inside of its array, in or behind the object 1"},
      {"[{\"text\": \"a\"},", "ends inside of its array"},
      {"[{\"text\": \"a\"} {\"text\": \"b\"}]",
       "'{' stands where a comma or the end of the array is expected, behind the object 1"},
      {"[{\"text\": \"a\"},]", "']' stands where an object is expected, behind the object 1"},
      {"[,]", "',' stands where an object is expected"},
      {"[{\"text\": \"a\"}\x01]", "the byte 0x01 stands where"},
      {"[{\"text\": \"a\"}]\n[]", "a.json:2] the file goes on behind the end of its array"},
  };
  for (const auto& [text, what] : cases) {
    const auto file = folder.write("a.json", text);
    expect_error([&] { (void)read(file, BadRows::skip); }, ErrorCode::bad_data, what);
  }
}

TEST(JsonArray, a_row_above_the_bound_is_one_row) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("a.json", "[{\"text\": \"a\"}, {\"text\": \"" + std::string(kMaxRowBytes, 'x') +
                                 "\"}, {\"text\": \"b\"}]");
  expect_error([&] { (void)read(file); }, ErrorCode::bad_data,
               "a.json:1, object 2] the row is longer than 16 MiB");
  EXPECT_EQ(read(file, BadRows::skip).texts, (std::vector<std::string>{"a", "b"}));
  expect_error([&] { (void)read(file, BadRows::skip, {.affordable_bytes = 1 << 20}); },
               ErrorCode::out_of_budget, "a row is longer than 1048576 bytes");
}

TEST(RowFiles, one_name_is_one_file_and_lists_and_patterns_are_several) {
  const TemporaryFolder folder;
  const auto a = folder.write("p-10.jsonl", "");
  const auto b = folder.write("p-9.jsonl", "");
  const auto comma = folder.write("x,y*.csv", "");
  EXPECT_EQ(row_files("absent.jsonl"), std::vector<std::string>{"absent.jsonl"});
  EXPECT_EQ(row_files(comma), std::vector<std::string>{comma});
  EXPECT_EQ(row_files(folder.file("p-*.jsonl")), (std::vector<std::string>{a, b}));
  EXPECT_EQ(row_files(b + ", " + a), (std::vector<std::string>{b, a}));
  EXPECT_EQ(row_files(folder.file("p-9*") + "," + folder.file("p-1?.jsonl")),
            (std::vector<std::string>{b, a}));
  expect_error([&] { (void)row_files(folder.file("q-*.jsonl")); }, ErrorCode::bad_config,
               "q-*.jsonl] no file has a name like this");
  expect_error([&] { (void)row_files(a + "," + folder.file("p-*")); }, ErrorCode::bad_config,
               "names the file " + a + " twice");
  expect_error([&] { (void)row_files(a + ",,"); }, ErrorCode::bad_config, "an empty name");
  expect_error([&] { (void)row_files(a + ",-"); }, ErrorCode::bad_config, "'-' is a stream");
}

TEST(RowFiles, a_stream_says_by_its_first_bytes_what_it_is) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {" [{}]", ".json"},    {"\n{}", ".jsonl"},       {"text\tlabel\na,b\tx\n", ".tsv"},
      {"", ".csv"},          {"text,label\n", ".csv"}, {"\"a\tb\",label", ".tsv"},
      {"text;label", ".csv"}};
  for (const auto& [text, suffix] : cases)
    EXPECT_EQ(suffix_of_rows(folder.write("stream", text)), suffix) << text;
}

}  // namespace
}  // namespace snug::data
