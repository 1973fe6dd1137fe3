// SPDX-License-Identifier: Apache-2.0
// vocab.json with merges.txt: the tokenizers of RoBERTa and GPT-2, described as transformers
// describes them in tokenizer.json.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "io/file.h"
#include "io/text_file.h"
#include "snug/error.h"
#include "text/merge_list.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary_entries.h"

namespace snug::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxMergeBytes = 8000;  // of a line; what is longer is no merge

enum class Family : uint8_t { roberta, gpt2 };

Family family_of(const TokenizerConfig& config, const TokenizerSpec& spec) {
  std::string name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name == "RobertaTokenizer") return Family::roberta;
  if (name == "GPT2Tokenizer") return Family::gpt2;
  // Published folders of old have no tokenizer_config.json.
  const bool is_roberta = spec.vocabulary.find("<s>") == 0 && spec.vocabulary.find("<pad>") == 1 &&
                          spec.vocabulary.find("</s>") == 2;
  if (name.empty() && is_roberta) return Family::roberta;
  throw Error(ErrorCode::unsupported, spec.where,
              "tokenizer_class '" + config.tokenizer_class + "' is neither RoBERTa's nor GPT-2's",
              "save the tokenizer again with transformers, which writes tokenizer.json");
}

void read_vocabulary(const std::string& file, TokenizerSpec& spec) {
  VocabularyEntries entries(file, "the vocabulary");
  (void)io::parse_json(io::read_all(file, kMaxTokenizerFileBytes), file,
                       {.max_values = kMaxTokenizerValues}, {.entries = entries.taken({})});
  entries.add_to(spec);
}

MergeList read_merges(const std::string& file) {
  io::TextFile source(file);
  if (source.total_bytes() > kMaxTokenizerFileBytes)
    throw Error(ErrorCode::bad_data, file,
                "the file has " + format_bytes(source.total_bytes()) + "; at most " +
                    format_bytes(kMaxTokenizerFileBytes) + " are read here",
                "name a merges.txt with one merge a line");
  MergeList merges;
  std::string line;
  for (int64_t number = 1; source.read_line(line, kMaxMergeBytes) != io::TextFile::Line::end;
       ++number) {
    if (line.empty() || line.starts_with("#version")) continue;
    if (std::ssize(line) >= kMaxMergeBytes || !merges.add_line(line))
      throw Error(ErrorCode::bad_data, file,
                  "line " + std::to_string(number) + " is no merge of two tokens",
                  "a merge is two tokens with a space between them");
  }
  return merges;
}

void add_token(TokenizerSpec& spec, const std::string& name, bool takes_space) {
  AddedToken token;
  token.content = name;
  token.id = spec.vocabulary.find(name);
  token.lstrip = takes_space;
  const auto same = [&](const AddedToken& one) { return one.content == name; };
  if (token.id >= 0 && std::none_of(spec.added.begin(), spec.added.end(), same))
    spec.added.push_back(std::move(token));
}

std::string pipeline_of(Family family, bool has_prefix_space, const TokenizerSpec& spec) {
  const auto byte_level = [&](bool trims) {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", has_prefix_space},
                {"trim_offsets", trims},
                {"use_regex", true}};
  };
  Json around = byte_level(false);
  if (family == Family::roberta) {
    const auto pair = [&](const std::string& name) { return Json::array({name, spec.find(name)}); };
    around = Json{{"type", "RobertaProcessing"},
                  {"sep", pair(spec.roles.sep)},
                  {"cls", pair(spec.roles.cls)},
                  {"trim_offsets", true},
                  {"add_prefix_space", has_prefix_space}};
  }
  return Json{{"normalizer", nullptr},
              {"pre_tokenizer", byte_level(true)},
              {"post_processor", around},
              {"decoder", byte_level(true)}}
      .dump();
}

}  // namespace

TokenizerSpec read_bpe_files(const std::string& vocabulary, const std::string& merges,
                             const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = vocabulary;
  read_vocabulary(vocabulary, spec);
  spec.merges = read_merges(merges).resolve(spec, "");
  const Family family = family_of(config, spec);
  spec.roles = family == Family::roberta ? config.roles.or_else(fairseq_roles()) : config.roles;
  for (const std::string* name :
       {&spec.roles.cls, &spec.roles.pad, &spec.roles.sep, &spec.roles.unk})
    add_token(spec, *name, false);
  add_token(spec, spec.roles.mask, family == Family::roberta);
  if (family == Family::gpt2) add_token(spec, "<|endoftext|>", false);
  add_declared_tokens(spec, config);
  spec.pipeline = pipeline_of(family, config.add_prefix_space.value_or(false), spec);
  spec.model = Json{
      {"type", "BPE"},
      {"dropout", nullptr},
      {"unk_token", nullptr},
      {"continuing_subword_prefix", ""},
      {"end_of_word_suffix", ""},
      {"fuse_unk", false},
      {"byte_fallback", false},
      {"ignore_merges",
       false}}.dump();
  return spec;
}

}  // namespace snug::text
