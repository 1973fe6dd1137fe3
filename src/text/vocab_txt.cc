// SPDX-License-Identifier: Apache-2.0
// vocab.txt, and what vocabularies of both kinds of file have in common.
#include <iterator>

#include "base/units.h"
#include "io/text_file.h"
#include "snug/error.h"
#include "text/own_pipeline.h"
#include "text/tokenizer_spec.h"

namespace snug::text {
namespace {

constexpr int64_t kMaxTokenBytes = 4000;  // what is longer is no token
constexpr size_t kMaxAddedBytes = size_t{1} << 20;

bool serves_bert_text(std::string_view name) {
  for (std::string_view known :
       {"Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "SqueezeBert", "LayoutLM"}) {
    for (std::string_view ending : {"Tokenizer", "TokenizerFast"}) {
      if (name == std::string(known) + std::string(ending)) return true;
    }
  }
  return name.empty() || name == "PreTrainedTokenizerFast" || name == "TokenizersBackend";
}

}  // namespace

namespace {

void check_token(const TokenizerSpec& spec, std::string_view token, const std::string& line) {
  if (std::ssize(token) > kMaxTokenBytes) {
    throw Error(
        ErrorCode::bad_data, spec.where,
        line + " has more than " + std::to_string(kMaxTokenBytes) + " bytes; this is no vocabulary",
        "name a vocab.txt with one token a line, or a tokenizer.json");
  }
  check_utf8(token, spec.where + " " + line);
}

}  // namespace

void add_vocabulary_token(TokenizerSpec& spec, std::string_view token, const std::string& line) {
  constexpr const char* kHint =
      "take the file that the model was published or trained with: the ids of all later tokens "
      "depend on every one";
  if (token.empty())
    throw Error(ErrorCode::bad_data, spec.where, line + " is an empty token", kHint);
  check_token(spec, token, line);
  if (!spec.vocabulary.add(token)) {
    throw Error(ErrorCode::bad_data, spec.where,
                line + " repeats the token '" + std::string(token) + "' of id " +
                    std::to_string(spec.vocabulary.find(token)),
                kHint);
  }
}

void add_last_of_token(TokenizerSpec& spec, std::string_view token, const std::string& line) {
  check_token(spec, token, line);
  if (!spec.vocabulary.add(token)) spec.vocabulary.add_again(token);
}

int32_t TokenizerSpec::find(std::string_view token) const {
  if (token.empty()) return -1;
  if (const int32_t id = vocabulary.find(token); id >= 0) return id;
  for (const AddedToken& one : added) {
    if (one.content == token) return one.id;
  }
  return -1;
}

std::string missing_role_hint(const std::string& role) {
  return "name the vocabulary's own as " + role +
         "_token in tokenizer_config.json; where it has none, put one at its end, which shifts no "
         "id";
}

void add_role_tokens(TokenizerSpec& spec, const TokenRoles& roles) {
  for (const std::string* name : {&roles.pad, &roles.unk, &roles.cls, &roles.sep, &roles.mask}) {
    bool is_known = false;
    for (const AddedToken& token : spec.added) is_known = is_known || token.content == *name;
    const int32_t id = spec.vocabulary.find(*name);
    if (is_known || id < 0) continue;
    AddedToken token;
    token.content = *name;
    token.id = id;
    spec.added.push_back(std::move(token));
  }
}

void check_added_tokens(const TokenizerSpec& spec) {
  size_t bytes = 0;
  for (const AddedToken& token : spec.added) {
    if (std::ssize(token.content) > kMaxTokenBytes) {
      throw Error(ErrorCode::bad_data, spec.where,
                  "the added token of id " + std::to_string(token.id) + " has " +
                      std::to_string(token.content.size()) + " bytes; a token has at most " +
                      std::to_string(kMaxTokenBytes),
                  "take the file that the model was published or trained with");
    }
    bytes += token.content.size();
  }
  if (bytes > kMaxAddedBytes) {
    throw Error(ErrorCode::unsupported, spec.where,
                "the " + std::to_string(spec.added.size()) + " added tokens have " +
                    std::to_string(bytes) + " bytes together; at most " +
                    std::to_string(kMaxAddedBytes) + " are read",
                "use a model whose tokenizer adds fewer");
  }
}

TokenizerSpec read_vocab_txt(const std::string& file, const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = file;
  if (!serves_bert_text(config.tokenizer_class)) {
    throw Error(ErrorCode::unsupported, config.where,
                "tokenizer_class '" + config.tokenizer_class + "' is not BERT's",
                "use a folder with a tokenizer.json");
  }
  io::TextFile source(file);
  if (source.total_bytes() > kMaxTokenizerFileBytes)
    throw Error(ErrorCode::bad_data, file,
                "the file has " + format_bytes(source.total_bytes()) + "; at most " +
                    format_bytes(kMaxTokenizerFileBytes) + " are read here",
                "name a vocab.txt with one token a line");
  std::string line;
  // A byte order mark stays: it is a part of the first token to the `tokenizers` package, too.
  int64_t number = 1;
  for (; source.read_line(line, kMaxTokenBytes + 2) != io::TextFile::Line::end; ++number) {
    // Each line has an id, as transformers counts: what an empty one has is no token's.
    if (line.empty()) continue;
    while (spec.vocabulary.size() < number - 1) spec.vocabulary.add_spare();
    add_last_of_token(spec, line, "line " + std::to_string(number));
  }
  if (spec.vocabulary.size() == 0) {
    throw Error(ErrorCode::bad_data, spec.where, "the vocabulary is empty",
                "name a vocab.txt with one token a line");
  }
  spec.roles = config.roles.or_else(bert_roles());
  add_role_tokens(spec, spec.roles);
  add_declared_tokens(spec, config);
  set_pipeline(spec, TokenizerKind::wordpiece,
               {.handle_chinese_chars = config.handle_chinese_chars.value_or(true),
                .strip_accents = config.strip_accents,
                .lowercase = config.lowercase.value_or(true)});
  return spec;
}

}  // namespace snug::text
