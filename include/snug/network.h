// SPDX-License-Identifier: Apache-2.0
// A network of your own: a function that builds it, value by value, for as many rows as it is
// asked for. The number of rows of a micro-batch is the planner's choice, so nothing may depend on
// it but shapes. Ops are in snug/ops.h, layers in snug/layers.h; docs/library.md is the guide.
//
//   snug::Network network("classifier", [](snug::NetworkBuilder& b) {
//     const snug::Tensor x = b.input("x", {784});
//     const snug::Tensor hidden = snug::relu(snug::linear(b, "hidden", x, 128));
//     const snug::Tensor logits = snug::linear(b, "out", hidden, 10);
//     b.output("logits", logits);
//     b.minimize(snug::cross_entropy(b, logits, b.input("label", {}, snug::DType::i32)));
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "snug/attrs.h"
#include "snug/init.h"
#include "snug/lengths.h"
#include "snug/types.h"

namespace snug {

class CustomOp;
class NetworkBuilder;
struct NetworkFacts;

/// A value of a network that is being built. Copies stand for the same value; valid while its
/// builder is.
class Tensor {
 public:
  Tensor() = default;  // none: an optional operand that is not given

  // By value: the next op may move what the builder holds.
  [[nodiscard]] TensorType type() const;
  [[nodiscard]] Shape shape() const { return type().shape; }
  /// One of its sizes; negative axes count from the last. Throws Error{shape_mismatch}.
  [[nodiscard]] int64_t dim(int64_t axis) const;
  [[nodiscard]] explicit operator bool() const { return builder_ != nullptr; }
  /// Throws Error{invalid_graph} for a tensor that is none.
  [[nodiscard]] NetworkBuilder& builder() const;

 private:
  friend class NetworkBuilder;
  Tensor(NetworkBuilder* builder, int32_t id) : builder_(builder), id_(id) {}
  NetworkBuilder* builder_ = nullptr;
  int32_t id_ = -1;
};

/// The sizes of a row of an input. The first may be a length of the rows, {b.length(), 16}: shorter
/// rows are filled up there.
class RowShape {
 public:
  class Axis {
   public:
    Axis(int64_t size) : size_(size) {}                                    // NOLINT: alike
    Axis(const Length& length) : size_(length), length_(length.name()) {}  // NOLINT: alike
    [[nodiscard]] int64_t size() const { return size_; }
    /// The name of the length that it is; nothing where it is none.
    [[nodiscard]] const std::optional<std::string>& length() const { return length_; }

   private:
    int64_t size_;
    std::optional<std::string> length_;
  };

  RowShape() = default;
  RowShape(std::initializer_list<Axis> axes) : axes_(axes) {}
  explicit RowShape(std::vector<Axis> axes) : axes_(std::move(axes)) {}
  RowShape(const Shape& sizes) : axes_(sizes.begin(), sizes.end()) {}  // NOLINT: alike
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }

 private:
  std::vector<Axis> axes_;
};

/// What a network's function is given. Every error names the scope or the value that it is about.
class NetworkBuilder {
 public:
  NetworkBuilder(const NetworkBuilder&) = delete;
  NetworkBuilder& operator=(const NetworkBuilder&) = delete;

  /// Rows of a micro-batch.
  [[nodiscard]] int64_t rows() const;
  /// The length that rows are padded to, where SessionOptions::lengths has any; otherwise 0. Where
  /// lengths have names, the one of this name.
  [[nodiscard]] Length length(const std::string& name = {}) const;
  /// True for the step that trains: dropout and batch statistics belong to it only.
  [[nodiscard]] bool training() const;

  /// Fed with every batch: one entry of `row_shape` a row, so the value is (rows, row_shape...).
  /// Elements are f32, i32 or boolean. Where rows are filled up to a length, it is the first axis
  /// and says so: {b.length(), 16}.
  Tensor input(const std::string& name, const RowShape& row_shape, DType dtype = DType::f32);
  /// A weight, called SCOPE.name.
  Tensor parameter(const std::string& name, const Shape& shape, const InitRule& init);
  /// A part of the network that is saved with it and that no gradient moves.
  Tensor buffer(const std::string& name, const Shape& shape, const InitRule& init);

  /// Any op by name (those of snug/ops.h, and what `snug explain --stages` prints); an absent
  /// optional operand is a Tensor().
  std::vector<Tensor> op(const std::string& name, const std::vector<Tensor>& operands,
                         Attrs attributes = {});
  /// One with a single output.
  Tensor op1(const std::string& name, const std::vector<Tensor>& operands, Attrs attributes = {});

