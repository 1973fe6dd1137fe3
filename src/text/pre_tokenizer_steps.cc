// SPDX-License-Identifier: Apache-2.0
// Every kind of pre-tokenizer, and how each is read. A new kind is a class and a line of
// kPreTokenizerReaders.
#include <algorithm>
#include <array>

#include "text/bert_normalizer.h"
#include "text/byte_alphabet.h"
#include "text/json_fields.h"
#include "text/pattern_field.h"
#include "text/pre_tokenizer.h"
#include "text/split_behavior.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

using PreTokenizerSteps = std::vector<std::unique_ptr<PreTokenizerStep>>;

class BertPreTokenizer final : public PreTokenizerStep {
 public:
  void split(const TextPiece& piece, StepBuffers&, PieceSink out) const override {
    for_each_word(piece.text, [&](std::string_view word) {
      out({word, piece.is_first && word.data() == piece.text.data()});
    });
  }
};

/// Cuts at characters of a kind.
class CharacterStep final : public PreTokenizerStep {
 public:
  using Is = bool (*)(char32_t c);
  CharacterStep(Is is, SplitBehavior behavior) : is_(is), behavior_(behavior) {}
  void split(const TextPiece& piece, StepBuffers&, PieceSink out) const override {
    BehaviorSplitter splitter(piece, behavior_, out);
    size_t begin = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t here = at;
      if (!is_(next_code_point(piece.text, at))) continue;
      if (begin < here) splitter.take(begin, here, false);
      splitter.take(here, at, true);
      begin = at;
    }
    if (begin < piece.text.size()) splitter.take(begin, piece.text.size(), false);
    splitter.finish();
  }

 private:
  Is is_;
  SplitBehavior behavior_;
};

/// Cuts behind so many characters.
class FixedLengthStep final : public PreTokenizerStep {
 public:
  explicit FixedLengthStep(int64_t length) : length_(length) {}
  void split(const TextPiece& piece, StepBuffers&, PieceSink out) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      for (int64_t i = 0; i < length_ && at < piece.text.size(); ++i)
        (void)next_code_point(piece.text, at);
      out({piece.text.substr(begin, at - begin), piece.is_first && begin == 0});
    }
  }

 private:
  int64_t length_;
};

/// Words and runs of what is neither word nor white space.
class WhitespaceStep final : public PreTokenizerStep {
 public:
  void split(const TextPiece& piece, StepBuffers&, PieceSink out) const override {
    enum class Kind : uint8_t { space, word, other } run = Kind::space;
    size_t begin = 0;
    const auto end_run = [&](size_t end) {
      if (run != Kind::space)
        out({piece.text.substr(begin, end - begin), piece.is_first && begin == 0});
    };
    for (size_t at = 0; at < piece.text.size();) {
      const size_t here = at;
      const char32_t c = next_code_point(piece.text, at);
      const Kind kind = is_whitespace(c)       ? Kind::space
                        : is_word_character(c) ? Kind::word
                                               : Kind::other;
      if (kind == run) continue;
      end_run(here);
      begin = here;
      run = kind;
    }
    end_run(piece.text.size());
  }
};

void split_by_pattern(const CharPattern& pattern, bool is_inverted, SplitBehavior behavior,
                      const TextPiece& piece, PieceSink out) {
  BehaviorSplitter splitter(piece, behavior, out);
  int64_t steps = CharPattern::steps_for(piece.text);
  size_t done = 0;
  while (const auto match = pattern.find(piece.text, done, steps)) {
    if (done < match->begin) splitter.take(done, match->begin, is_inverted);
    splitter.take(match->begin, match->end, !is_inverted);
    done = match->end;
  }
  if (done < piece.text.size()) splitter.take(done, piece.text.size(), is_inverted);
  splitter.finish();
}

class SplitStep final : public PreTokenizerStep {
 public:
  SplitStep(CharPattern pattern, SplitBehavior behavior, bool is_inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), is_inverted_(is_inverted) {}
  void split(const TextPiece& piece, StepBuffers&, PieceSink out) const override {
    split_by_pattern(pattern_, is_inverted_, behavior_, piece, out);
  }
  [[nodiscard]] int64_t heap_bytes() const override { return pattern_.heap_bytes(); }

