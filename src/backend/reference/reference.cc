// SPDX-License-Identifier: Apache-2.0
#include "backend/reference/reference.h"

#include <algorithm>

#include "backend/host_queue.h"
#include "base/half.h"
#include "graph/text.h"

namespace snug {

#define SNUG_OP_FAMILY(family) std::span<const RefKernelDef> family##_ref_kernels();
#include "op_families_ref.inc"
#undef SNUG_OP_FAMILY

namespace {

// Nominal rates of a slow machine: plans for the reference backend need an order of sizes, not real
// times.
constexpr double kSecondsPerFlop = 1e-9;
constexpr double kSecondsPerByte = 1e-9;
constexpr double kSecondsPerCall = 1e-6;
constexpr int64_t kElementBytes = sizeof(double);

RefFn find_kernel(const std::string& op) {
  static const std::map<std::string, RefFn> kernels = [] {
    std::map<std::string, RefFn> all;
    const auto append = [&all](std::span<const RefKernelDef> family) {
      for (const RefKernelDef& kernel : family) all[kernel.op] = kernel.run;
    };
#define SNUG_OP_FAMILY(family) append(family##_ref_kernels());
#include "op_families_ref.inc"
#undef SNUG_OP_FAMILY
    return all;
  }();
  const auto found = kernels.find(op);
  if (found == kernels.end())
    throw Error(ErrorCode::unsupported, op, "the reference backend has no kernel for this op");
  return found->second;
}

// Runs the kernel, and rounds what it wrote to what the outputs' types hold.
void run_and_store(RefFn run, const RefArgs& args) {
  run(args);
  for (const RefTensor& output : args.outputs) {
    const DType dtype = output.type.dtype;
    if (!is_floating(dtype) || dtype == DType::f32) continue;
    for (int64_t i = 0; i < output.size(); ++i) output.data[i] = as_stored(dtype, output.data[i]);
  }
}

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const NodeSpec& spec)
      : attrs_(spec.attrs), run_(find_kernel(*spec.op->name)) {
    for (const InputTypes::Given& type : spec.inputs)
      inputs_.push_back({type.value_or(TensorType()), nullptr});
    for (const TensorType& type : spec.outputs) outputs_.push_back({type, nullptr});
    copies_.resize(inputs_.size());
    const AliasKind kind = spec.op->alias->kind;
    if (kind != AliasKind::must_overwrite && kind != AliasKind::may_overwrite) return;
    for (const auto& [output, input] : spec.op->alias->pairs) {
      const auto index = static_cast<size_t>(input);
      copies_[index].resize(static_cast<size_t>(inputs_[index].size()));
    }
  }

  ErrorCode run(const Launch& launch) const noexcept override {
    try {
      for (size_t i = 0; i < outputs_.size(); ++i)
        outputs_[i].data = reinterpret_cast<double*>(launch.outputs[i]);
      for (size_t i = 0; i < inputs_.size(); ++i) bind_input(i, launch.inputs[i]);
      run_and_store(run_, {inputs_, outputs_, attrs_});
      return ErrorCode::ok;
    } catch (const Error& error) {
      return error.code();
    } catch (...) {
      return ErrorCode::internal;
    }
  }

 private:
  // Reference kernels read their inputs while they write, so what is overwritten is copied first.
  void bind_input(size_t index, const std::byte* source) const {
    auto* data = reinterpret_cast<double*>(const_cast<std::byte*>(source));
    if (source != nullptr && !copies_[index].empty()) {
      std::copy_n(data, copies_[index].size(), copies_[index].begin());
      data = copies_[index].data();
    }
    inputs_[index].data = data;
  }

  Attrs attrs_;
  RefFn run_;
  mutable std::vector<RefTensor> inputs_;
  mutable std::vector<RefTensor> outputs_;
  mutable std::vector<std::vector<double>> copies_;  // by input; empty where nothing overwrites it
};

class ReferenceBackend final : public Backend {
 public:
  [[nodiscard]] std::string name() const override { return "reference"; }
  [[nodiscard]] int64_t alignment() const override { return 64; }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return element_count(type) * kElementBytes;
  }
  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    (void)find_kernel(*spec.op->name);
    const Cost cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
    return {.kernel = "reference:" + *spec.op->name,
            .scratch_bytes = 0,
            .seconds = kSecondsPerCall + kSecondsPerFlop * cost.flops +
                       kSecondsPerByte * (cost.bytes_read + cost.bytes_written)};
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
    return std::make_unique<ReferenceKernel>(spec);
  }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override {
    return std::make_unique<HostQueue>(1, Subnormals::kept);
  }
};

}  // namespace

double as_stored(DType dtype, double x) {
  const auto number = static_cast<float>(x);
  if (dtype == DType::bf16) return static_cast<double>(to_f32(to_bf16(number)));
  if (dtype == DType::f16) return static_cast<double>(to_f32(to_f16(number)));
  if (dtype == DType::bf16x8) return static_cast<double>(to_f32(to_bf16x8(number)));
  return x;
}

RefValues evaluate(const Graph& graph, const RefValues& feeds) {
  RefValues values = feeds;
  double nothing = 0;
  for (const NodeId id : graph.nodes.ids()) {
    const Node& node = graph.nodes[id];
    const std::string where = describe(graph, id);
    std::vector<RefTensor> inputs;
    std::vector<RefTensor> outputs;
    for (ValueId input : node.inputs) {
      if (input == kNone) {
        inputs.push_back({});
        continue;
      }
      const auto found = values.find(input);
      if (found == values.end()) {
        throw Error(ErrorCode::invalid_graph, where, "%" + to_string(input) + " has no value");
      }
      if (static_cast<int64_t>(found->second.size()) != element_count(graph.type(input))) {
        throw Error(ErrorCode::shape_mismatch, where,
                    "%" + to_string(input) + " is " + to_string(graph.type(input)) +
                        " but was fed " + std::to_string(found->second.size()) + " elements");
      }
      // An empty tensor is still there: kernels tell an absent input by its null pointer.
      inputs.push_back(
          {graph.type(input), found->second.empty() ? &nothing : found->second.data()});
    }
    for (ValueId output : node.outputs) {
      std::vector<double>& data = values[output];
      data.assign(static_cast<size_t>(element_count(graph.type(output))), 0.0);
      outputs.push_back({graph.type(output), data.data()});
    }
    try {
      run_and_store(find_kernel(*node.op->name), {inputs, outputs, node.attrs});
    } catch (const Error& error) {
      throw Error(error.code(), where, error.what());
    }
  }
  return values;
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace snug
