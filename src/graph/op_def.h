// SPDX-License-Identifier: Apache-2.0
// OpDef: the one place that says what an op is. No field that all ops have is optional; what does
// not apply is said explicitly (not_differentiable("why"), never_in_place()). Kernels are not here:
// backends list theirs by the op's name.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "graph/op_cost.h"
#include "graph/precision.h"
#include "graph/row_flow.h"

namespace snug {

class GraphBuilder;
struct CallersKernel;  // backend/backend.h

/// A field that must be given: it has no default constructor, so forgetting one does not compile.
template <class T>
class Required {
 public:
  Required(T value)
      : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a transparent wrapper
  template <class U>
  requires(std::is_constructible_v<T, U&&> &&
           !std::is_same_v<std::remove_cvref_t<U>, Required<T>> &&
           !std::is_same_v<std::remove_cvref_t<U>, T>) Required(U&& value)
      : value_(std::forward<U>(value)) {}  // NOLINT(google-explicit-constructor)
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

struct InputSpec {
  std::string_view name;
  bool is_optional = false;
  InputSpec(const char* n, bool optional = false) : name(n), is_optional(optional) {}  // NOLINT
};
inline InputSpec optional_input(const char* name) { return {name, true}; }

/// What an attribute is to those who know no op.
///   shape    of the output: a type tells it, too
///   ordinal  which of a network's draws this is
///   sample   the axis of the rows that draws follow; -1: none
enum class AttrRole : uint8_t { other, shape, ordinal, sample };

struct AttrSpec {
  std::string name;
  AttrValue default_value;  // its kind is the attribute's kind
  bool is_required = false;
  bool is_neutral = false;  // beside the types it decides neither kernel choice, scratch nor cost
  AttrRole role = AttrRole::other;
  AttrSpec(std::string n, AttrValue value) : name(std::move(n)), default_value(std::move(value)) {}
  AttrSpec(std::string n, AttrValue kind_sample, bool required)
      : name(std::move(n)), default_value(std::move(kind_sample)), is_required(required) {}
};
inline AttrSpec required_attr(std::string name, AttrValue kind_sample) {
  return {std::move(name), std::move(kind_sample), true};
}
/// A random key, a position: nodes that differ in nothing else take the same time and scratch.
inline AttrSpec neutral(AttrSpec attr) {
  attr.is_neutral = true;
  return attr;
}

inline AttrSpec with_role(AttrRole role, AttrSpec attr) {
  attr.role = role;
  return attr;
}

/// Types of the outputs from types of the inputs; throws Error{shape_mismatch} whose place is
/// `where`.
struct InferArgs {
  const InputTypes& inputs;
  const Attrs& attrs;
  const std::string& where;
};
using InferFn = std::function<std::vector<TensorType>(const InferArgs&)>;

/// Builds the gradient of one node from ordinary nodes. dy[i] is the gradient of output i, or kNone
/// where nothing flows back; wants[i] says whether input i needs a gradient. Returns one value (or
/// kNone) an input.
struct VjpArgs {
  GraphBuilder& builder;
  const Node& node;  // a copy: building does not invalidate it
  std::span<const ValueId> dy;
  const std::vector<bool>& wants;
  /// Input / output value of the forward node, and their types.
  [[nodiscard]] ValueId in(size_t index) const { return node.inputs[index]; }
  [[nodiscard]] ValueId out(size_t index) const { return node.outputs[index]; }
  [[nodiscard]] const TensorType& type(ValueId id) const;
  /// Whether it is made of weights only, so that its gradient is a sum over the batch: in f32,
  /// however it is stored.
  [[nodiscard]] bool is_of_weights(ValueId id) const;
};
using VjpFn = std::function<std::vector<ValueId>(const VjpArgs&)>;

struct NotDifferentiable {
  std::string reason;
};
using Gradient = std::variant<VjpFn, NotDifferentiable>;
inline Gradient not_differentiable(std::string reason) {
  return NotDifferentiable{std::move(reason)};
}

/// What the gradient rule reads, so that planners know it without building the backward graph. Bit
/// i of `inputs` / `outputs` stands for input / output i.
struct Keeps {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
};

/// Which output shares bytes with which input.
enum class AliasKind : uint8_t {
  none,
  view,            // output 0 is input 0's bytes under another shape; no kernel runs
  may_overwrite,   // output i may be written over input j where j dies here; planners decide
  must_overwrite,  // output i is input j's storage after the op (an update or accumulation of a
                   // resident)
};
struct Alias {
  AliasKind kind = AliasKind::none;
  std::vector<std::pair<int, int>> pairs;  // (output, input)
};
inline Alias never_in_place() { return {}; }
inline Alias view_of_input() { return {AliasKind::view, {{0, 0}}}; }
inline Alias may_overwrite(std::vector<std::pair<int, int>> pairs) {
  return {AliasKind::may_overwrite, std::move(pairs)};
}
inline Alias must_overwrite(std::vector<std::pair<int, int>> pairs) {
  return {AliasKind::must_overwrite, std::move(pairs)};
}

/// The op that adds this op's output to a sum in the sum's place, so that nothing of the output's
/// size is made in between. Its inputs are the sum, then those of this op that are given.
struct AccumulatingForm {
  std::string op;
  Attrs attrs;
};
/// Nothing where the node has none.
using AccumulatingFormFn = std::optional<AccumulatingForm> (*)(const InputTypes& inputs,
                                                               const Attrs& attrs);

/// The op that reads an operand of this op in panels of so many columns, and the op that makes the
/// panels of it. Its inputs are those of this op, with the panels in the operand's place.
struct PackedForm {
  size_t operand = 0;
  bool is_transposed = false;  // how the operand is read
  std::string packing;
  Attrs packing_attrs;
  std::string op;
  Attrs attrs;
  int64_t rows = 0;  // that the operand is multiplied with
};
/// Nothing where the node has none.
using PackedFormFn = std::optional<PackedForm> (*)(const InputTypes& inputs, const Attrs& attrs,
                                                   int64_t panel_columns);

/// The op that reads an operand of this op in fewer bits and decodes it itself. Its inputs are
/// those of this op, with what scales the operand (kNone: nothing) at a place of its own.
struct CodedForm {
  size_t operand = 0;
  size_t scales = 0;
  std::string op;
  Attrs attrs;
};
/// Nothing where the node has none.
using CodedFormFn = std::optional<CodedForm> (*)(const Attrs& attrs);

/// The op that makes this op's output, a matrix of which few rows are not zero, as a row-sparse
/// one. Its inputs are those of this op; its outputs are the rows, zeros behind them, and i32:
/// which of them each row of the matrix is, counted from 1, and 0 where it is zero.
struct SparseForm {
  std::string op;
  Attrs attrs;
  int64_t rows = 0;  // that may not be zero
  /// The op that adds them to a row-sparse sum in its place: (rows, row_of, count, inputs of this
  /// op...) -> (rows, row_of, count), i32 count[] being how many rows the sum has.
  std::string accumulating_op;
};
/// Nothing where the node has none, or where most rows of the matrix may not be zero.
using SparseFormFn = std::optional<SparseForm> (*)(const InputTypes& inputs, const Attrs& attrs);

/// The input that may be a row-sparse matrix, and the one that says then which of its rows is
/// which; none where that is all the same.
struct SparseOperand {
  size_t rows = 0;
  std::optional<size_t> row_of = {};
  bool is_cleared = false;  // to a matrix without rows, with what says which and how many they are
};

/// Fields without an initial value are required; the others say what an op has beside them.
struct OpDef {
  Required<std::string> name;
  Required<std::vector<InputSpec>> inputs;  // the last may repeat when is_variadic
  Required<bool> is_variadic;
  Required<std::vector<std::string>> outputs;
  Required<std::vector<AttrSpec>> attrs;
  Required<InferFn> infer;
  Required<Gradient> gradient;
  Required<Keeps> keeps;
  Required<CostFn> cost;
  Required<Alias> alias;
  Timing timing = {};
  AccumulatingFormFn accumulating_form = nullptr;
  PackedFormFn packed_form = nullptr;
  CodedFormFn coded_form = nullptr;
  SparseFormFn sparse_form = nullptr;
  std::optional<SparseOperand> sparse_operand = {};
  bool is_accumulation = false;  // sum = acc + x in acc's place: what accumulating forms stand for
  /// The same numbers in another type, or in fewer bits: a weight's copy is the weight to
  /// gradients.
  bool is_conversion = false;
  /// The input that maps the rows of input 0 where it is a matrix, with the attributes of matmul.
  std::optional<size_t> linear_operand = {};
  /// The input of which rows are taken by number or by place: a table of embeddings where it is a
  /// weight. Null: none.
  std::optional<size_t> (*table_operand)(const Attrs& attrs) = nullptr;
  /// Along an axis that its inputs do not have every element is the same.
  bool repeats = false;
  /// Normalises by statistics of input 0 over all of its axes but the last.
  bool has_statistics = false;
  /// The kernel of an op that a caller's program defines, which comes with it. Null: backends list
  /// theirs.
  std::shared_ptr<const CallersKernel> callers_kernel = nullptr;
  /// How the rows of a batch go through it. Null: a row of its output may depend on every row.
  RowFlowFn row_flow = nullptr;
  /// What becomes of it where a network computes in 16 bits. By default it stays in f32.
  Precision precision = {};
};

/// Whether this attribute of the op decides neither kernel choice, scratch nor cost.
[[nodiscard]] bool is_neutral(const OpDef& op, std::string_view attr);

/// The node's attribute of this role; null where its op has none.
[[nodiscard]] const AttrValue* attr_of(const Node& node, AttrRole role);

/// All ops of the program, found by name. A value that is passed around; ops/registry.h builds it.
class OpRegistry {
 public:
  explicit OpRegistry(std::vector<const OpDef*> ops);
  /// Null when there is none.
  [[nodiscard]] const OpDef* find(std::string_view name) const;
  [[nodiscard]] const std::vector<const OpDef*>& all() const { return ops_; }

 private:
  std::vector<const OpDef*> ops_;  // sorted by name
};

/// Checks the attributes against the op's schema and fills in defaults; throws Error{invalid_graph}
/// at `where`.
[[nodiscard]] Attrs complete_attrs(const OpDef& op, Attrs given, const std::string& where);
/// Checks arity and infers the output types.
[[nodiscard]] std::vector<TensorType> infer_types(const OpDef& op, const InputTypes& inputs,
                                                  const Attrs& attrs, const std::string& where);

}  // namespace snug
