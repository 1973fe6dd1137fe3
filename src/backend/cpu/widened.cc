// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/widened.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"
#include "graph/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/registry.h"

namespace snug {
namespace {

TensorType in_f32(const TensorType& type) {
  return {is_half(type.dtype) ? DType::f32 : type.dtype, type.shape};
}

NodeSpec cast_of(const TensorType& from, const TensorType& to) {
  GraphBuilder builder(op_registry(), "widened");
  (void)cast(builder, builder.input("x", from), to.dtype);
  return spec_of(builder.graph(), NodeId(0));
}

// Calls f(is an output, its index, the cast between it and its copy, bytes of the copy).
template <class F>
void for_each_copy(const Backend& backend, const NodeSpec& spec, const NodeSpec& wide, F f) {
  const auto bytes = [&](const TensorType& type) {
    return round_up(byte_count(type), backend.alignment());
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs.has(i) && is_half(spec.inputs[i].dtype))
      f(false, i, cast_of(spec.inputs[i], wide.inputs[i]), bytes(wide.inputs[i]));
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    if (is_half(spec.outputs[i].dtype))
      f(true, i, cast_of(wide.outputs[i], spec.outputs[i]), bytes(wide.outputs[i]));
  }
}

// Scratch: the copies, then the inner kernel's.
class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const Backend& backend, const NodeSpec& spec, const NodeSpec& wide)
      : inner_(backend.create(wide)), inputs_(spec.inputs.size()), outputs_(spec.outputs.size()) {
    for_each_copy(backend, spec, wide,
                  [&](bool is_output, size_t index, const NodeSpec& cast, int64_t bytes) {
                    (is_output ? to_outputs_ : from_inputs_)
                        .push_back({index, inner_scratch_, backend.create(cast)});
                    inner_scratch_ += bytes;
                  });
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    std::copy(launch.inputs.begin(), launch.inputs.end(), inputs_.begin());
    std::copy(launch.outputs.begin(), launch.outputs.end(), outputs_.begin());
    for (const Copy& copy : from_inputs_) {
      std::byte* wide = launch.scratch + copy.offset;
      if (const ErrorCode code = convert(copy, launch.inputs[copy.index], wide);
          code != ErrorCode::ok)
        return code;
      inputs_[copy.index] = wide;
    }
    for (const Copy& copy : to_outputs_) outputs_[copy.index] = launch.scratch + copy.offset;
    const ErrorCode code = inner_->run(
        {.inputs = inputs_, .outputs = outputs_, .scratch = launch.scratch + inner_scratch_});
    if (code != ErrorCode::ok) return code;
    for (const Copy& copy : to_outputs_) {
      const ErrorCode narrowed = convert(copy, outputs_[copy.index], launch.outputs[copy.index]);
      if (narrowed != ErrorCode::ok) return narrowed;
    }
    return ErrorCode::ok;
  }

 private:
  struct Copy {
    size_t index = 0;    // of the input or output
    int64_t offset = 0;  // in scratch
    std::unique_ptr<Kernel> cast;
  };
  static ErrorCode convert(const Copy& copy, const std::byte* from, std::byte* to) {
    return copy.cast->run({.inputs = {&from, 1}, .outputs = {&to, 1}});
  }

  std::unique_ptr<Kernel> inner_;
  std::vector<Copy> from_inputs_;
  std::vector<Copy> to_outputs_;
  int64_t inner_scratch_ = 0;
  // Operands of the inner kernel's launch, kept here since a run allocates nothing.
  mutable std::vector<const std::byte*> inputs_;
  mutable std::vector<std::byte*> outputs_;
};

}  // namespace

std::optional<NodeSpec> widened(const NodeSpec& spec) {
  NodeSpec wide{.op = spec.op, .inputs = {}, .outputs = {}, .attrs = spec.attrs};
  for (const InputTypes::Given& type : spec.inputs)
    wide.inputs.add(type ? InputTypes::Given(in_f32(*type)) : std::nullopt);
  for (const TensorType& type : spec.outputs) wide.outputs.push_back(in_f32(type));
  if (wide == spec) return std::nullopt;
  return wide;
}

KernelChoice select_widened(const Backend& backend, const NodeSpec& spec, const NodeSpec& wide) {
  KernelChoice choice = backend.select(wide);
  choice.kernel += " on f32 copies";
  choice.fused = {};  // each has copies of its own
  choice.row_form = {};
  for_each_copy(backend, spec, wide, [&](bool, size_t, const NodeSpec& cast, int64_t bytes) {
    const KernelChoice conversion = backend.select(cast);
    choice.scratch_bytes += bytes;
    choice.seconds += conversion.seconds;
    choice.saved_seconds += conversion.saved_seconds;
    choice.far_seconds += conversion.far_seconds;
  });
  return choice;
}

std::unique_ptr<Kernel> create_widened(const Backend& backend, const NodeSpec& spec,
                                       const NodeSpec& wide) {
  return std::make_unique<WidenedKernel>(backend, spec, wide);
}

}  // namespace snug
