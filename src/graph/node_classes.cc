// SPDX-License-Identifier: Apache-2.0
#include "graph/node_classes.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "graph/op_def.h"

namespace snug {
namespace {

class Hash {
 public:
  void add(uint64_t word) { value_ = (std::rotl(value_, 5) ^ word) * 0x9E3779B97F4A7C15ull; }
  void add(const TensorType& type) {
    add(static_cast<uint64_t>(type.dtype) << 32 | type.shape.size());
    for (const int64_t dim : type.shape) add(static_cast<uint64_t>(dim));
  }
  void add(const AttrValue& attr) {
    add(attr.index());
    switch (kind_of(attr)) {
      case AttrKind::boolean:
        return add(static_cast<uint64_t>(std::get<bool>(attr)));
      case AttrKind::int64:
        return add(static_cast<uint64_t>(std::get<int64_t>(attr)));
      case AttrKind::real:
        return add(std::hash<double>{}(std::get<double>(attr)));
      case AttrKind::text:
        return add(std::hash<std::string>{}(std::get<std::string>(attr)));
      case AttrKind::ints:
        for (const int64_t each : std::get<std::vector<int64_t>>(attr))
          add(static_cast<uint64_t>(each));
    }
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

constexpr uint64_t kAbsent = ~uint64_t{0};

}  // namespace

const std::vector<bool>& NodeClasses::counted_attrs(const Node& node) {
  const auto [found, is_new] = counted_.try_emplace(node.op);
  if (!is_new) return found->second;
  for (const auto& [name, value] : node.attrs.items()) {
    found->second.push_back(neutral_ == NeutralAttrs::count || !is_neutral(*node.op, name));
  }
  return found->second;
}

uint64_t NodeClasses::hash_of(const Node& node, const std::vector<bool>& is_counted) const {
  Hash hash;
  hash.add(reinterpret_cast<uintptr_t>(node.op));
  hash.add(node.inputs.size());
  for (const ValueId id : node.inputs) {
    if (id == kNone) {
      hash.add(kAbsent);
    } else {
      hash.add(graph_.type(id));
    }
  }
  for (const ValueId id : node.outputs) hash.add(graph_.type(id));
  const auto& attrs = node.attrs.items();
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (is_counted[i]) hash.add(attrs[i].second);
  }
  return hash.value();
}

bool NodeClasses::are_equal(const Node& a, const Node& b,
                            const std::vector<bool>& is_counted) const {
  const auto has_equal_type = [&](ValueId x, ValueId y) {
    if (x == kNone || y == kNone) return x == y;
    return graph_.type(x) == graph_.type(y);
  };
  if (a.op != b.op ||
      !std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                  has_equal_type) ||
      !std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                  has_equal_type))
    return false;
  const auto& attrs = a.attrs.items();
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (is_counted[i] && attrs[i].second != b.attrs.items()[i].second) return false;
  }
  return true;
}

size_t NodeClasses::class_of(NodeId id) {
  const Node& node = graph_.node(id);
  const std::vector<bool>& is_counted = counted_attrs(node);
  std::vector<size_t>& alike = by_hash_[hash_of(node, is_counted)];
  for (const size_t each : alike) {
    if (are_equal(graph_.node(first_[each]), node, is_counted)) return each;
  }
  alike.push_back(first_.size());
  first_.push_back(id);
  return alike.back();
}

}  // namespace snug
