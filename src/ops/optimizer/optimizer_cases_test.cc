// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/optimizer/optimizer_codec.h"
#include "ops/optimizer/optimizer_step.h"
#include "ops/optimizer/step_cases.h"

namespace snug {
namespace {

CaseInput codes_like(const Shape& shape) {
  return {.domain = Domain::integers, .type = {DType::u8, shape}, .low = 0, .high = 255};
}

// 1.25 and 0.0625: in the adaptive codec two bits of exponent below 2^0, one below 2^-4.
CaseInput scales_for(const Shape& shape) {
  std::vector<double> scales(static_cast<size_t>(state_blocks(element_count(shape))), 1.25);
  for (size_t i = 1; i < scales.size(); i += 2) scales[i] = 0.0625;
  const auto blocks = static_cast<int64_t>(scales.size());
  return f32_values({blocks}, std::move(scales));
}

constexpr size_t kFirstState = 2;

// The cases are written without row_of.
std::vector<OpCase> with_whole_gradients(std::vector<OpCase> cases) {
  for (OpCase& each : cases) each.inputs.push_back(absent());
  return cases;
}

bool is_drawn(const OpCase& plain) {
  return std::none_of(plain.inputs.begin(), plain.inputs.end() - kInputsBehindStates,
                      [](const CaseInput& each) { return each.domain == Domain::values; });
}

// The same step of a matrix, of which every other row has a gradient.
OpCase sparse_case(const OpCase& plain) {
  const Shape shape = {12, 37};  // a row is no part of a block of states
  OpCase sparse = plain;
  sparse.name += "_sparse";
  for (size_t i = 0; i + kInputsBehindStates < sparse.inputs.size(); ++i)
    sparse.inputs[i].type.shape = shape;
  std::vector<double> row_of(static_cast<size_t>(shape[0]), 0);
  int64_t rows = 0;
  for (size_t row = row_of.size(); row > 0; row -= std::min<size_t>(row, 2))
    row_of[row - 1] = static_cast<double>(++rows);
  sparse.inputs[1].type.shape = {rows, shape[1]};
  sparse.inputs.back() = i32_values({shape[0]}, std::move(row_of));
  return sparse;
}

OpCase coded_case(const OpCase& plain, StateCodec codec) {
  OpCase coded = plain;
  coded.op = coded_step(plain.op);
  coded.name = plain.name + "_" + std::string(to_string(codec));
  coded.attrs.set(kCodecAttr, std::string(to_string(codec)));
  coded.inputs.resize(kFirstState);
  const Shape& shape = plain.inputs[0].type.shape;
  for (size_t i = kFirstState; i + kInputsBehindStates < plain.inputs.size(); ++i) {
    coded.inputs.push_back(codes_like(shape));
    coded.inputs.push_back(scales_for(shape));
  }
  coded.inputs.insert(coded.inputs.end(), plain.inputs.end() - kInputsBehindStates,
                      plain.inputs.end());
  coded.inputs[coded.inputs.size() - kInputsBehindStates] = rng_input();
  return coded;
}

OpCase with_weight_in(OpCase stored, DType dtype) {
  stored.name += "_" + std::string(to_string(dtype));
  stored.inputs[0].type.dtype = dtype;
  stored.inputs[stored.inputs.size() - kInputsBehindStates] = rng_input();
  stored.attrs.set(kStreamAttr, int64_t{7});
  return stored;
}

std::vector<OpCase> with_weights_in_fewer_bits(std::vector<OpCase> cases) {
  std::vector<OpCase> all;
  for (OpCase& plain : cases) {
    // A code of bnb may differ by one from that of the state in double; its cases are chosen.
    const bool is_bnb = plain.attrs.has(kCodecAttr) && plain.attrs.text(kCodecAttr) == "bnb";
    if (plain.error == ErrorCode::ok && !is_bnb && plain.inputs[0].type.dtype == DType::f32) {
      for (const DType dtype : {DType::bf16, DType::bf16x8})
        all.push_back(with_weight_in(plain, dtype));
    }
    all.push_back(std::move(plain));
  }
  return all;
}

}  // namespace

std::vector<OpCase> with_coded_states(std::vector<OpCase> cases) {
  std::vector<OpCase> all;
  for (OpCase& whole : with_whole_gradients(std::move(cases))) {
    std::vector<OpCase> forms;
    const bool has_states = whole.inputs.size() > kFirstState + kInputsBehindStates;
    const bool is_error = whole.error != ErrorCode::ok;
    if (!is_error && is_drawn(whole)) forms.push_back(sparse_case(whole));
    forms.push_back(std::move(whole));
    for (OpCase& plain : forms) {
      if (has_states && !is_error) {
        for (const StateCodec codec : {StateCodec::adaptive, StateCodec::bnb})
          all.push_back(coded_case(plain, codec));
      }
      all.push_back(std::move(plain));
    }
  }
  return with_weights_in_fewer_bits(std::move(all));
}

std::vector<OpCase> with_coded_weights(std::vector<OpCase> cases) {
  return with_weights_in_fewer_bits(with_whole_gradients(std::move(cases)));
}

}  // namespace snug
