// SPDX-License-Identifier: Apache-2.0
#include "text/wordpiece_model.h"

#include <algorithm>

#include "text/unicode_rules.h"

namespace snug::text {
namespace {

class WordPieceModel final : public WordModel {
 public:
  WordPieceModel(const TokenTable& vocabulary, WordPieceOptions options)
      : table_(vocabulary),
        options_(std::move(options)),
        prefix_hash_(TokenTable::hash_more(TokenTable::kHashSeed, options_.prefix)) {}

  void append(std::string_view word, std::vector<int32_t>& ids,
              WordScratch& scratch) const override {
    const auto longest = static_cast<uint64_t>(options_.max_input_chars_per_word);
    if (word.size() > longest && static_cast<uint64_t>(count_code_points(word)) > longest)
      return ids.push_back(options_.unk);
    auto& boundaries = scratch.boundaries;
    const size_t first = ids.size();
    size_t begin = 0;
    while (begin < word.size()) {
      // The hash at every end of a code point, in one pass; then the table is asked from the
      // longest piece down.
      const std::string_view prefix =
          begin == 0 ? std::string_view() : std::string_view(options_.prefix);
      uint64_t hash = begin == 0 ? TokenTable::kHashSeed : prefix_hash_;
      const size_t limit = std::min(word.size(), begin + table_.longest_bytes());
      boundaries.clear();
      for (size_t at = begin; at < limit;) {
        hash = TokenTable::hash_more(hash, static_cast<unsigned char>(word[at]));
        ++at;
        const bool is_end =
            at == word.size() || (static_cast<unsigned char>(word[at]) & 0xC0) != 0x80;
        if (is_end) boundaries.push_back({hash, at});
      }
      int32_t id = -1;
      for (size_t i = boundaries.size(); i-- > 0 && id < 0;) {
        const size_t end = boundaries[i].end;
        id = table_.find(boundaries[i].hash, prefix, word.substr(begin, end - begin));
        if (id >= 0) begin = end;
      }
      if (id < 0) {  // one character without a piece makes the whole word unknown
        ids.resize(first);
        ids.push_back(options_.unk);
        return;
      }
      ids.push_back(id);
    }
  }
  [[nodiscard]] int32_t unk_id() const override { return options_.unk; }
  [[nodiscard]] bool is_worth_caching() const override { return false; }
  // Ends of one piece only.
  [[nodiscard]] int64_t bytes_per_byte() const override { return 0; }
  [[nodiscard]] int64_t heap_bytes() const override { return 0; }

 private:
  const TokenTable& table_;
  WordPieceOptions options_;
  uint64_t prefix_hash_;
};

}  // namespace

std::unique_ptr<const WordModel> make_wordpiece(const TokenTable& vocabulary,
                                                WordPieceOptions options) {
  return std::make_unique<const WordPieceModel>(vocabulary, std::move(options));
}

}  // namespace snug::text
