// SPDX-License-Identifier: Apache-2.0
// NetworkBuilder over GraphBuilder.
#include <algorithm>
#include <cmath>

#include "compile/value_names.h"
#include "graph/storage.h"
#include "network/facts.h"
#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/fed_names.h"
#include "ops/loss/loss.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "snug/error.h"

namespace snug {

using network::check_name;
using network::require_network;
using network::tensor_in;
using network::value_of;

namespace {

[[noreturn]] void fail(const NetworkBuilder& builder, const std::string& what,
                       const std::string& hint = {}) {
  throw Error(ErrorCode::invalid_graph, builder.scope().empty() ? "network" : builder.scope(), what,
              hint);
}

void check_rule(const NetworkBuilder& builder, const std::string& name, const InitRule& rule,
                const Shape& shape) {
  const auto in_f32 = [](double number) { return std::isfinite(static_cast<float>(number)); };
  const bool is_finite =
      in_f32(rule.deviation) && in_f32(rule.constant) && in_f32(rule.bound) && in_f32(rule.cutoff);
  if (!is_finite || rule.deviation < 0 || rule.bound < 0 || rule.cutoff < 0)
    fail(builder, "'" + name + "' has no initial value",
         "give a rule of finite numbers, within 3.4e38 of 0: a deviation, bound and cutoff of 0 or "
         "more");
  const int64_t rows = shape.empty() ? 0 : shape[0];
  if (rule.zero_row >= rows || rule.zero_row < -1)
    fail(builder,
         "'" + name + "' of " + to_string(shape) + " has no row " + std::to_string(rule.zero_row) +
             " to begin with zeros",
         "give a zero_row within its first axis, or -1 for none");
}

// Indices of kernels are of 31 bits.
void check_sizes(const NetworkBuilder& builder, const std::string& name, const Shape& shape) {
  constexpr int64_t kMostElements = INT32_MAX;
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 1 || size > kMostElements / elements)
      fail(builder, "'" + name + "' cannot be " + to_string(shape),
           "sizes are 1 or more, and their product at most " + std::to_string(kMostElements));
    elements *= size;
  }
}

constexpr int64_t kNoLabel = int64_t{INT32_MIN} - 1;  // what no i32 is

template <class Item>
void add_fact(std::vector<Item>& items, const Item& item) {
  if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
}

int64_t product_from(const Shape& shape, size_t first) {
  return element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end()));
}

// (rows) as the weight of every element of (rows, ...).
ValueId row_weights_like(NetworkBuilder::State& state, const Shape& shape) {
  if (state.row_weights == kNone)
    state.row_weights = state.graph.input(kRowWeights, {DType::f32, {state.request.rows}});
  Shape ones(shape.size(), 1);
  ones[0] = shape[0];
  return reshape(state.graph, state.row_weights, ones);
}

ValueId inverse_total(NetworkBuilder::State& state, network::MeanTotal total) {
  const size_t index = state.means.size();
  total.name = kInverseTotal + (index == 0 ? std::string() : "." + std::to_string(index));
  add_fact(state.facts.means, total);
  return state.graph.input(total.name, {DType::f32, {}});
}

bool is_fed(const GraphBuilder& graph, ValueId id, const NetworkFacts& facts) {
  const Value& value = graph.graph().value(id);
  return value.kind == ValueKind::input &&
         std::any_of(facts.inputs.begin(), facts.inputs.end(),
                     [&](const network::FedInput& input) { return input.name == value.name; });
}

// A weight for every element of `values`: the caller's, times that of the row.
ValueId all_weights(NetworkBuilder::State& state, const Shape& shape, ValueId weights) {
  GraphBuilder& graph = state.graph;
  const ValueId rows = row_weights_like(state, shape);
  if (weights == kNone) return rows;
  if (graph.type(weights).dtype == DType::boolean) weights = cast(graph, weights, DType::f32);
  Shape aligned = graph.shape(weights);
  aligned.resize(shape.size(), 1);
  return mul(graph, reshape(graph, weights, aligned), rows);
}

}  // namespace

