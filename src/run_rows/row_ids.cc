// SPDX-License-Identifier: Apache-2.0
#include "run_rows/row_ids.h"

#include <limits>

#include "data/row_files.h"
#include "data/rows.h"
#include "data/source.h"

namespace snug::run_rows {

void encode_rows(const RunConfig& config, const RunOptions& options,
                 const text::Tokenizer& tokenizer,
                 const std::function<void(const std::vector<int32_t>& ids)>& sink) {
  constexpr int64_t kUncut = std::numeric_limits<int32_t>::max();
  const bool has_pair = !config.text_pair_column.empty();
  data::RowSchema schema = predicted_schema(config, options, data::one_label(), tokenizer);
  schema.text_form = data::TextForm::any;
  text::EncodeScratch scratch;
  text::Encoding encoding;
  std::vector<int32_t> first_tokens;
  for (const std::string& file : data::row_files(config.test_file)) {
    data::BadRowLog log;
    const auto reader = data::open_rows(file, schema, log);
    data::Row row;
    while (reader->next(row)) {
      data::check_cancelled(options.cancel, file);
      if (row.has_words) {
        tokenizer.encode_words(row.words, kUncut, encoding, first_tokens, scratch);
      } else {
        const std::optional<std::string_view> pair =
            has_pair ? std::optional<std::string_view>(row.pair) : std::nullopt;
        tokenizer.encode(row.text, pair, kUncut, encoding, scratch);
      }
      sink(encoding.ids);
    }
  }
}

}  // namespace snug::run_rows
