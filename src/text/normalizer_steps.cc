// SPDX-License-Identifier: Apache-2.0
// Every kind of normalizer, and how each is read. A new kind is a class and a line of kReaders.
#include <algorithm>
#include <array>

#include "snug/error.h"
#include "text/base64.h"
#include "text/bert_normalizer.h"
#include "text/byte_alphabet.h"
#include "text/char_pattern.h"
#include "text/charsmap.h"
#include "text/graphemes.h"
#include "text/json_fields.h"
#include "text/normal_forms.h"
#include "text/normalizer.h"
#include "text/pattern_field.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

using Steps = std::vector<std::unique_ptr<NormalizerStep>>;

class BertStep final : public NormalizerStep {
 public:
  explicit BertStep(const BertNormalizerOptions& options) : normalizer_(options) {}
  bool apply(std::string_view text, NormalizeScratch& scratch, std::string& out) const override {
    normalizer_.normalize(text, scratch.marks, out);
    size_t at = 0;
    return normalizer_.options().clean_text && !text.empty() &&
           is_deleted(next_code_point(text, at));
  }

 private:
  BertNormalizer normalizer_;
};

class NormalFormStep final : public NormalizerStep {
 public:
  explicit NormalFormStep(NormalForm form) : form_(form) {}
  bool apply(std::string_view text, NormalizeScratch& scratch, std::string& out) const override {
    append_normal_form(form_, text, scratch.marks, out);
    return false;
  }

 private:
  NormalForm form_;
};

/// A function of one code point, which appends what it becomes.
class EachStep final : public NormalizerStep {
 public:
  using Each = void (*)(char32_t c, std::string& out);
  explicit EachStep(Each each) : each_(each) {}
  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    bool begins_elsewhere = false;
    for (size_t at = 0; at < text.size();) {
      const bool is_first = at == 0;
      each_(next_code_point(text, at), out);
      begins_elsewhere |= is_first && out.empty();
    }
    return begins_elsewhere;
  }

 private:
  Each each_;
};

void lower_each(char32_t c, std::string& out) {
  const ShortText lower = lowercase(c);
  for (int i = 0; i < lower.size; ++i) append_utf8(lower.c[i], out);
}

void strip_accent(char32_t c, std::string& out) {
  if (!is_mark(c)) append_utf8(c, out);
}

/// The rules of sentencepiece's nmt, as the package has them.
void clean_nmt(char32_t c, std::string& out) {
  const bool is_gone = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                       c == 0x8F || c == 0x9F;
  if (is_gone) return;
  const bool is_space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                        (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xFEFF || c == 0xFFFD;
  append_utf8(is_space ? U' ' : c, out);
}

/// Each byte as a character of its own.
class ByteLevelStep final : public NormalizerStep {
 public:
  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    for (const char byte : text) append_byte_character(static_cast<unsigned char>(byte), out);
    return false;
  }
};

class StripStep final : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    size_t begin = 0;
    size_t end = text.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!is_whitespace(next_code_point(text, next))) break;
      begin = next;
    }
    while (right_ && begin < end) {
      size_t last = end - 1;
      while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
      size_t next = last;
      if (!is_whitespace(next_code_point(text, next))) break;
      end = last;
    }
    out.append(text.substr(begin, end - begin));
    return begin > 0;
  }

 private:
  bool left_, right_;
};

class PrependStep final : public NormalizerStep {
 public:
  explicit PrependStep(std::string text) : text_(std::move(text)) {}
  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    if (text.empty()) return false;
    out.append(text_);
    out.append(text);
    return false;
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return static_cast<int64_t>(text_.capacity()) + 1;
  }

 private:
  std::string text_;
};

class ReplaceStep final : public NormalizerStep {
 public:
  ReplaceStep(CharPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    int64_t steps = CharPattern::steps_for(text);
    size_t done = 0;
    bool begins_elsewhere = false;
    while (const auto match = pattern_.find(text, done, steps)) {
      out.append(text.substr(done, match->begin - done));
      begins_elsewhere |= match->begin == 0 && content_.empty();
      out.append(content_);
      done = match->end;
    }
    out.append(text.substr(done));
    return begins_elsewhere;
  }
  [[nodiscard]] int64_t heap_bytes() const override {
    return pattern_.heap_bytes() + static_cast<int64_t>(content_.capacity()) + 1;
  }

 private:
  CharPattern pattern_;
  std::string content_;
};