  /// A key of random numbers for an op of your own, another one at every call; none in evaluation.
  /// It is i64(3): {seed, updates before this one, first row of the micro-batch in the batch}. Draw
  /// from these three and from the place of a number in its row only, and no plan changes what is
  /// drawn. The seed is that of the session for the first key, in the order in which a walk from
  /// the loss through the operands comes by them; for key k behind it, the lower 63 of the first
  /// two words of philox4x32({k, 0, 0, 1}, seed), shifted right by one.
  Tensor random_key();

  /// The weighted mean of `values` (rows, ...) over all rows of the global batch, as a scalar that
  /// is this micro-batch's part of it. `weights` is an input of the shape of `values`, or of its
  /// first axes (rows, ...), f32 or boolean; without it every element has the weight 1. Rows that
  /// only fill up a micro-batch have no weight.
  Tensor weighted_mean(const Tensor& values, const Tensor& weights = {});
  /// The mean of softmax cross entropy of `logits` (rows, ..., classes) over the labels i32(rows,
  /// ...) that are not -100. Labels that are no input, nor one in another shape, all count: -100
  /// among them is Error{bad_data} in the step.
  Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0);

  /// What training minimizes, once: a sum of means from above, each times a constant.
  void minimize(const Tensor& loss);
  /// A value f32(rows, ...) that evaluation and prediction hand out, under one name.
  void output(const std::string& name, const Tensor& value);
  /// Says that a row's result depends on the other rows of its batch, and why ("compares every row
  /// with every other"). Such a batch is not split unless SessionOptions::allow_coupled_split.
  void couples_rows(const std::string& reason);

  /// Says that what fills shorter rows up to a length may count in its results, and why ("two means
  /// of the same places are divided"): a mean over an axis that follows a length, a sum, maximum or
  /// softmax of places that no mask made 0, or a number that follows a length is then not refused.
  void counts_padding(const std::string& reason);

  /// Names of the values that follow begin with it: set through Scope.
  [[nodiscard]] const std::string& scope() const;

  struct State;
  explicit NetworkBuilder(State& state) : state_(state) {}
  [[nodiscard]] State& state() const { return state_; }
  [[nodiscard]] int32_t id_of(const Tensor& tensor, const char* what) const;
  /// Throws Error{invalid_graph} for a layer without a name, or a weight that cannot be.
  void check_layer(const std::string& name, const Shape& weight) const;
  [[nodiscard]] Tensor tensor_of(int32_t id) { return id < 0 ? Tensor() : Tensor(this, id); }

 private:
  State& state_;
};

/// Whether a name that is taken is an error, or the weight that it names is used again. Of parts
/// that share a weight at most one has it (own), and may come behind others: what it says of
/// initial values counts.
enum class Weights : uint8_t { own, shared };

/// Appends `name` to the scope for its lifetime: Scope scope(b, "encoder.layer.3"). With
/// Weights::shared a second part of the network in a scope of the same name has the weights of the
/// first: one parameter with several uses. Where there is no second one, SessionOptions::on_message
/// is told.
class Scope {
 public:
  Scope(NetworkBuilder& builder, const std::string& name, Weights weights = Weights::own);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  NetworkBuilder& builder_;
  std::string before_;
  bool shared_before_;
};

/// A network: a name and the function that builds it. The function is called several times, for
/// several numbers of rows, in training and in evaluation; it must build the same network each
/// time.
class Network {
 public:
  using Build = std::function<void(NetworkBuilder&)>;
  Network(std::string name, Build build) : name_(std::move(name)), build_(std::move(build)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Build& build() const { return build_; }
  /// Ops of your own that the function uses (snug/custom_op.h).
  Network& add(std::shared_ptr<const CustomOp> op) {
    ops_.push_back(std::move(op));
    return *this;
  }
  [[nodiscard]] const std::vector<std::shared_ptr<const CustomOp>>& ops() const { return ops_; }
  /// What is known of a model family's network without building it. Null: it is built to find that
  /// out.
  [[nodiscard]] const std::shared_ptr<const NetworkFacts>& facts() const { return facts_; }
  [[nodiscard]] Network with_facts(std::shared_ptr<const NetworkFacts> facts) const {
    Network told = *this;
    told.facts_ = std::move(facts);
    return told;
  }

 private:
  std::string name_;
  Build build_;
  std::vector<std::shared_ptr<const CustomOp>> ops_;
  std::shared_ptr<const NetworkFacts> facts_;
};

}  // namespace snug
