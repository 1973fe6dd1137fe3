// SPDX-License-Identifier: Apache-2.0
// Numbers of files and texts do not depend on the locale that the host of the library has set: with
// decimal commas and other letters, of C and of C++.
#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <fstream>
#include <locale>
#include <string>

#include "base/numbers.h"
#include "base/shell.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_folder.h"
#include "snug/config.h"
#include "snug/run.h"
#include "snug/tokenize.h"

namespace snug::verbs {
namespace {

// Pieces whose scores differ behind the point alone: "ab" wins over "a", "b" or loses, by them.
constexpr const char* kUnigram = R"({"version": "1.0", "added_tokens": [],
  "normalizer": null, "pre_tokenizer": null, "post_processor": {"type": "ByteLevel"}, "decoder": null,
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["<pad>", 0.0],
    ["a", -1.25], ["b", -1.5], ["ab", -2.875], ["c", -1.75], ["bc", -3.125], ["abc", -4.75]]}})";

void write_inputs(const io::TestFolder& folder) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += "{\"text\": \"ab" + std::string(static_cast<size_t>(i % 5), 'b') +
            " c\", \"label\": " + std::string(i % 2 == 0 ? "0.25" : "-1.5e-1") + ", \"w\": 0.75}\n";
  io::write_file(folder / "rows.jsonl", rows);
  std::string table = "text,label,w\n";
  for (int i = 0; i < 40; ++i) table += i % 2 == 0 ? "ab c,0.25,0.5\n" : "bc,1.75,1.5\n";
  io::write_file(folder / "rows.csv", table);
  io::make_folders(folder / "unigram");
  io::write_file(folder / "unigram/tokenizer.json", kUnigram);
}

// What was read and computed, as text.
std::string result_of(const io::TestFolder& folder, const std::string& name) {
  std::string said;
  TextEncoder encoder(folder / "unigram");
  for (const char* text : {"abcab", "cabbc", "bcbc"}) {
    for (const int32_t id : encoder.encode(text)) said += std::to_string(id) + " ";
  }
  for (const char* rows : {"rows.jsonl", "rows.csv"}) {
    RunConfig config = RunConfig::parse(
        "%YAML 1.2\n---\nmodel: mlp\nmax_steps: 2\ntrain_batch_size: 8\nmax_seq_length: 8\n"
        "learning_rate: 0.0125\nweight_decay: 1.5e-2\nmemory: 65.5MiB\nweight_column: w\n"
        "param_groups: [{match: \"*.bias\", weight_decay: 0.25}]\n",
        "run.yaml");
    said += config.to_yaml();
    config.train_file = folder / rows;
    config.output_dir = folder / (name + rows);
    const TrainSummary summary = train_model(config);
    said += to_json(summary.final_metrics);
    for (const MetricValue& each : summary.final_metrics.values) said += each.text + "\n";
    RunConfig evaluation = config;
    evaluation.model = config.output_dir + "/last";
    evaluation.test_file = config.train_file;
    said += to_json(evaluate_model(evaluation));
  }
  said += io::parse_json(R"({"a": [1.5e-3, 1234567.875, -0.25]})", "text").dump();
  said += fixed_text(1234.5, 2) + digits_text(0.000125, 3) + shell_word("a\xfd");
  return said;
}

/// The process in another locale; of C++ where `language` is none of C's.
class OtherLocale {
 public:
  OtherLocale() : plain_c_(std::setlocale(LC_ALL, nullptr)), plain_(std::locale()) {}
  OtherLocale(const OtherLocale&) = delete;
  OtherLocale& operator=(const OtherLocale&) = delete;
  ~OtherLocale() {
    std::locale::global(plain_);
    std::setlocale(LC_ALL, plain_c_.c_str());
  }

 private:
  std::string plain_c_;
  std::locale plain_;
};

class DecimalComma : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// Skips and leaves a line for the end of ./test.sh, so that nobody believes that the test ran.
#define NOT_RUN(reason)                                                                          \
  do {                                                                                           \
    if (const char* list = std::getenv("SNUG_NOT_RUN"))                                          \
      std::ofstream(list, std::ios::app)                                                         \
          << ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() << "."   \
          << ::testing::UnitTest::GetInstance()->current_test_info()->name() << ": " << (reason) \
          << "\n";                                                                               \
    GTEST_SKIP() << (reason);                                                                    \
  } while (false)

// Turkish has decimal commas; in ISO 8859-9 the small letter of I is no ASCII.
TEST(Locale, Numbers_and_letters_do_not_follow_the_language_of_C) {
  const io::TestFolder folder;
  write_inputs(folder);
  const std::string plain = result_of(folder, "plain");
  const OtherLocale back;
  ::setenv("LOCPATH", folder.path().c_str(), 1);
  const std::string make =
      "localedef -i tr_TR -f ISO-8859-9 " + folder.path() + "/tr_TR.iso88599 >/dev/null 2>&1";
  (void)!std::system(make.c_str());
  const bool is_set = std::setlocale(LC_ALL, "tr_TR.iso88599") != nullptr;
  ::unsetenv("LOCPATH");
  if (!is_set) NOT_RUN("no Turkish locale can be made: the package locales is missing");
  ASSERT_EQ(*std::localeconv()->decimal_point, ',');
  EXPECT_EQ(result_of(folder, "turkish"), plain);
}

TEST(Locale, Numbers_do_not_follow_the_global_locale_of_cpp) {
  const io::TestFolder folder;
  write_inputs(folder);
  const std::string plain = result_of(folder, "plain");
  const OtherLocale back;
  std::locale::global(std::locale(std::locale::classic(), new DecimalComma));
  EXPECT_EQ(result_of(folder, "comma"), plain);
}

}  // namespace
}  // namespace snug::verbs