 private:
  CharPattern pattern_;
  SplitBehavior behavior_;
  bool is_inverted_;
};

/// GPT-2's: words with the space before them, then each byte as a character of its own.
class ByteLevelPreTokenizer final : public PreTokenizerStep {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex, const std::string& where)
      : add_prefix_space_(add_prefix_space) {
    if (use_regex)
      pattern_.emplace(
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", where);
  }
  void split(const TextPiece& piece, StepBuffers& buffers, PieceSink out) const override {
    TextPiece whole = piece;
    if (add_prefix_space_ && !piece.text.starts_with(' ')) {
      buffers.text = " ";
      buffers.text += piece.text;
      whole.text = buffers.text;
    }
    auto to_bytes = [&](const TextPiece& part) {
      std::string& bytes = buffers.part;
      bytes.clear();
      for (char byte : part.text) append_byte_character(static_cast<unsigned char>(byte), bytes);
      out({bytes, part.is_first});
    };
    if (pattern_) {
      split_by_pattern(*pattern_, false, SplitBehavior::isolated, whole, PieceSink(to_bytes));
    } else {
      to_bytes(whole);
    }
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return pattern_ ? pattern_->heap_bytes() : 0;
  }

 private:
  bool add_prefix_space_;
  std::optional<CharPattern> pattern_;
};

enum class PrependScheme : uint8_t { always, first, never };

class MetaspaceStep final : public PreTokenizerStep {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme, bool splits)
      : replacement_(std::move(replacement)), scheme_(scheme), splits_(splits) {}
  void split(const TextPiece& piece, StepBuffers& buffers, PieceSink out) const override {
    std::string& buffer = buffers.text;
    buffer.clear();
    const bool begins_so = piece.text.starts_with(' ') || piece.text.starts_with(replacement_);
    const bool is_asked =
        scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && piece.is_first);
    if (is_asked && !begins_so) buffer += replacement_;
    for (char c : piece.text) {
      if (c == ' ') {
        buffer += replacement_;
      } else {
        buffer.push_back(c);
      }
    }
    if (!splits_) return out({buffer, piece.is_first});
    const std::string_view all = buffer;
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = std::min(all.find(replacement_, begin + 1), all.size());
      out({all.substr(begin, end - begin), piece.is_first && begin == 0});
      begin = end;
    }
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return static_cast<int64_t>(replacement_.capacity()) + 1;
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool splits_;
};

void read_bert_pre_tokenizer(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type"});
  steps.push_back(std::make_unique<BertPreTokenizer>());
}

void read_whitespace(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type"});
  steps.push_back(std::make_unique<WhitespaceStep>());
}

void read_whitespace_split(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type"});
  steps.push_back(std::make_unique<CharacterStep>(is_whitespace, SplitBehavior::removed));
}

void read_punctuation(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type", "behavior"});
  const SplitBehavior behavior =
      fields.has("behavior") ? read_behavior(fields) : SplitBehavior::isolated;
  steps.push_back(std::make_unique<CharacterStep>(is_punctuation, behavior));
}

void read_digits(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type", "individual_digits"});
  const SplitBehavior behavior = fields.required_boolean("individual_digits")
                                     ? SplitBehavior::isolated
                                     : SplitBehavior::contiguous;
  steps.push_back(std::make_unique<CharacterStep>(is_number, behavior));
}

void read_split(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type", "pattern", "behavior", "invert"});
  steps.push_back(std::make_unique<SplitStep>(read_pattern(fields), read_behavior(fields),
                                              fields.required_boolean("invert")));
}

void read_delimiter(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type", "delimiter"});
  const std::string delimiter = fields.required_string("delimiter");
  if (count_code_points(delimiter) != 1) fields.fail("has a delimiter that is no character");
  steps.push_back(std::make_unique<SplitStep>(CharPattern::literal(delimiter, fields.where()),
                                              SplitBehavior::removed, false));
}