void network::check_name(const NetworkBuilder& builder, const std::string& name) {
  const auto is_or_begins = [&](const std::string& word) {
    return name == word || name.starts_with(word + ".");
  };
  for (const char* word :
       {kRowWeights, kInverseTotal, kRandomKey, compile::kLossName, compile::kHyperName,
        compile::kGradNormName, compile::kLossScaleName, compile::kFoundFactorName,
        compile::kClipFactorName, compile::kLossUnscaleName}) {
    if (is_or_begins(word))
      fail(builder, "the name '" + name + "' is taken by training itself", "choose another name");
  }
  if (name == "__metadata__")
    fail(builder, "the name '" + name + "' is that of notes in a file of weights",
         "choose another name");
  for (const std::string prefix : {compile::kGradientPrefix, compile::kKeptBufferPrefix}) {
    if (name.starts_with(prefix))
      fail(builder, "names do not begin with '" + prefix + "': '" + name + "'",
           "choose another name");
  }
  if (name.empty()) fail(builder, "a value needs a name");
}

void network::record_rule(const NetworkBuilder& builder, const std::string& weight,
                          const InitRule& rule) {
  NetworkBuilder::State& state = builder.state();
  ++state.uses[weight];
  if (!state.graph.shares_weights()) {
    state.facts.init.insert_or_assign(weight, rule);
    state.owned.insert(weight);
    return;
  }
  const auto [known, is_first] = state.shared_rules.emplace(weight, rule);
  if (known->second != rule) state.disputed.insert(weight);
  state.facts.init.emplace(weight, rule);
}

ValueId network::shared_random_key(NetworkBuilder& builder) {
  NetworkBuilder::State& state = builder.state();
  if (state.random_key == kNone) state.random_key = compile::random_key_of(state.graph);
  return state.random_key;
}

void network::require_network(const NetworkBuilder& builder, const char* call) {
  if (builder.state().is_gradient)
    fail(builder, std::string(call) + " is called in the gradient of an op",
         "build it of the op's operands: their shapes say how many rows there are");
}

ValueId network::value_of(const NetworkBuilder& builder, const Tensor& tensor, const char* what) {
  return ValueId(builder.id_of(tensor, what));
}

Tensor network::tensor_in(NetworkBuilder& builder, ValueId id) {
  return builder.tensor_of(id.number());
}

TensorType Tensor::type() const { return builder().state().graph.graph().type(ValueId(id_)); }

int64_t Tensor::dim(int64_t axis) const {
  const Shape sizes = shape();
  const auto rank = static_cast<int64_t>(sizes.size());
  return sizes[normalize_axis(axis, rank, builder().scope())];
}

NetworkBuilder& Tensor::builder() const {
  if (builder_ == nullptr)
    throw Error(ErrorCode::invalid_graph, "network", "an operand that is needed is not given");
  return *builder_;
}

int64_t NetworkBuilder::rows() const {
  require_network(*this, "rows()");
  return state_.request.rows;
}

Length NetworkBuilder::length(const std::string& name) const {
  require_network(*this, "length()");
  const Lengths& given = state_.request.lengths;
  const int64_t size = given.of(name);
  if (size == 0 && !(name.empty() && given.empty()))
    fail(*this,
         name.empty() ? "a length without a name is asked for"
                      : "no length is called '" + name + "'",
         given.empty() ? "name it in SessionOptions::lengths" : "there are: " + to_string(given));
  state_.facts.lengths.insert(name);
  return {name, size};
}

bool NetworkBuilder::training() const { return state_.request.training; }
const std::string& NetworkBuilder::scope() const { return state_.graph.scope(); }

int32_t NetworkBuilder::id_of(const Tensor& tensor, const char* what) const {
  if (!tensor) fail(*this, std::string("the operand '") + what + "' is not given");
  if (&tensor.builder() != this)
    fail(*this, std::string("the operand '") + what + "' belongs to another building");
  return tensor.id_;
}

Tensor NetworkBuilder::input(const std::string& name, const RowShape& row_shape, DType dtype) {
  require_network(*this, "input()");
  check_name(*this, name);
  if (dtype == DType::i64) fail(*this, "the input '" + name + "' has elements of i64", "use i32");
  network::FedInput input{.name = name, .dtype = dtype, .row_shape = {}, .length = {}};
  Shape shape = {rows()};
  for (const RowShape::Axis& axis : row_shape.axes()) {
    if (axis.length() && shape.size() > 1)
      fail(*this, "a length is an axis behind the first of the input '" + name + "'",
           "make it the first axis of a row, where shorter rows are filled up");
    if (axis.length()) input.length = axis.length();
    input.row_shape.push_back(axis.size());
    shape.push_back(axis.size());
  }
  check_sizes(*this, name, input.row_shape);
  add_fact(state_.facts.inputs, input);
  return tensor_in(*this, state_.graph.input(name, {dtype, shape}));
}

