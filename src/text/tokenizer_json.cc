// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's tokenizer.json. The vocabulary goes from the parser into a list and never
// into a JSON document: a document of 30,000 tokens would take ten times the bytes of the table,
// and would lose repeated tokens. What may be missing is what `tokenizers` 0.8.1 to 0.23.3 reads
// where it is missing; whatever none of them reads is refused.
#include <algorithm>
#include <initializer_list>
#include <optional>

#include "io/file.h"
#include "io/json_file.h"
#include "snug/error.h"
#include "text/json_fields.h"
#include "text/wordpiece_spec.h"

namespace snug {
namespace {

using io::JsonValue;

// A word costs its length times that of the longest piece; published tokenizers say 100 or 200.
constexpr int64_t kMaxWordChars = 10'000;

struct VocabularyEntry {
  int64_t id;
  std::string token;
};

/// Parses the file; entries of model.vocab go to `entries` instead of the document.
JsonValue parse_file(const std::string& file, std::vector<VocabularyEntry>& entries) {
  const auto take = [&](const std::string& token, std::optional<int64_t> id) {
    if (!id || *id < 0 || *id >= (int64_t{1} << 31)) {
      throw Error(ErrorCode::bad_data, file,
                  "model.vocab gives '" + token + "' an id that is no whole number from 0",
                  "write the file again");
    }
    entries.push_back({*id, token});
  };
  return io::parse_json(io::read_all(file, kMaxTokenizerFileBytes), file,
                        {.max_values = kMaxTokenizerValues},
                        {.path = {"model", "vocab"}, .take = take});
}

/// A list of its elements; what else it is, `fail` says.
template <class Fail>
std::vector<JsonValue> elements_of(const JsonValue& list, const Fail& fail) {
  if (!list.is_array()) fail();
  std::vector<JsonValue> elements;
  for (int64_t i = 0; i < list.size(); ++i) elements.push_back(list.at(i));
  return elements;
}

void read_vocabulary(const JsonValue& document, std::vector<VocabularyEntry>& entries,
                     WordPieceSpec& spec) {
  if (entries.empty()) {
    throw Error(ErrorCode::bad_data, spec.where, "model.vocab is empty or missing",
                "name a WordPiece tokenizer");
  }
  if (const JsonValue vocabulary = document.at("model").at("vocab");
      !vocabulary.is_object() || vocabulary.size() != 0) {
    throw Error(ErrorCode::bad_data, spec.where, "model.vocab is not an object of tokens and ids",
                "write the file again");
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    if (entries[i].id != id) {
      const bool is_twice = entries[i].id < id;
      throw Error(ErrorCode::bad_data, spec.where,
                  is_twice ? "model.vocab gives id " + std::to_string(entries[i].id) + " to '" +
                                 entries[i - 1].token + "' and '" + entries[i].token + "'"
                           : "model.vocab has no token with id " + std::to_string(id),
                  "ids must count from 0 without gaps");
    }
    add_vocabulary_token(spec, entries[i].token, "id " + std::to_string(id));
  }
}

void read_normalizer(const JsonValue& document, WordPieceSpec& spec) {
  const std::optional<JsonValue> value = document.find("normalizer");
  if (!value) {
    spec.normalizer = {.clean_text = false,
                       .handle_chinese_chars = false,
                       .strip_accents = false,
                       .lowercase = false};
    return;
  }
  const JsonFields fields(value, spec.where, "normalizer");
  fields.require_type("BertNormalizer");
  fields.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  spec.normalizer.clean_text = fields.required_boolean("clean_text");
  spec.normalizer.handle_chinese_chars = fields.required_boolean("handle_chinese_chars");
  spec.normalizer.strip_accents = fields.boolean("strip_accents");
  spec.normalizer.lowercase = fields.required_boolean("lowercase");
}

void read_model(const JsonValue& document, WordPieceSpec& spec) {
  const JsonFields fields(document.find("model"), spec.where, "model");
  // Versions before 0.10 wrote no type.
  if (fields.has("type")) fields.require_type("WordPiece");
  fields.allow_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  spec.roles.unk = fields.required_string("unk_token");
  spec.prefix = fields.required_string("continuing_subword_prefix");
  spec.max_input_chars_per_word = fields.required_count("max_input_chars_per_word");
  if (spec.max_input_chars_per_word > kMaxWordChars) {
    fields.fail("has a max_input_chars_per_word of " +
                std::to_string(spec.max_input_chars_per_word) + ", above " +
                std::to_string(kMaxWordChars));
  }
}

void read_added_tokens(const JsonValue& document, WordPieceSpec& spec) {
  const std::optional<JsonValue> list = document.find_or_null("added_tokens");
  if (!list) return;
  const auto fail = [&] {
    throw Error(ErrorCode::bad_data, spec.where, "added_tokens is not a list",
                "write the file again");
  };
  for (const JsonValue& value : elements_of(*list, fail)) {
    const JsonFields fields(value, spec.where, "added_tokens");
    fields.allow_only(
        {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"})
      (void)fields.required_boolean(key);
    AddedToken token = read_added_token(fields);
    token.id = static_cast<int32_t>(fields.required_count("id"));
    spec.added.push_back(std::move(token));
  }
  std::stable_sort(spec.added.begin(), spec.added.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  int64_t next = spec.vocabulary.size();
  for (size_t i = 0; i < spec.added.size(); ++i) {
    const AddedToken& token = spec.added[i];
    const int32_t known = spec.vocabulary.find(token.content);
    const int64_t expected = known >= 0 ? known : next++;
    if (token.id != expected || (i > 0 && spec.added[i - 1].id == token.id)) {
      throw Error(ErrorCode::bad_data, spec.where,
                  "added_tokens gives '" + token.content + "' id " + std::to_string(token.id) +
                      "; it must be " + std::to_string(expected) + " and stand once",
                  "added tokens have their id in model.vocab, or follow it without gaps");
    }
  }
}

/// One step of a template: the token it names, or "A" / "B" for a text; with the type id.
std::string describe(const JsonValue& steps, const JsonFields& fields) {
  std::string text;
  for (const JsonValue& step : elements_of(steps, [&] { fields.fail("is not a list of steps"); })) {
    const bool is_token = step.is_object() && step.find_or_null("SpecialToken");
    if (!is_token && !(step.is_object() && step.find_or_null("Sequence")))
      fields.fail("has an unknown step " + step.dump());
    const JsonFields inner(step.find(is_token ? "SpecialToken" : "Sequence"), fields.where(),
                           "post_processor");
    text += (is_token ? inner.required_string("id") : "$" + inner.required_string("id")) + ":" +
            std::to_string(inner.required_count("type_id")) + " ";
  }
  return text;
}

/// Sets the tokens around a text from BertProcessing's pairs of a token and its id.
void read_bert_processing(const JsonFields& fields, WordPieceSpec& spec) {
  fields.allow_only({"type", "sep", "cls"});
  for (const char* key : {"cls", "sep"}) {
    const JsonValue pair = fields.at(key);
    if (!pair.is_array() || pair.size() != 2 || !pair.at(0).is_string())
      fields.fail(std::string("has a strange ") + key);
    const std::string name = pair.at(0).as_string();
    if (pair.at(1).dump() != std::to_string(spec.vocabulary.find(name)))
      fields.fail("gives '" + name + "' another id than model.vocab");
    (key[0] == 'c' ? spec.roles.cls : spec.roles.sep) = name;
  }
}

/// The same from TemplateProcessing, where its templates are BERT's.
void read_template_processing(const JsonFields& fields, WordPieceSpec& spec) {
  fields.allow_only({"type", "single", "pair", "special_tokens"});
  const std::string single = describe(fields.at("single"), fields);
  const std::string pair = describe(fields.at("pair"), fields);
  const std::string cls = single.substr(0, single.find(":0 "));
  const size_t last = single.rfind(' ', single.size() < 2 ? 0 : single.size() - 2);
  std::string sep = last == std::string::npos ? "" : single.substr(last + 1);
  sep = sep.substr(0, sep.find(":0 "));
  const std::string head = cls + ":0 $A:0 " + sep + ":0 ";
  if (single != head || pair != head + "$B:1 " + sep + ":1 ") {
    fields.fail("is not BERT's template '[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1' but '" + single +
                "' and '" + pair + "'");
  }
  const JsonFields tokens(fields.at("special_tokens"), spec.where, "post_processor.special_tokens");
  for (const std::string& name : tokens.keys()) {
    const JsonFields inner(tokens.at(name), spec.where, "post_processor.special_tokens");
    if (inner.at("ids").dump() != "[" + std::to_string(spec.vocabulary.find(name)) + "]") {
      fields.fail("gives '" + name + "' other ids than model.vocab");
    }
  }
  spec.roles.cls = cls;
  spec.roles.sep = sep;
}

void read_post_processor(const JsonValue& document, WordPieceSpec& spec) {
  const std::optional<JsonValue> value = document.find("post_processor");
  if (!value) {
    throw Error(ErrorCode::unsupported, spec.where,
                "there is no post_processor: texts would have no [CLS] and [SEP]",
                "set BERT's (BertProcessing), or name the folder's vocab.txt as tokenizer");
  }
  const JsonFields fields(value, spec.where, "post_processor");
  const std::string type = fields.required_string("type");
  if (type == "BertProcessing") {
    read_bert_processing(fields, spec);
  } else if (type == "TemplateProcessing") {
    read_template_processing(fields, spec);
  } else {
    fields.fail("'" + type + "' is not supported");
  }
}

/// How texts are cut. The length itself is a key of the run.
void check_truncation(const JsonValue& document, const std::string& where) {
  const std::optional<JsonValue> value = document.find("truncation");
  if (!value) return;
  const JsonFields fields(value, where, "truncation");
  fields.allow_only({"direction", "max_length", "strategy", "stride"});
  // Versions before 0.11 wrote no direction and cut on the right.
  if (fields.has("direction")) fields.require_string("direction", "Right");
  fields.require_string("strategy", "LongestFirst");
  (void)fields.required_count("max_length");
  (void)fields.required_count("stride");
}

/// Padding is masked, so its length and tokens mean nothing; its side would move the positions.
void check_padding(const JsonValue& document, const std::string& where) {
  const std::optional<JsonValue> value = document.find("padding");
  if (!value) return;
  const JsonFields fields(value, where, "padding");
  fields.allow_only(
      {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  fields.require_string("direction", "Right");
}

void check_agreement(const TokenizerConfig& config, const WordPieceSpec& spec) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_config, config.where, what + " disagrees with " + spec.where,
                "remove the key from tokenizer_config.json or make the two agree");
  };
  const BertNormalizerOptions& normalizer = spec.normalizer;
  if (config.lowercase && *config.lowercase != normalizer.lowercase) refuse("do_lower_case");
  if (config.strip_accents && *config.strip_accents != normalizer.strips_accents())
    refuse("strip_accents");
  if (config.handle_chinese_chars &&
      *config.handle_chinese_chars != normalizer.handle_chinese_chars) {
    refuse("tokenize_chinese_chars");
  }
  if (config.names_unk && config.roles.unk != spec.roles.unk) refuse("unk_token");
}

}  // namespace

WordPieceSpec read_tokenizer_json(const std::string& file, const TokenizerConfig& config) {
  WordPieceSpec spec;
  spec.where = file;
  spec.roles = config.roles;
  std::vector<VocabularyEntry> entries;
  const JsonValue document = parse_file(file, entries);
  const JsonFields fields(document, spec.where, "tokenizer");
  fields.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "post_processor", "decoder", "model"});
  read_model(document, spec);
  read_vocabulary(document, entries, spec);
  read_normalizer(document, spec);
  if (fields.has("version")) fields.require_string("version", "1.0");
  const JsonFields splitter(document.find("pre_tokenizer"), spec.where, "pre_tokenizer");
  splitter.require_type("BertPreTokenizer");
  splitter.allow_only({"type"});
  check_truncation(document, spec.where);
  check_padding(document, spec.where);
  read_added_tokens(document, spec);
  read_post_processor(document, spec);
  check_agreement(config, spec);
  return spec;
}

}  // namespace snug
