// SPDX-License-Identifier: Apache-2.0
#include "snug/tokenize.h"

#include <limits>

#include "base/float_mode.h"
#include "run_rows/row_ids.h"
#include "run_rows/streams.h"
#include "text/tokenizer.h"

namespace snug {

using text::Tokenizer;

struct TextEncoder::State {
  Tokenizer tokenizer;
  text::EncodeScratch scratch = {};
  text::Encoding encoding = {};
};

TextEncoder::TextEncoder(const std::string& model)
    : state_(std::make_unique<State>(State{.tokenizer = Tokenizer::load(model)})) {}

TextEncoder::~TextEncoder() = default;

const std::vector<int32_t>& TextEncoder::encode(std::string_view text) {
  const DefaultFloatMode float_mode;
  state_->tokenizer.encode(text, std::nullopt, std::numeric_limits<int32_t>::max(),
                           state_->encoding, state_->scratch);
  return state_->encoding.ids;
}

void tokenize_rows(const RunConfig& given,
                   const std::function<void(const std::vector<int32_t>& ids)>& sink,
                   const RunOptions& options) {
  const DefaultFloatMode float_mode;
  RunConfig config = given;
  config.require({"model", "test_file"});
  const Tokenizer tokenizer = Tokenizer::load(config.model);
  const run_rows::WorkFolder work(config);
  const run_rows::CopiedStreams streams(config, options, work, {&RunConfig::test_file},
                                        run_rows::CopiedStreams::Copies::are_removed);
  run_rows::encode_rows(config, options, tokenizer, sink);
}

}  // namespace snug
