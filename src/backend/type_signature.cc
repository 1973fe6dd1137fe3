// SPDX-License-Identifier: Apache-2.0
#include "backend/type_signature.h"

#include <algorithm>

#include "base/check.h"
#include "base/pieces.h"
#include "graph/op_def.h"

namespace snug {
namespace {

std::vector<DType> types_of(std::string_view words) {
  std::vector<DType> types;
  if (words == "*") return types;
  if (words == "weight") return {DType::f32, DType::bf16, DType::bf16x8};
  for (const std::string_view word : pieces_in(words, '|')) {
    const auto type = dtype_of(word);
    SNUG_CHECK(type.has_value(), "no element type '" + std::string(word) + "'");
    types.push_back(*type);
  }
  SNUG_CHECK(!types.empty(), "a signature without types");
  return types;
}

std::string words_of(const std::vector<DType>& types) {
  std::string words;
  for (const DType type : types)
    words += (words.empty() ? "" : " or ") + std::string(to_string(type));
  return words;
}

bool takes(const std::vector<DType>& types, DType type) {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

TypeSignature::TypeSignature(std::string_view text) {
  constexpr std::string_view kRepeats = "...";
  std::vector<Types>* side = &inputs_;
  for (std::string_view word : words_in(text)) {
    SNUG_CHECK(!is_repeated_ || side == &outputs_ || word == "->", std::string(text));
    if (word == "->") {
      SNUG_CHECK(side == &inputs_, std::string(text));
      side = &outputs_;
      continue;
    }
    if (word.ends_with(kRepeats)) {
      SNUG_CHECK(side == &inputs_, std::string(text));
      is_repeated_ = true;
      word.remove_suffix(kRepeats.size());
    }
    side->push_back(types_of(word));
  }
  SNUG_CHECK(side == &outputs_ && !outputs_.empty(), std::string(text));
}

std::string TypeSignature::mismatch(const NodeSpec& spec) const {
  const auto compare = [](const std::string& name, const TensorType& type, const Types& wanted) {
    return takes(wanted, type.dtype)
               ? std::string()
               : name + " is " + to_string(type.dtype) + ", not " + words_of(wanted);
  };
  const auto& names = *spec.op->inputs;
  const bool fits = is_repeated_ ? spec.inputs.size() + 1 >= inputs_.size()
                                 : spec.inputs.size() == inputs_.size();
  SNUG_CHECK(fits && spec.outputs.size() == outputs_.size(),
             *spec.op->name + ": the signature of its kernel has another number of operands");
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!spec.inputs.has(i)) continue;
    const std::string name(names[std::min(i, names.size() - 1)].name);
    const Types& wanted = inputs_[std::min(i, inputs_.size() - 1)];
    if (std::string reason = compare(name, spec.inputs[i], wanted); !reason.empty()) return reason;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::string reason = compare((*spec.op->outputs)[i], spec.outputs[i], outputs_[i]);
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace snug
