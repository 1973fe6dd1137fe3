// SPDX-License-Identifier: Apache-2.0
#include "bound_node.h"

#include <cstring>

#include "base/half.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace snug {
namespace {

uint32_t noise_at(int64_t i) { return (static_cast<uint32_t>(i) * 2654435761U) >> 8; }
float number_at(int64_t i) { return 1e-3F + static_cast<float>(noise_at(i)) * 0x1p-24F; }

}  // namespace

void fill_f32(std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = number_at(static_cast<int64_t>(i));
}

BoundNode::BoundNode(const Backend& backend, const BenchSpec& bench) {
  GraphBuilder builder(op_registry(), "bench");
  std::vector<ValueId> values;
  for (size_t i = 0; i < bench.inputs.size(); ++i) {
    values.push_back(bench.inputs.has(i) ? builder.state("x" + std::to_string(i), bench.inputs[i])
                                         : kNone);
  }
  builder.op(bench.op, values, bench.attrs);
  spec = spec_of(builder.graph(), NodeId(0));
  choice = backend.select(spec);
  kernel_ = backend.create(spec);
  cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
  for (size_t i = 0; i < bench.inputs.size(); ++i)
    inputs_.push_back(bench.inputs.has(i) ? filled(bench, i) : nullptr);
  for (const TensorType& type : spec.outputs) outputs_.push_back(allocate(byte_count(type)));
  const Alias& alias = *spec.op->alias;
  if (alias.kind == AliasKind::must_overwrite) {
    for (const auto& [out, in] : alias.pairs) {
      outputs_[static_cast<size_t>(out)] = const_cast<std::byte*>(inputs_[static_cast<size_t>(in)]);
    }
  }
  scratch_ = allocate(choice.scratch_bytes);
}

ErrorCode BoundNode::run() const {
  return kernel_->run({.inputs = inputs_, .outputs = outputs_, .scratch = scratch_});
}

std::byte* BoundNode::allocate(int64_t bytes) {
  memory_.emplace_back(bytes + 1);  // a tensor may be empty
  std::memset(memory_.back().data(), 0, static_cast<size_t>(bytes));
  return memory_.back().data();
}

std::byte* BoundNode::filled(const BenchSpec& bench, size_t input) {
  const TensorType& type = bench.inputs[input];
  std::byte* data = allocate(byte_count(type));
  for (int64_t i = 0; i < element_count(type); ++i) {
    if (type.dtype == DType::u8) {
      data[i] = static_cast<std::byte>(noise_at(i));
    } else if (type.dtype == DType::i64) {
      reinterpret_cast<int64_t*>(data)[i] = i;
    } else if (type.dtype == DType::i32) {
      reinterpret_cast<int32_t*>(data)[i] =
          static_cast<int32_t>(noise_at(i) % static_cast<uint32_t>(bench.ids_below));
    } else if (type.dtype == DType::bf16) {
      reinterpret_cast<Bf16*>(data)[i] = to_bf16(number_at(i));
    } else if (type.dtype == DType::boolean) {
      data[i] = std::byte{1};
    } else {
      reinterpret_cast<float*>(data)[i] = number_at(i);
    }
  }
  return data;
}

}  // namespace snug
