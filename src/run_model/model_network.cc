// SPDX-License-Identifier: Apache-2.0
#include "run_model/model_network.h"

#include <algorithm>
#include <map>
#include <set>

#include "network/facts.h"
#include "ops/fed_names.h"
#include "run_model/row_kind.h"

namespace snug::run_model {
namespace {

// What rows are fed to the model, by the values that it has. Of texts the length is the first axis
// of what each token has.
void add_inputs(const models::SequenceModel& model, models::HeadKind head,
                NetworkBuilder::State& state) {
  const bool is_of_tokens = head == models::HeadKind::token;
  for (const ValueId id : {model.input_ids, model.token_type_ids, model.attention_mask,
                           model.pixel_values, model.labels, model.row_weights}) {
    if (id == kNone) continue;
    const Value& value = state.graph.graph().value(id);
    const Shape& shape = value.type.shape;
    network::FedInput input{.name = value.name,
                            .dtype = value.type.dtype,
                            .row_shape = Shape(shape.begin() + 1, shape.end()),
                            .length = {},
                            .is_weight = id == model.row_weights};
    const bool is_of_task = id == model.labels || id == model.row_weights;
    if (is_of_task ? is_of_tokens : id != model.pixel_values) input.length = "";
    std::vector<network::FedInput>& inputs = state.facts.inputs;
    if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
  }
}

void add_facts(const models::SequenceModel& model, models::HeadKind head,
               NetworkBuilder::State& state) {
  add_inputs(model, head, state);
  state.facts.outputs = {models::kLogits};
  if (model.loss == kNone) return;
  // Labels that are ids say themselves which of them count.
  const bool has_ids = state.graph.graph().value(model.labels).type.dtype == DType::i32;
  state.facts.means = {{.name = kInverseTotal,
                        .weights = has_ids ? models::kLabels : kRowWeights,
                        .each = 1,
                        .may_be_zero = true}};
  state.loss = model.loss;
  state.means = {model.loss};
}

}  // namespace

Network network_of(const Model& model) {
  const auto build = [architecture = model.architecture, task = model.task,
                      settings = model.settings](NetworkBuilder& b) {
    NetworkBuilder::State& state = b.state();
    models::SequenceModel built = architecture->build(
        state.graph, {b.rows(), b.length()},
        {.training = b.training(), .micro_batches = state.request.micro_batches});
    tasks::finish(state.graph, built, *task, settings, b.training());
    add_facts(built, task->head->kind, state);
    for (const Value& value : state.graph.graph().values) {
      if (is_of_model(value.kind))
        state.facts.init.emplace(value.name, architecture->init_rule(value.name, value.type.shape));
    }
  };
  NetworkFacts known;
  if (model.traits.has_batch_statistics)
    known.coupling = "normalises by the statistics of its batch";
  known.shortest = row_kind_of(model).has_lengths() ? 1 : 0;
  // Beside adapters a fresh pooler is trained, too: no base has it.
  const std::set<std::string> fresh = model.lora.is_on()
                                          ? std::set(model.fresh.begin(), model.fresh.end())
                                          : std::set<std::string>();
  known.is_head = [family = &model.family(), fresh](const std::string& parameter) {
    return family->role(parameter) == models::WeightRole::head || fresh.count(parameter) != 0;
  };
  return network::with_known_facts(Network(model.name, build), std::move(known));
}

std::vector<std::string> resized_weights(const Model& before, const Model& now) {
  if (now.resized_from == 0) return {};
  std::map<std::string, Shape> shapes;
  for (const TensorInfo& weight : tensors_of(network_of(before)))
    shapes[weight.name] = weight.shape;
  std::vector<std::string> names;
  for (const TensorInfo& weight : tensors_of(network_of(now))) {
    if (now.role(weight.name) == models::WeightRole::head) continue;
    const auto found = shapes.find(weight.name);
    if (found != shapes.end() && found->second != weight.shape) names.push_back(weight.name);
  }
  return names;
}

}  // namespace snug::run_model
