// SPDX-License-Identifier: Apache-2.0
// Adds the tokens that tokenizer_config.json and the files beside it declare, as transformers does
// (PreTrainedTokenizerFast.__init__): what is no added token yet becomes one, with its id in the
// vocabulary, else the next.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "snug/error.h"
#include "text/tokenizer_spec.h"

namespace snug::text {
namespace {

void check_id(const DeclaredToken& declared, int32_t id) {
  if (declared.token.id < 0 || declared.token.id == id) return;
  throw Error(ErrorCode::bad_data, declared.where,
              declared.key + " gives '" + declared.token.content + "' id " +
                  std::to_string(declared.token.id) + "; by the vocabulary it is " +
                  std::to_string(id),
              "take both files as the model was published: its weights go by one of the two");
}

AddedToken with_id(AddedToken token, int32_t id) {
  token.id = id;
  return token;
}

struct Place {
  size_t index = 0;  // among the added tokens
  bool is_declared = false;
};

}  // namespace

void add_declared_tokens(TokenizerSpec& spec, const TokenizerConfig& config, KnownOptions options) {
  std::unordered_map<std::string, Place> places;
  auto next = static_cast<int32_t>(spec.vocabulary.size());
  for (size_t i = 0; i < spec.added.size(); ++i) {
    places.emplace(spec.added[i].content, Place{i});
    next = std::max(next, spec.added[i].id + 1);
  }
  const auto known = std::ssize(spec.added);
  for (const DeclaredToken& declared : config.declared) {
    const std::string& content = declared.token.content;
    if (const auto found = places.find(content); found != places.end()) {
      AddedToken& token = spec.added[found->second.index];
      check_id(declared, token.id);
      const bool counts = declared.is_of_decoder || options == KnownOptions::of_declaration;
      if (!found->second.is_declared && declared.has_options && counts)
        token = with_id(declared.token, token.id);
      found->second.is_declared = true;  // of several declarations the first counts
      continue;
    }
    if (declared.is_of_version_5) {
      throw Error(ErrorCode::unsupported, declared.where,
                  declared.key + " '" + content + "' is no added token of " + spec.where +
                      "; version 5 of transformers makes it one, version 4 does not",
                  "name it in additional_special_tokens too, or remove the key");
    }
    const int32_t id = spec.vocabulary.find(content);
    AddedToken token = with_id(declared.token, id >= 0 ? id : next++);
    check_id(declared, token.id);
    places.emplace(content, Place{spec.added.size(), true});
    spec.added.push_back(std::move(token));
  }
  if (spec.sentencepiece) {  // which is given the text as it is: nothing else to look in
    for (AddedToken& token : spec.added) token.normalized = false;
  }
  // As they are read again from a checkpoint: of a sentencepiece model, behind those of its class.
  std::stable_sort(spec.added.begin() + (spec.sentencepiece ? known : 0), spec.added.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
}

}  // namespace snug::text
