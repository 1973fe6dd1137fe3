// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_testing.h"

#include <algorithm>

#include "base/philox.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed)
      : random_(seed, 99), builder_(op_registry(), "random " + std::to_string(seed)) {
    const Shape shapes[] = {{}, {3}, {2, 3}, {3, 2}, {2, 2}, {1, 3}, {2, 3, 4}, {4}};
    for (const Shape& shape : shapes) {
      const std::string name = to_string(shape);
      pool_.push_back(builder_.parameter("w" + name, {DType::f32, shape}));
      pool_.push_back(builder_.state("s" + name, {DType::f32, shape}));
      pool_.push_back(builder_.input("i" + name, {DType::i32, shape}));
      pool_.push_back(builder_.input("m" + name, {DType::boolean, shape}));
    }
    pool_.push_back(builder_.input("rng", {DType::i64, {3}}));
  }

  void try_node() {
    const std::vector<const OpDef*>& ops = builder_registry();
    const OpDef& op = *ops[below(ops.size())];
    // Most random operands do not fit: a few tries an op, so that those with many operands occur
    // too.
    for (int attempt = 0; attempt < 40; ++attempt) {
      const std::vector<ValueId> inputs = choose_inputs(op);
      if (!may_overwrite(op, inputs)) continue;
      builder_.set_scope(below(3) == 0 ? "" : "block." + std::to_string(below(4)));
      builder_.set_phase(static_cast<Phase>(1 + below(3)));  // any but prologue
      try {
        for (ValueId output : builder_.op(*op.name, inputs, choose_attrs(op)))
          pool_.push_back(output);
      } catch (const Error&) {
        continue;  // refused before anything was built
      }
      if (op.alias->kind == AliasKind::must_overwrite) forget_overwritten(op, inputs);
      return;
    }
  }

  Graph take() {
    ValueId last = builder_.graph().values.end_id();
    --last;
    if (!builder_.graph().is_resident(last)) builder_.mark_output(last, "result");
    return builder_.take();
  }

 private:
  [[nodiscard]] const std::vector<const OpDef*>& builder_registry() const {
    return op_registry().all();
  }
  size_t below(size_t bound) { return static_cast<size_t>(random_.below(bound)); }
  int64_t small(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }

  std::vector<ValueId> choose_inputs(const OpDef& op) {
    std::vector<ValueId> inputs;
    const size_t extra = *op.is_variadic ? below(3) : 0;
    for (size_t i = 0; i < op.inputs->size() + extra; ++i) {
      const InputSpec& spec = (*op.inputs)[std::min(i, op.inputs->size() - 1)];
      inputs.push_back(spec.is_optional && below(2) == 0 ? kNone : pool_[below(pool_.size())]);
    }
    return inputs;
  }

  Attrs choose_attrs(const OpDef& op) {
    Attrs attrs;
    for (const AttrSpec& spec : *op.attrs) {
      if (!spec.is_required && below(2) == 0) continue;
      switch (kind_of(spec.default_value)) {
        case AttrKind::boolean:
          attrs.set(spec.name, below(2) == 0);
          break;
        case AttrKind::int64:
          attrs.set(spec.name, small(-1, 3));
          break;
        case AttrKind::real:
          attrs.set(spec.name, random_.uniform());
          break;
        case AttrKind::text:
          attrs.set(spec.name, spec.default_value);
          break;
        case AttrKind::ints: {
          std::vector<int64_t> items(below(4));
          for (int64_t& item : items) item = small(-1, 4);
          attrs.set(spec.name, std::move(items));
          break;
        }
      }
    }
    return attrs;
  }

  // What is overwritten must be resident, and read in no other place of the node.
  [[nodiscard]] bool may_overwrite(const OpDef& op, const std::vector<ValueId>& inputs) const {
    if (op.alias->kind != AliasKind::must_overwrite) return true;
    return std::all_of(op.alias->pairs.begin(), op.alias->pairs.end(),
                       [&](const std::pair<int, int>& pair) {
                         const ValueId source = inputs[static_cast<size_t>(pair.second)];
                         return source != kNone && builder_.graph().is_resident(source) &&
                                std::count(inputs.begin(), inputs.end(), source) == 1;
                       });
  }

  void forget_overwritten(const OpDef& op, const std::vector<ValueId>& inputs) {
    for (const auto& pair : op.alias->pairs)
      std::erase(pool_, inputs[static_cast<size_t>(pair.second)]);
  }

  PhiloxStream random_;
  GraphBuilder builder_;
  std::vector<ValueId> pool_;
};

}  // namespace

Graph random_graph(uint64_t seed, int attempts) {
  Generator generator(seed);
  for (int i = 0; i < attempts; ++i) generator.try_node();
  return generator.take();
}

}  // namespace snug