Tensor NetworkBuilder::parameter(const std::string& name, const Shape& shape,
                                 const InitRule& init) {
  require_network(*this, "parameter()");
  const std::string full = nn::scoped(state_.graph, name);
  check_name(*this, full);
  check_sizes(*this, full, shape);
  check_rule(*this, full, init, shape);
  network::record_rule(*this, full, init);
  return tensor_in(*this, state_.graph.parameter(full, {DType::f32, shape}));
}

Tensor NetworkBuilder::buffer(const std::string& name, const Shape& shape, const InitRule& init) {
  require_network(*this, "buffer()");
  const std::string full = nn::scoped(state_.graph, name);
  check_name(*this, full);
  check_sizes(*this, full, shape);
  check_rule(*this, full, init, shape);
  network::record_rule(*this, full, init);
  return tensor_in(*this, state_.graph.buffer(full, {DType::f32, shape}));
}

void NetworkBuilder::check_layer(const std::string& name, const Shape& weight) const {
  require_network(*this, "a layer with weights");
  if (name.empty()) fail(*this, "a layer needs a name");
  check_name(*this, nn::scoped(state_.graph, name));
  check_sizes(*this, name, weight);
}

std::vector<Tensor> NetworkBuilder::op(const std::string& name, const std::vector<Tensor>& operands,
                                       Attrs attributes) {
  std::vector<ValueId> ids;
  for (const Tensor& operand : operands)
    ids.push_back(operand ? value_of(*this, operand, name.c_str()) : kNone);
  std::vector<Tensor> outputs;
  for (const ValueId id : state_.graph.op(name, ids, std::move(attributes)))
    outputs.push_back(tensor_in(*this, id));
  return outputs;
}

Tensor NetworkBuilder::op1(const std::string& name, const std::vector<Tensor>& operands,
                           Attrs attributes) {
  const std::vector<Tensor> outputs = op(name, operands, std::move(attributes));
  if (outputs.size() != 1) fail(*this, "the op '" + name + "' has several outputs", "use op()");
  return outputs[0];
}

Tensor NetworkBuilder::random_key() {
  require_network(*this, "random_key()");
  if (!training()) return {};
  const std::string name = kOwnKeyPrefix + std::to_string(state_.own_keys++);
  return tensor_in(*this, state_.graph.input(name, {DType::i64, {3}}));
}

Tensor NetworkBuilder::weighted_mean(const Tensor& values, const Tensor& weights) {
  require_network(*this, "weighted_mean()");
  GraphBuilder& graph = state_.graph;
  const ValueId x = value_of(*this, values, "values");
  const Shape shape = graph.shape(x);
  if (shape.empty() || shape[0] != rows())
    fail(*this, "a mean is taken over (rows, ...), not " + to_string(values.type()));
  network::MeanTotal total{.name = {}, .weights = {}, .each = product_from(shape, 1)};
  ValueId given = kNone;
  if (weights) {
    given = value_of(*this, weights, "weights");
    const Shape& of_weights = graph.shape(given);
    if (!is_fed(graph, given, state_.facts) || graph.type(given).dtype == DType::i32)
      fail(*this, "weights of a mean must be an input, f32 or boolean",
           "their sum over the global batch is known before its first row is computed");
    if (of_weights.size() > shape.size() ||
        !std::equal(of_weights.begin(), of_weights.end(), shape.begin()))
      fail(*this, "weights " + to_string(of_weights) + " are no first axes of the values " +
                      to_string(shape));
    total.weights = graph.graph().value(given).name;
    total.each = product_from(shape, of_weights.size());
  }
  state_.by_row.push_back(x);
  const ValueId weighted = mul(graph, x, all_weights(state_, shape, given));
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const ValueId sum = reduce_sum(graph, weighted, axes);
  const ValueId mean = mul(graph, sum, inverse_total(state_, total));
  state_.means.push_back(mean);
  return tensor_in(*this, mean);
}

