// SPDX-License-Identifier: Apache-2.0
// Every optimizer against its reference over 20 updates (tests/golden/optimizers.safetensors,
// written by tools/golden/optimizers.py), with decay, clipping, a group of its own and a schedule:
// in double by the reference kernels, in f32 by the CPU's. A case's name holds its settings.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "backend/cpu/one_kernel_test.h"
#include "nn/golden.h"
#include "ops/optimizer/optimizers.h"
#include "optim/groups.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace snug {
namespace {

constexpr int64_t kSteps = 20;
constexpr int64_t kKept[] = {1, 2, kSteps};
constexpr const char* kParameters[] = {"dense.weight", "conv.weight", "dense.bias"};

const io::SafetensorsFile& golden_file() {
  static const io::SafetensorsFile file(SNUG_SOURCE_DIR "/tests/golden/optimizers.safetensors");
  return file;
}

// The cases of the file: "OPTIMIZER/HYPER=VALUE,...".
std::vector<std::string> cases() {
  std::set<std::string> names;
  for (const io::StoredTensor& tensor : golden_file().tensors()) {
    const size_t end = tensor.name.rfind('/');
    if (tensor.name.find('=') != std::string::npos) names.insert(tensor.name.substr(0, end));
  }
  return {names.begin(), names.end()};
}

struct Case {
  optim::Options options;
  double learning_rate = 0;
  double max_norm = 0;
  optim::GroupRule group = {"conv.*", {}, {}};
};

Case read_case(const std::string& name) {
  const size_t slash = name.find('/');
  std::istringstream words(name.substr(slash + 1));
  HyperValues settings;
  Case it;
  double decay = 0;
  for (std::string word; std::getline(words, word, ',');) {
    const std::string key = word.substr(0, word.find('='));
    const double value = std::stod(word.substr(word.find('=') + 1));
    if (key == "learning_rate") {
      it.learning_rate = value;
    } else if (key == "group_learning_rate") {
      it.group.learning_rate = value;
    } else if (key == "group_weight_decay") {
      it.group.weight_decay = value;
    } else if (key == "clip") {
      it.max_norm = value;
    } else if (key == "weight_decay") {
      decay = value;
    } else {
      settings.set(key, value);
    }
  }
  it.options = optim::make_options(name.substr(0, slash), settings, decay);
  return it;
}

/// A parameter and its states.
struct Parameter {
  Shape shape;
  std::vector<double> gradients;  // of all steps
  KernelOutputs values;           // w, states

  [[nodiscard]] std::vector<double> gradient(int64_t step) const {
    const auto count = static_cast<int64_t>(values[0].size());
    return {gradients.begin() + (step - 1) * count, gradients.begin() + step * count};
  }
};

std::map<std::string, Parameter> read_parameters(const optim::Options& options) {
  std::map<std::string, Parameter> parameters;
  for (const std::string name : kParameters) {
    Parameter parameter{.shape = golden_file().find("weights/" + name)->shape,
                        .gradients = read_golden(golden_file(), "gradients/" + name),
                        .values = {read_golden(golden_file(), "weights/" + name)}};
    for (const optim::NamedState& state : optim::states_of(options, name, parameter.shape))
      parameter.values.emplace_back(static_cast<size_t>(element_count(state.type)));
    parameters[name] = std::move(parameter);
  }
  return parameters;
}

double coefficient(const Case& it, const std::map<std::string, Parameter>& parameters,
                   int64_t step) {
  double sum = 0;
  for (const auto& [name, parameter] : parameters) {
    for (const double g : parameter.gradient(step)) sum += g * g;
  }
  return std::min(1.0, it.max_norm / (std::sqrt(sum) + 1e-6));
}

/// The update node of this parameter, as training builds it, with its operands.
OneKernel step_of(const Case& it, const std::string& name, const Parameter& parameter, int64_t step,
                  double clip) {
  optim::GroupRules rules{.learning_rate = it.learning_rate};
  if (it.group.learning_rate) rules.rules.push_back(it.group);
  const optim::ParameterGroups groups =
      optim::assign_groups({std::begin(kParameters), std::end(kParameters)}, rules);
  const optim::GroupMember& member = groups.members.at(name);
  GraphBuilder builder(op_registry(), "update");
  const TensorType type{DType::f32, parameter.shape};
  (void)optim::append_update(builder, builder.parameter(name, type), builder.input("g", type),
                             builder.input("hyper", {DType::f32, {4}}),
                             builder.input("coefficient", {DType::f32, {}}), it.options,
                             {.weight_decay = member.weight_decay});
  const Node& node = builder.graph().nodes.back();
  OneKernel one(*node.op->name, node.attrs);
  one.add(type, parameter.values[0]).add(type, parameter.gradient(step));
  for (size_t i = 1; i < parameter.values.size(); ++i)
    one.add(builder.type(node.inputs[i + 1]), parameter.values[i]);
  const double rate =
      groups.rates[member.rate] * optim::rate_factor({.total_steps = kSteps}, step - 1);
  const FedValues fed = optim::fed_values(it.options, rate, step);
  one.add_absent().add({DType::f32, {4}}, {fed.begin(), fed.end()});
  if (clip == 1) return one.add_absent().add_absent();
  return one.add({DType::f32, {}}, {clip}).add_absent();
}

class Optimizer_parity : public testing::TestWithParam<std::string> {
 protected:
  void expect_equal(double tolerance,
                    const std::function<KernelOutputs(const OneKernel&)>& run) const {
    const Case it = read_case(GetParam());
    std::map<std::string, Parameter> parameters = read_parameters(it.options);
    size_t kept = 0;
    for (int64_t step = 1; step <= kSteps; ++step) {
      const double clip = it.max_norm > 0 ? coefficient(it, parameters, step) : 1;
      for (auto& [name, parameter] : parameters)
        parameter.values = run(step_of(it, name, parameter, step, clip));
      if (step != kKept[kept]) continue;
      for (const auto& [name, parameter] : parameters)
        compare(name, parameter.values[0], kept, tolerance);
      ++kept;
    }
  }

 private:
  static void compare(const std::string& name, const std::vector<double>& found, size_t kept,
                      double tolerance) {
    const std::vector<double> wanted = read_golden(golden_file(), GetParam() + "/" + name);
    for (size_t i = 0; i < found.size(); ++i) {
      const double want = wanted[kept * found.size() + i];
      ASSERT_NEAR(found[i], want, tolerance * std::max(1.0, std::abs(want)))
          << name << " element " << i << " after update " << kKept[kept];
    }
  }
};

TEST_P(Optimizer_parity, twenty_updates_in_double) { expect_equal(1e-12, run_on_reference); }

TEST_P(Optimizer_parity, twenty_updates_in_f32) {
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    expect_equal(1e-6, [](const OneKernel& one) { return run_on_cpu(one, 2); });
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Optimizer_parity, testing::ValuesIn(cases()),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(Optimizers, each_of_the_list_has_a_golden_with_decay_and_one_with_clipping) {
  for (const Optimizer* each : optimizers()) {
    bool has_decay = false;
    bool has_clip = false;
    for (const std::string& name : cases()) {
      if (!name.starts_with(*each->name + "/")) continue;
      has_decay |= name.find("weight_decay=") != std::string::npos;
      has_clip |= name.find("clip=") != std::string::npos;
    }
    EXPECT_TRUE(has_decay && has_clip) << *each->name;
  }
}

}  // namespace
}  // namespace snug
