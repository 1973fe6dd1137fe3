// SPDX-License-Identifier: Apache-2.0
// Reads what the description says of the model; a kind of model is a function and a line in
// make_model.
#include "text/pipeline.h"

#include "snug/error.h"
#include "text/json_fields.h"
#include "text/sentencepiece_bpe.h"
#include "text/sentencepiece_normalizer.h"
#include "text/unigram_model.h"
#include "text/wordpiece_model.h"

namespace snug::text {
namespace {

using io::JsonValue;
using Model = std::unique_ptr<const WordModel>;

// A word costs its length times that of the longest piece; published tokenizers say 100 or 200.
constexpr int64_t kMaxWordChars = 10'000;

std::string text_or_empty(const JsonFields& fields, const std::string& key) {
  return fields.has_value(key) ? fields.required_string(key) : std::string();
}

Model make_wordpiece_of(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"});
  const std::string unk = fields.required_string("unk_token");
  WordPieceOptions options{
      .prefix = fields.required_string("continuing_subword_prefix"),
      .max_input_chars_per_word = fields.required_count("max_input_chars_per_word"),
      .unk = spec.vocabulary.find(unk)};
  if (options.max_input_chars_per_word > kMaxWordChars) {
    fields.fail("has a max_input_chars_per_word of " +
                std::to_string(options.max_input_chars_per_word) + ", above " +
                std::to_string(kMaxWordChars));
  }
  if (options.unk < 0) {
    throw Error(ErrorCode::bad_data, spec.where, "the vocabulary has no unk token '" + unk + "'",
                missing_role_hint("unk"));
  }
  return make_wordpiece(spec.vocabulary, std::move(options));
}

Model make_bpe_of(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges"});
  if (fields.has_value("dropout") &&
      (!fields.at("dropout").is_number() || fields.at("dropout").as_double() != 0))
    fields.fail("has a dropout of " + fields.at("dropout").dump() +
                ": merges that are left out at random are not supported");
  return make_bpe(spec.vocabulary, spec.merges,
                  {.unk_token = text_or_empty(fields, "unk_token"),
                   .prefix = text_or_empty(fields, "continuing_subword_prefix"),
                   .suffix = text_or_empty(fields, "end_of_word_suffix"),
                   .fuse_unk = fields.boolean("fuse_unk").value_or(false),
                   .byte_fallback = fields.boolean("byte_fallback").value_or(false),
                   .ignore_merges = fields.boolean("ignore_merges").value_or(false)},
                  spec.where);
}

Model make_unigram_of(const JsonFields& fields, const TokenizerSpec& spec) {
  fields.allow_only({"type", "unk_id", "byte_fallback"});
  const int64_t unk = fields.required_count("unk_id");
  if (unk >= spec.vocabulary.size()) {
    fields.fail("has an unk_id of " + std::to_string(unk) + " among " +
                std::to_string(spec.vocabulary.size()) + " tokens");
  }
  return make_unigram(spec.vocabulary, spec.scores,
                      {.unk = static_cast<int32_t>(unk),
                       .byte_fallback = fields.boolean("byte_fallback").value_or(false)});
}

Model make_model(const JsonFields& fields, const TokenizerSpec& spec) {
  // Versions before 0.10 wrote no type.
  const std::string type = fields.has("type") ? fields.required_string("type") : "WordPiece";
  const bool is_unigram = type == "Unigram";
  if (is_unigram == spec.scores.empty() && (is_unigram || type == "WordPiece" || type == "BPE"))
    fields.fail("of type '" + type + "' has a vocabulary of another form");
  if (type == "WordPiece") return make_wordpiece_of(fields, spec);
  if (type == "BPE") return make_bpe_of(fields, spec);
  if (is_unigram) return make_unigram_of(fields, spec);
  fields.fail("type '" + type + "' is not supported, only WordPiece, BPE and Unigram");
}

}  // namespace

Pipeline make_pipeline(const TokenizerSpec& spec) {
  const JsonValue parts = io::parse_json(spec.pipeline, spec.where);
  if (spec.sentencepiece) {
    const std::vector<float> scores(spec.scores.begin(), spec.scores.end());
    const SentencePieceSpec& own = *spec.sentencepiece;
    const auto make = own.is_bpe ? make_sentencepiece_bpe : make_sentencepiece_unigram;
    return {.normalizer = make_sentencepiece_normalizer(spec),
            .pre_tokenizer = {},
            .model = make(spec.vocabulary, scores, own.kinds,
                          {.unk = own.unk, .byte_fallback = own.byte_fallback}),
            .around = read_template(parts.find("post_processor"), spec)};
  }
  return {.normalizer = read_normalizer(parts.find("normalizer"), spec.where),
          .pre_tokenizer = read_pre_tokenizer(parts.find("pre_tokenizer"), spec.where),
          .model = make_model(
              JsonFields(io::parse_json(spec.model, spec.where), spec.where, "model"), spec),
          .around = read_template(parts.find("post_processor"), spec)};
}

}  // namespace snug::text