Tensor NetworkBuilder::cross_entropy(const Tensor& logits, const Tensor& labels,
                                     double label_smoothing) {
  require_network(*this, "cross_entropy()");
  GraphBuilder& graph = state_.graph;
  const ValueId x = value_of(*this, logits, "logits");
  const ValueId y = value_of(*this, labels, "labels");
  const Shape of_labels = graph.shape(y);
  Shape expected = graph.shape(x);
  if (expected.size() < 2 || expected[0] != rows())
    fail(*this, "logits are (rows, ..., classes), not " + to_string(logits.type()));
  const int64_t classes = expected.back();
  expected.pop_back();
  if (of_labels != expected || graph.type(y).dtype != DType::i32)
    fail(*this, "labels of logits " + to_string(logits.type()) + " are i32 of " +
                    to_string(expected) + ", not " + to_string(labels.type()));
  state_.by_row.insert(state_.by_row.end(), {x, y});
  const int64_t count = element_count(expected);
  // How many labels count is known before the first row is computed where they are fed, in any
  // shape. Of computed ones all do, so -100 is refused among them like any other that is no class.
  const ValueId fed = storage_of(graph.graph(), y);
  const bool are_fed = is_fed(graph, fed, state_.facts);
  network::MeanTotal total{.name = {}, .weights = {}, .each = count / rows()};
  if (are_fed) {
    total.weights = graph.graph().value(fed).name;
    total.each = 1;
  }
  const ValueId weights =
      reshape(graph, broadcast_to(graph, row_weights_like(state_, expected), expected), {count});
  const ValueId mean =
      softmax_cross_entropy(
          graph, reshape(graph, x, {count, classes}), reshape(graph, y, {count}), weights,
          inverse_total(state_, total),
          {.ignore_index = are_fed ? kIgnoreIndex : kNoLabel, .label_smoothing = label_smoothing})
          .loss;
  state_.means.push_back(mean);
  return tensor_in(*this, mean);
}

void NetworkBuilder::minimize(const Tensor& loss) {
  require_network(*this, "minimize()");
  if (state_.loss != kNone)
    fail(*this, "minimize is called twice", "minimize the sum of both losses");
  state_.loss = value_of(*this, loss, "loss");
}

void NetworkBuilder::output(const std::string& name, const Tensor& value) {
  require_network(*this, "output()");
  check_name(*this, name);
  const ValueId id = value_of(*this, value, "value");
  const Shape& shape = state_.graph.shape(id);
  if (shape.empty() || shape[0] != rows())
    fail(*this, "the output '" + name + "' must be (rows, ...), not " + to_string(value.type()));
  const Value& marked = state_.graph.graph().value(id);
  if (marked.kind != ValueKind::computed) fail(*this, "the output '" + name + "' is not computed");
  if (marked.type.dtype != DType::f32)
    fail(*this, "the output '" + name + "' is " + to_string(marked.type) + ", not f32",
         "outputs are handed out as floats: give cast(value, DType::f32)");
  if (!training() && !marked.name.empty())
    fail(*this, "the output '" + name + "' is the output '" + marked.name + "' already",
         "give a value one name");
  state_.by_row.push_back(id);
  if (training()) return;  // a training step would only keep it in memory
  add_fact(state_.facts.outputs, name);
  state_.graph.mark_output(id, name);
}

void NetworkBuilder::couples_rows(const std::string& reason) {
  require_network(*this, "couples_rows()");
  if (reason.empty()) fail(*this, "a coupling of rows needs a reason");
  std::string& known = training() ? state_.facts.coupling : state_.facts.eval_coupling;
  if (known.empty()) known = reason;
}

void NetworkBuilder::counts_padding(const std::string& reason) {
  require_network(*this, "counts_padding()");
  if (reason.empty()) fail(*this, "that padding counts needs a reason");
  state_.facts.counts_padding = true;
}

Scope::Scope(NetworkBuilder& builder, const std::string& name, Weights weights)
    : builder_(builder),
      before_(builder.scope()),
      shared_before_(builder.state().graph.shares_weights()) {
  GraphBuilder& graph = builder.state().graph;
  graph.set_scope(before_.empty() || name.empty() ? before_ + name : before_ + "." + name);
  graph.set_shares_weights(shared_before_ || weights == Weights::shared);
}

Scope::~Scope() {
  builder_.state().graph.set_scope(before_);
  builder_.state().graph.set_shares_weights(shared_before_);
}

}  // namespace snug