/// The charsmap as the package applies it: to clusters below six bytes as a whole, by the shortest
/// rule that they begin with; else to their code points.
class PrecompiledStep final : public NormalizerStep {
 public:
  explicit PrecompiledStep(Charsmap map) : map_(std::move(map)) {
    for (size_t c = 0; c < ascii_changes_.size(); ++c) {
      const char byte = static_cast<char>(c);
      ascii_changes_[c] = map_.shortest({&byte, 1}).length > 0;
    }
  }
  bool apply(std::string_view text, NormalizeScratch&, std::string& out) const override {
    constexpr size_t kLongestCluster = 5;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t end = grapheme_end(text, at);
      const auto byte = static_cast<unsigned char>(text[at]);
      if (end == at + 1 && byte < 0x80 && !ascii_changes_[byte]) {
        out.push_back(text[at]);
        at = end;
        continue;
      }
      const std::string_view cluster = text.substr(at, end - at);
      at = end;
      if (cluster.size() <= kLongestCluster && replace(cluster, out)) continue;
      for (size_t i = 0; i < cluster.size();) {
        const size_t begin = i;
        (void)next_code_point(cluster, i);
        const std::string_view part = cluster.substr(begin, i - begin);
        if (!replace(part, out)) out.append(part);
      }
    }
    return false;
  }
  [[nodiscard]] int64_t heap_bytes() const override { return map_.heap_bytes(); }

 private:
  bool replace(std::string_view part, std::string& out) const {
    const Charsmap::Match match = map_.shortest(part);
    if (match.length > 0) out.append(match.replacement);
    return match.length > 0;
  }

  Charsmap map_;
  std::array<bool, 128> ascii_changes_{};
};

void read_bert(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  BertNormalizerOptions options;
  options.clean_text = fields.required_boolean("clean_text");
  options.handle_chinese_chars = fields.required_boolean("handle_chinese_chars");
  options.strip_accents = fields.boolean("strip_accents");
  options.lowercase = fields.required_boolean("lowercase");
  steps.push_back(std::make_unique<BertStep>(options));
}

template <NormalForm kForm>
void read_form(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type"});
  steps.push_back(std::make_unique<NormalFormStep>(kForm));
}

template <EachStep::Each kEach>
void read_each(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type"});
  steps.push_back(std::make_unique<EachStep>(kEach));
}

void read_byte_level(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type"});
  steps.push_back(std::make_unique<ByteLevelStep>());
}

void read_strip(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type", "strip_left", "strip_right"});
  steps.push_back(std::make_unique<StripStep>(fields.required_boolean("strip_left"),
                                              fields.required_boolean("strip_right")));
}

void read_prepend(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type", "prepend"});
  steps.push_back(std::make_unique<PrependStep>(fields.required_string("prepend")));
}

void read_replace(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type", "pattern", "content"});
  bool is_expression = false;
  CharPattern pattern = read_pattern(fields, &is_expression);
  std::string content = fields.required_string("content");
  if (is_expression && content.find('$') != std::string::npos)
    fields.fail("replaces a regular expression by '" + content + "', which may name groups");
  steps.push_back(std::make_unique<ReplaceStep>(std::move(pattern), std::move(content)));
}

void read_precompiled(const JsonFields& fields, Steps& steps) {
  fields.allow_only({"type", "precompiled_charsmap"});
  std::optional<std::string> blob = decode_base64(fields.required_string("precompiled_charsmap"));
  if (!blob) fields.fail("has a precompiled_charsmap that is no base64");
  Charsmap map(std::move(*blob), fields.where());
  if (map.empty()) fields.fail("has an empty precompiled_charsmap");
  steps.push_back(std::make_unique<PrecompiledStep>(std::move(map)));
}

struct Reader {
  std::string_view type;
  void (*read)(const JsonFields& fields, Steps& steps);
};
constexpr Reader kReaders[] = {
    {"BertNormalizer", read_bert},
    {"NFC", read_form<NormalForm::nfc>},
    {"NFD", read_form<NormalForm::nfd>},
    {"NFKC", read_form<NormalForm::nfkc>},
    {"NFKD", read_form<NormalForm::nfkd>},
    {"Lowercase", read_each<lower_each>},
    {"StripAccents", read_each<strip_accent>},
    {"Nmt", read_each<clean_nmt>},
    {"ByteLevel", read_byte_level},
    {"Strip", read_strip},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Precompiled", read_precompiled},
};

void read_steps(const io::JsonValue& value, const std::string& where, int depth, Steps& steps) {
  const JsonFields fields(value, where, "normalizer");
  const std::string type = fields.required_string("type");
  if (type == "Sequence") {
    fields.allow_only({"type", "normalizers"});
    const io::JsonValue list = fields.at("normalizers");
    if (!list.is_array() || depth > 4) fields.fail("is a Sequence that is no list of normalizers");
    for (int64_t i = 0; i < list.size(); ++i) read_steps(list.at(i), where, depth + 1, steps);
    return;
  }
  const auto* reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                    [&](const Reader& one) { return one.type == type; });
  if (reader == std::end(kReaders)) fields.fail("'" + type + "' is not supported");
  reader->read(fields, steps);
}

}  // namespace

Normalizer read_normalizer(const std::optional<io::JsonValue>& value, const std::string& where) {
  Steps steps;
  if (value && !value->is_null()) read_steps(*value, where, 0, steps);
  steps.shrink_to_fit();
  return Normalizer(std::move(steps));
}

}  // namespace snug::text
