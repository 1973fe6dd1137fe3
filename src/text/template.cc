// SPDX-License-Identifier: Apache-2.0
#include "text/template.h"

#include "snug/error.h"
#include "text/json_fields.h"

namespace snug::text {
namespace {

using io::JsonValue;
using TemplatePiece = Template::Piece;

int32_t token_id(const TokenizerSpec& spec, const JsonFields& fields, const std::string& name) {
  const int32_t id = spec.find(name);
  if (id < 0) fields.fail("names '" + name + "', which is no token");
  return id;
}

/// BertProcessing's and RobertaProcessing's pairs of a token and its id.
int32_t read_pair(const TokenizerSpec& spec, const JsonFields& fields, const char* key) {
  const JsonValue pair = fields.at(key);
  if (!pair.is_array() || pair.size() != 2 || !pair.at(0).is_string())
    fields.fail(std::string("has a strange ") + key);
  const std::string name = pair.at(0).as_string();
  const int32_t id = token_id(spec, fields, name);
  if (pair.at(1).dump() != std::to_string(id))
    fields.fail("gives '" + name + "' another id than model.vocab");
  return id;
}

Template read_bert(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "sep", "cls"});
  const TemplatePiece cls{TemplatePiece::Kind::token, read_pair(spec, fields, "cls"), 0};
  const TemplatePiece sep{TemplatePiece::Kind::token, read_pair(spec, fields, "sep"), 0};
  const TemplatePiece text{TemplatePiece::Kind::first};
  return {.single = {cls, text, sep},
          .pair = {cls,
                   text,
                   sep,
                   {TemplatePiece::Kind::second, -1, 1},
                   {TemplatePiece::Kind::token, sep.id, 1}}};
}

Template read_roberta(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  (void)fields.boolean("trim_offsets");
  (void)fields.boolean("add_prefix_space");
  const TemplatePiece cls{TemplatePiece::Kind::token, read_pair(spec, fields, "cls"), 0};
  const TemplatePiece sep{TemplatePiece::Kind::token, read_pair(spec, fields, "sep"), 0};
  const TemplatePiece text{TemplatePiece::Kind::first};
  return {.single = {cls, text, sep},
          .pair = {cls, text, sep, sep, {TemplatePiece::Kind::second}, sep}};
}

Template texts_alone() {
  return {.single = {{TemplatePiece::Kind::first}},
          .pair = {{TemplatePiece::Kind::first}, {TemplatePiece::Kind::second, -1, 1}}};
}

int32_t read_type_id(const JsonFields& step) {
  const int64_t type = step.required_count("type_id");
  if (type > 1) step.fail("has a type_id of " + std::to_string(type) + ", above 1");
  return static_cast<int32_t>(type);
}

std::vector<TemplatePiece> read_template(const JsonFields& fields, const char* key, bool is_pair,
                                         const TokenizerSpec& spec) {
  constexpr int64_t kMostSteps = 64;
  const JsonValue steps = fields.at(key);
  if (!steps.is_array() || steps.size() > kMostSteps) fields.fail("is not a list of steps");
  const JsonFields tokens(fields.at("special_tokens"), spec.where, "post_processor.special_tokens");
  std::vector<TemplatePiece> pieces;
  int first = 0;
  int second = 0;
  for (int64_t i = 0; i < steps.size(); ++i) {
    const JsonValue step = steps.at(i);
    const bool is_token = step.is_object() && step.find_or_null("SpecialToken");
    if (!is_token && !(step.is_object() && step.find_or_null("Sequence")))
      fields.fail("has an unknown step " + step.dump());
    const JsonFields inner(step.find(is_token ? "SpecialToken" : "Sequence"), fields.where(),
                           "post_processor");
    const std::string id = inner.required_string("id");
    if (is_token) {
      if (!tokens.has(id)) fields.fail("has no special token '" + id + "'");
      pieces.push_back(
          {TemplatePiece::Kind::token, token_id(spec, fields, id), read_type_id(inner)});
      continue;
    }
    if (id != "A" && id != "B") inner.fail("names the text '" + id + "'");
    (id == "A" ? first : second) += 1;
    pieces.push_back({id == "A" ? TemplatePiece::Kind::first : TemplatePiece::Kind::second, -1,
                      read_type_id(inner)});
  }
  if (first != 1 || second != (is_pair ? 1 : 0))
    fields.fail(std::string("has a template '") + key + "' that does not hold " +
                (is_pair ? "both texts once" : "the text once"));
  return pieces;
}

Template read_template_processing(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "single", "pair", "special_tokens"});
  const JsonFields tokens(fields.at("special_tokens"), spec.where, "post_processor.special_tokens");
  for (const std::string& name : tokens.keys()) {
    const JsonFields inner(tokens.at(name), spec.where, "post_processor.special_tokens");
    if (inner.at("ids").dump() != "[" + std::to_string(spec.find(name)) + "]")
      fields.fail("gives '" + name + "' other ids than model.vocab");
  }
  return {.single = read_template(fields, "single", false, spec),
          .pair = read_template(fields, "pair", true, spec)};
}

Template read_sequence(const JsonFields& fields, const TokenizerSpec& spec);

Template read_one(const JsonFields& fields, const TokenizerSpec& spec, bool is_inner) {
  const std::string type = fields.required_string("type");
  if (type == "BertProcessing") return read_bert(fields, spec);
  if (type == "RobertaProcessing") return read_roberta(fields, spec);
  if (type == "TemplateProcessing") return read_template_processing(fields, spec);
  if (type == "ByteLevel") {  // offsets alone
    fields.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return texts_alone();
  }
  if (type == "Sequence" && !is_inner) return read_sequence(fields, spec);
  fields.fail("'" + type + "' is not supported");
}

/// ByteLevel, which changes offsets alone, beside one other.
Template read_sequence(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "processors"});
  const JsonValue list = fields.at("processors");
  if (!list.is_array()) fields.fail("is a Sequence that is no list of processors");
  Template found = texts_alone();
  bool has_tokens = false;
  for (int64_t i = 0; i < list.size(); ++i) {
    const JsonFields inner(list.at(i), spec.where, "post_processor");
    Template next = read_one(inner, spec, true);
    if (inner.required_string("type") == "ByteLevel") continue;
    if (has_tokens) fields.fail("puts tokens around a text twice");
    has_tokens = true;
    found = std::move(next);
  }
  return found;
}

}  // namespace

Template read_template(const std::optional<JsonValue>& value, const TokenizerSpec& spec) {
  if (!value || value->is_null()) {
    throw Error(
        ErrorCode::unsupported, spec.where,
        "there is no post_processor: texts would have no tokens such as [CLS] and [SEP] around "
        "them",
        "set one (BertProcessing, RobertaProcessing, TemplateProcessing, or ByteLevel for "
        "none)");
  }
  return read_one(JsonFields(value, spec.where, "post_processor"), spec, false);
}

}  // namespace snug::text