void read_fixed_length(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type", "length"});
  const int64_t length = fields.required_count("length");
  if (length == 0) fields.fail("has a length of 0");
  steps.push_back(std::make_unique<FixedLengthStep>(length));
}

void read_byte_level_pre_tokenizer(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  (void)fields.required_boolean("trim_offsets");
  steps.push_back(std::make_unique<ByteLevelPreTokenizer>(
      fields.required_boolean("add_prefix_space"), fields.boolean("use_regex").value_or(true),
      fields.where()));
}

void read_metaspace(const JsonFields& fields, PreTokenizerSteps& steps) {
  fields.allow_only(
      {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
  const std::string replacement = fields.required_string("replacement");
  if (count_code_points(replacement) != 1) fields.fail("has a replacement that is no character");
  if (fields.has("str_rep")) fields.require_string("str_rep", replacement);
  PrependScheme scheme = PrependScheme::always;
  if (fields.has("prepend_scheme")) {
    const std::string name = fields.required_string("prepend_scheme");
    if (name == "first") {
      scheme = PrependScheme::first;
    } else if (name == "never") {
      scheme = PrependScheme::never;
    } else if (name != "always") {
      fields.fail("prepend_scheme '" + name + "' is not supported");
    }
  }
  if (fields.boolean("add_prefix_space") == false) scheme = PrependScheme::never;
  // Where pieces begin in the text as it came is not followed through other steps.
  if (scheme == PrependScheme::first && !steps.empty())
    fields.fail("prepend_scheme 'first' behind other pre-tokenizers is not supported");
  steps.push_back(
      std::make_unique<MetaspaceStep>(replacement, scheme, fields.boolean("split").value_or(true)));
}

struct PreTokenizerReader {
  std::string_view type;
  void (*read)(const JsonFields& fields, PreTokenizerSteps& steps);
};
constexpr PreTokenizerReader kPreTokenizerReaders[] = {
    {"BertPreTokenizer", read_bert_pre_tokenizer},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"Punctuation", read_punctuation},
    {"Digits", read_digits},
    {"Split", read_split},
    {"CharDelimiterSplit", read_delimiter},
    {"FixedLength", read_fixed_length},
    {"ByteLevel", read_byte_level_pre_tokenizer},
    {"Metaspace", read_metaspace},
};

void read_pre_tokenizer_steps(const io::JsonValue& value, const std::string& where, int depth,
                              PreTokenizerSteps& steps) {
  const JsonFields fields(value, where, "pre_tokenizer");
  const std::string type = fields.required_string("type");
  if (type == "Sequence") {
    fields.allow_only({"type", "pretokenizers"});
    const io::JsonValue list = fields.at("pretokenizers");
    if (!list.is_array() || depth > 4) fields.fail("is a Sequence that is no list");
    for (int64_t i = 0; i < list.size(); ++i)
      read_pre_tokenizer_steps(list.at(i), where, depth + 1, steps);
    return;
  }
  const auto* reader =
      std::find_if(std::begin(kPreTokenizerReaders), std::end(kPreTokenizerReaders),
                   [&](const PreTokenizerReader& one) { return one.type == type; });
  if (reader == std::end(kPreTokenizerReaders)) fields.fail("'" + type + "' is not supported");
  reader->read(fields, steps);
}

}  // namespace

PreTokenizer read_pre_tokenizer(const std::optional<io::JsonValue>& value,
                                const std::string& where) {
  PreTokenizerSteps steps;
  if (value && !value->is_null()) read_pre_tokenizer_steps(*value, where, 0, steps);
  constexpr size_t kMaxSteps = 16;  // each keeps a buffer as long as the text
  if (steps.size() > kMaxSteps)
    JsonFields(*value, where, "pre_tokenizer").fail("has more than 16 steps");
  steps.shrink_to_fit();
  return PreTokenizer(std::move(steps));
}

}  // namespace snug::text
