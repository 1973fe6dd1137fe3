// SPDX-License-Identifier: Apache-2.0
// A tokenizer's working parts, made of its description.
#pragma once

#include <memory>

#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/template.h"
#include "text/tokenizer_spec.h"
#include "text/word_model.h"

namespace snug::text {

struct Pipeline {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const WordModel> model;
  Template around;
};

/// `spec.vocabulary` must outlive the parts. Throws Error{unsupported} or {bad_data} for what is
/// not understood.
[[nodiscard]] Pipeline make_pipeline(const TokenizerSpec& spec);

}  // namespace snug::text
