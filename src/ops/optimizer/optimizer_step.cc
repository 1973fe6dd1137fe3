// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer_step.h"

#include <deque>
#include <utility>

#include "ops/optimizer/optimizer_codec.h"

namespace snug {

namespace {

// Inputs that are overwritten by outputs of the same name.
struct StepOperandNames {
  std::vector<InputSpec> inputs = {"w", "g"};
  std::vector<std::string> outputs = {"w"};
  std::vector<std::pair<int, int>> storages = {{0, 0}};

  void add_state(const char* name) {
    storages.emplace_back(static_cast<int>(outputs.size()), static_cast<int>(inputs.size()));
    inputs.emplace_back(name);
    outputs.emplace_back(name);
  }
};

// An op refers to the names of its inputs for as long as the program runs.
const char* kept(std::string name) {
  static std::deque<std::string> names;
  return names.emplace_back(std::move(name)).c_str();
}

std::vector<AttrSpec> attrs_of(const StepOp& step) {
  std::vector<AttrSpec> attrs;
  for (const std::string& number : step.numbers) attrs.push_back(required_attr(number, 0.0));
  for (const std::string& flag : step.flags) attrs.emplace_back(flag, false);
  attrs.push_back(neutral({kStreamAttr, int64_t{0}}));
  return attrs;
}

// Its inputs are those of `step`, whatever states it has.
OpDef make_op(std::string name, const StepOp& step, StepOperandNames names,
              std::vector<AttrSpec> attrs, InferFn infer) {
  names.inputs.emplace_back("hyper");
  names.inputs.push_back(optional_input("coefficient"));
  names.inputs.push_back(optional_input("row_of"));
  OpDef op = {.name = std::move(name),
              .inputs = std::move(names.inputs),
              .is_variadic = false,
              .outputs = std::move(names.outputs),
              .attrs = std::move(attrs),
              .infer = std::move(infer),
              .gradient = not_differentiable("it is a part of the update"),
              .keeps = Keeps{},
              .cost = step.cost,
              .alias = must_overwrite(std::move(names.storages)),
              .timing = {.finds = Finds::little}};
  if (!step.infer)
    op.sparse_operand =
        SparseOperand{.rows = 1, .row_of = index_of(StepInput::row_of, op.inputs->size())};
  return op;
}

OpDef plain_op(const StepOp& step) {
  StepOperandNames names;
  for (const StepState& state : step.states) names.add_state(state.name);
  names.inputs.push_back(optional_input("rng"));
  InferFn infer = step.infer;
  if (!infer) {
    infer = [check = step.check, states = step.states](const InferArgs& args) {
      check(args);
      return infer_step(args, states);
    };
  }
  return make_op(step.name, step, std::move(names), attrs_of(step), std::move(infer));
}

bool has_input(const InferArgs& args, StepInput input) {
  return args.inputs.has(index_of(input, args.inputs.size()));
}

// One of w's shape, or a row-sparse one.
void require_gradient(const InferArgs& args) {
  if (!has_input(args, StepInput::row_of)) return require_whole_gradient(args);
  const size_t row_of = index_of(StepInput::row_of, args.inputs.size());
  require_rank(args, 0, 2, "w of a row-sparse gradient");
  const Shape& weight = args.inputs[0].shape;
  require_dtype(args, row_of, DType::i32, "row_of");
  require_shape(args, row_of, {weight[0]}, "row_of");
  require_rank(args, 1, 2, "g");
  if (args.inputs[1].shape[0] > weight[0]) shape_error(args, "g has more rows than w");
  require_f32(args, 1, {args.inputs[1].shape[0], weight[1]}, "g");
}

std::vector<TensorType> infer_coded(const InferArgs& args, const std::vector<StepState>& states) {
  require_weight(args);
  require_gradient(args);
  const Shape& shape = args.inputs[0].shape;
  const Shape blocks = {state_blocks(element_count(shape))};
  std::vector<TensorType> types = {args.inputs[0]};
  for (size_t i = 0; i < states.size(); ++i) {
    const size_t codes = 2 + 2 * i;
    const std::string name = states[i].name;
    require_dtype(args, codes, DType::u8, name + "_codes");
    require_shape(args, codes, shape, name + "_codes");
    require_f32(args, codes + 1, blocks, name + "_scales");
    types.push_back(args.inputs[codes]);
    types.push_back(args.inputs[codes + 1]);
  }
  if (!has_input(args, StepInput::rng)) shape_error(args, "coded states need rng");
  require_hyper(args);
  return types;
}

OpDef coded_op(const StepOp& step) {
  StepOperandNames names;
  std::vector<int64_t> squares;
  for (const StepState& state : step.states) {
    names.add_state(kept(state.name + std::string("_codes")));
    names.add_state(kept(state.name + std::string("_scales")));
    squares.push_back(state.is_square ? 1 : 0);
  }
  names.inputs.emplace_back("rng");
  std::vector<AttrSpec> attrs = attrs_of(step);
  attrs.push_back(required_attr(kCodecAttr, std::string()));
  attrs.emplace_back(kSquaresAttr, squares);
  return make_op(coded_step(step.name), step, std::move(names), std::move(attrs),
                 [check = step.check, states = step.states, squares](const InferArgs& args) {
                   check(args);
                   if (args.attrs.ints(kSquaresAttr) != squares)
                     shape_error(args, "squares is what the step has, and is not given");
                   const std::string& codec = args.attrs.text(kCodecAttr);
                   if (!find_codec(codec))
                     shape_error(args, "codec must be adaptive or bnb, not " + codec);
                   return infer_coded(args, states);
                 });
}

}  // namespace

std::string coded_step(const std::string& name) { return name + "_8bit"; }

std::vector<OpDef> make_step_ops(const std::vector<StepOp>& steps) {
  std::vector<OpDef> ops;
  for (const StepOp& step : steps) {
    ops.push_back(plain_op(step));
    if (!step.infer && !step.states.empty()) ops.push_back(coded_op(step));
  }
  return ops;
}

void require_f32(const InferArgs& args, size_t input, const Shape& shape, const std::string& name) {
  require_dtype(args, input, DType::f32, name);
  require_shape(args, input, shape, name);
}

std::vector<TensorType> infer_step(const InferArgs& args, const std::vector<StepState>& states) {
  const TensorType& weight = args.inputs[0];
  require_weight(args);
  require_gradient(args);
  for (size_t i = 0; i < states.size(); ++i) require_f32(args, i + 2, weight.shape, states[i].name);
  require_hyper(args);
  std::vector<TensorType> types(states.size() + 1, {DType::f32, weight.shape});
  types[0] = weight;
  return types;
}

void require_weight(const InferArgs& args) {
  const size_t rng = index_of(StepInput::rng, args.inputs.size());
  const TensorType& weight = args.inputs[0];
  const bool is_coded = weight.dtype == DType::bf16 || weight.dtype == DType::bf16x8;
  if (!is_coded) require_dtype(args, 0, DType::f32, "w");
  if (is_coded && !args.inputs.has(rng))
    shape_error(args, "w in " + std::string(to_string(weight.dtype)) + " needs rng");
  require_dtype(args, rng, DType::i64, "rng");
  require_shape(args, rng, {3}, "rng");
}

void require_whole_gradient(const InferArgs& args) {
  require_f32(args, 1, args.inputs[0].shape, "g");
  if (has_input(args, StepInput::row_of))
    shape_error(args, "row_of is of a row-sparse g, and this step takes a whole one");
}

void require_hyper(const InferArgs& args) {
  require_f32(args, index_of(StepInput::hyper, args.inputs.size()), {4}, "hyper");
  require_f32(args, index_of(StepInput::coefficient, args.inputs.size()), {}, "coefficient");
}

void require_share(const InferArgs& args, const std::string& name) {
  const double value = args.attrs.real(name);
  if (!(value >= 0 && value < 1)) shape_error(args, name + " must be in [0, 1)");
}

void require_not_negative(const InferArgs& args, const std::string& name) {
  if (!(args.attrs.real(name) >= 0)) shape_error(args, name + " must not be negative");
}

}  // namespace snug
