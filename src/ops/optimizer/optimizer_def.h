// SPDX-License-Identifier: Apache-2.0
// What an optimizer is: a value in one list (optimizers.h). It has a name, named hyper-parameters
// with defaults, states that each have a role and a shape, and an op that is one step; where states
// are of the weight's shape the op has a form that stores them in 8 bits (optimizer_step.h).
// Its folder holds this value, the op and the op's kernels; one word in ops.cmake registers both.
//
// The inputs of every step are w, g, the states, hyper and coefficient?, its outputs w and the
// states, in the storages of the inputs. `hyper` is f32[4], fed once an update, so that a graph
// never changes: {learning rate, two numbers of the optimizer's own, skip}. Where skip is 1
// the step leaves w and all states as they are.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op_def.h"

namespace snug {

enum class HyperRange : uint8_t { share, not_negative, positive, flag };

struct HyperParameter {
  std::string name;
  double default_value = 0;
  HyperRange range = HyperRange::not_negative;
  std::string key = {};  // of the run configuration; empty: it is set by optim_args
};

/// Hyper-parameters by their names.
class HyperValues {
 public:
  using Entry = std::pair<std::string, double>;
  HyperValues() = default;
  HyperValues(std::initializer_list<Entry> entries) : entries_(entries) {}
  /// The name must be there.
  [[nodiscard]] double at(std::string_view name) const;
  void set(const std::string& name, double value);
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
};

struct StateSpec {
  std::string role;  // the state of parameter P is named ROLE.P
  Shape shape;
};

/// The parameter that a step is made for.
struct StepTarget {
  Shape shape;
  double weight_decay = 0;
  bool is_adapted = true;  // by norms, in optimizers that do; biases and norms' weights are not
};

/// A step of one parameter, apart from its inputs.
struct StepNode {
  std::string op;
  Attrs attrs;
};

/// What `hyper` holds.
using FedValues = std::array<double, 4>;

struct Optimizer {
  Required<std::string> name;
  Required<std::vector<HyperParameter>> parameters;
  /// The states of a parameter of this shape; all begin as zeros.
  Required<std::vector<StateSpec> (*)(const HyperValues&, const Shape&)> states;
  Required<StepNode (*)(const HyperValues&, const StepTarget&)> step;
  /// What is fed in update number `step`, counted from 1.
  Required<FedValues (*)(const HyperValues&, double learning_rate, int64_t step)> fed;
  /// What the gradient is multiplied by in the first state after the first update; 0 where no
  /// state is linear in it.
  Required<double (*)(const HyperValues&)> gradient_share;
  /// Why settings that are each in their range do not go together; empty: they do.
  Required<std::string (*)(const HyperValues&)> refusal;
};

/// The hyper-parameter that a key of the run configuration sets; null where the optimizer has none.
[[nodiscard]] const HyperParameter* parameter_of_key(const Optimizer& optimizer,
                                                     std::string_view key);

// Parts that several optimizers have in common.

/// States of the parameter's own shape.
[[nodiscard]] std::vector<StateSpec> states_like(const Shape& shape,
                                                 const std::vector<std::string>& roles);
/// {learning rate, 0, 0, 0}
[[nodiscard]] FedValues feed_rate(const HyperValues&, double learning_rate, int64_t step);
/// {learning rate, 1 - beta1^t, 1 - beta2^t, 0}
[[nodiscard]] FedValues feed_corrections(const HyperValues& settings, double learning_rate,
                                         int64_t step);
[[nodiscard]] double no_share(const HyperValues&);
[[nodiscard]] std::string nothing_refused(const HyperValues&);
/// Nesterov's form of a momentum of 0.
[[nodiscard]] std::string nesterov_alone_refused(const HyperValues& settings);

}  // namespace snug
