// SPDX-License-Identifier: Apache-2.0
// The messages of sentencepiece_model.proto.
#include "text/sentencepiece_model.h"

#include <cmath>

#include "snug/error.h"
#include "text/protobuf_fields.h"

namespace snug::text {
namespace {

constexpr uint64_t kUnigram = 1;
constexpr uint64_t kBpe = 2;

using Piece = SentencePieceModel::Piece;

Piece read_piece(std::string_view bytes, const std::string& where) {
  Piece piece;
  ProtobufFields fields(bytes, where);
  while (fields.next()) {
    if (fields.number == 1) piece.text = fields.text();
    if (fields.number == 2) piece.score = fields.number32();
    if (fields.number != 3) continue;
    if (fields.value < 1 || fields.value > 6) fields.fail();
    piece.kind = static_cast<PieceKind>(fields.value - 1);
  }
  if (!std::isfinite(piece.score)) fields.fail();
  return piece;
}

void read_trainer(std::string_view bytes, SentencePieceModel& model, const std::string& where) {
  uint64_t type = kUnigram;
  bool is_suffix = false;
  ProtobufFields fields(bytes, where);
  while (fields.next()) {
    if (fields.number == 3) type = fields.value;
    if (fields.number == 24) is_suffix = fields.flag();
    if (fields.number == 35) model.byte_fallback = fields.flag();
  }
  if (type != kUnigram && type != kBpe)
    refuse_sentencepiece(where, "a sentencepiece model that is neither a unigram nor a BPE model");
  if (is_suffix) refuse_sentencepiece(where, "treat_whitespace_as_suffix");
  model.is_bpe = type == kBpe;
}

void read_normalizer(std::string_view bytes, SentencePieceModel& model, const std::string& where) {
  ProtobufFields fields(bytes, where);
  while (fields.next()) {
    if (fields.number == 2) model.charsmap = fields.text();
    if (fields.number == 3) model.add_dummy_prefix = fields.flag();
    if (fields.number == 4) model.remove_extra_whitespaces = fields.flag();
    if (fields.number == 5) model.escape_whitespaces = fields.flag();
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  ProtobufFields fields(bytes, where);
  while (fields.next()) {
    if (fields.number == 1) model.pieces.push_back(read_piece(fields.text(), where));
    if (fields.number == 2) read_trainer(fields.text(), model, where);
    if (fields.number == 3) read_normalizer(fields.text(), model, where);
  }
  return model;
}

void refuse_sentencepiece(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::unsupported, where, what + " is not supported",
              "save the tokenizer again with transformers, which writes tokenizer.json");
}

}  // namespace snug::text
