// SPDX-License-Identifier: Apache-2.0
// Finds the kernel of a node in the lists of the op families. Holds no state between calls; one
// object may serve many executables, from one thread at a time.
#include "backend/cpu/cpu_backend.h"

#include <hwy/targets.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "backend/cpu/onednn.h"
#include "backend/cpu/product/panels.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/widened.h"
#include "backend/host_queue.h"
#include "backend/type_signature.h"
#include "base/check.h"
#include "base/threads.h"
#include "base/units.h"
#include "snug/instruction_set.h"

namespace snug {

#define SNUG_OP_FAMILY(family) std::span<const CpuKernelDef> family##_cpu_kernels();
#include "op_families_cpu.inc"
#undef SNUG_OP_FAMILY

namespace {

// A cache line, and the width of the widest vector.
constexpr int64_t kAlignmentBytes = 64;
constexpr double kCallersBytesPerSecond = 4e9;
constexpr double kCallersFlopsPerSecond = 1e9;

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(CpuContext context) : context_(std::move(context)) {
    context_.threads = std::max(context_.threads, 1);
    context_.onednn = make_onednn();
    const auto append = [this](std::span<const CpuKernelDef> family) {
      for (const CpuKernelDef& kernel : family) kernels_[kernel.op].push_back(&kernel);
    };
#define SNUG_OP_FAMILY(family) append(family##_cpu_kernels());
#include "op_families_cpu.inc"
#undef SNUG_OP_FAMILY
    (void)append;
  }

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] int64_t alignment() const override { return kAlignmentBytes; }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return byte_count(type);
  }

  [[nodiscard]] double kept_seconds_per_byte() const override {
    return context_.profile.kept_seconds_per_byte();
  }

  [[nodiscard]] double share_from_memory(double bytes) const override {
    return context_.profile.share_from_memory(bytes);
  }

  // Where products of f32 are our own, whether their weights are packed or not: bits are the same.
  [[nodiscard]] WeightPanels weight_panels() const override {
    return {panel_columns(), has_blocked_products() ? kFewProductRows : kMostPackedRows};
  }

  // Those of more rows are oneDNN's.
  [[nodiscard]] int64_t few_rows() const override {
    return has_blocked_products() ? kFewProductRows : 0;
  }

  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    if (spec.op->callers_kernel != nullptr) return select_callers(spec);
    const CpuKernelDef* found = find(spec);
    if (found == nullptr) {
      KernelChoice choice = select_widened(*this, spec, *widened(spec));
      choice.rate = rate_kind(spec);
      return choice;
    }
    const CpuKernelDef& kernel = *found;
    set_library_threads(
        context_.threads);  // oneDNN's blocking, hence its scratchpad, depends on it
    const std::string kind = with_suffix(rate_kind(spec), kernel.rate);
    const Prediction time = predict(spec, kind);
    return {
        .kernel = kernel.kernel,
        .scratch_bytes = round_up(kernel.scratch_bytes(spec, context_), kAlignmentBytes),
        .seconds = time.seconds,
        .saved_seconds = time.saved_seconds,
        .far_seconds = time.far_seconds,
        .uncertainty = context_.profile.uncertainty(kind),
        .rate = kind,
        .fused = fused_choice(kernel, spec, time.seconds),
        .row_form = kernel.row_form == nullptr ? RowwiseForm{} : kernel.row_form(spec, context_)};
  }

  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
    if (spec.op->callers_kernel != nullptr) return spec.op->callers_kernel->create(spec);
    const CpuKernelDef* kernel = find(spec);
    if (kernel == nullptr) return create_widened(*this, spec, *widened(spec));
    set_library_threads(context_.threads);
    return kernel->create(spec, context_);
  }

  [[nodiscard]] std::unique_ptr<Kernel> create_fused(const NodeSpec& spec,
                                                     int32_t count) const override {
    const CpuKernelDef* kernel = find(spec);
    SNUG_CHECK(kernel != nullptr && kernel->fused != nullptr, "no fused kernel");
    return kernel->fused->create(spec, context_, count);
  }

  [[nodiscard]] std::unique_ptr<Kernel> create_row_program(
      std::span<const RowNode> nodes) const override {
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (const RowNode& node : nodes) kernels.push_back(create(node.spec));
    return make_row_program(nodes, std::move(kernels));
  }

  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override {
    return std::make_unique<HostQueue>(context_.threads, Subnormals::zero);
  }

 private:
  struct Prediction {
    double seconds = 0;
    double saved_seconds = 0;
    double far_seconds = 0;
  };
  // Where operands in 16 bits have no rate of their own, an element takes as long as in f32: it is
  // computed so. What comes from memory is half as much.
  [[nodiscard]] Prediction predict(const NodeSpec& spec, const std::string& kind) const {
    const auto cost_of = [](const NodeSpec& of) {
      return (*of.op->cost)({of.inputs, of.outputs, of.attrs});
    };
    const MachineProfile& profile = context_.profile;
    const Cost cost = cost_of(spec);
    const Prediction own{profile.seconds(kind, cost), profile.saved_seconds(kind, cost),
                         profile.far_seconds(kind, cost)};
    if (!kind.ends_with(kHalfKind) || profile.rates.contains(kind)) return own;
    const std::optional<NodeSpec> wide = widened(spec);
    if (!wide) return own;
    const std::string kind_of_wide = rate_kind(*wide);
    const double computed = profile.seconds(kind_of_wide, cost_of(*wide));
    return {computed, profile.saved_seconds(kind_of_wide, cost_of(*wide)),
            computed + own.far_seconds - own.seconds};
  }

  // `seconds`: of one node by itself. The others of a kernel take what is left of its time.
  [[nodiscard]] KernelChoice::Fused fused_choice(const CpuKernelDef& kernel, const NodeSpec& spec,
                                                 double seconds) const {
    const int32_t most = kernel.fused == nullptr ? 1 : kernel.fused->most(spec);
    if (most < 2) return {};
    const NodeSpec whole = kernel.fused->whole(spec, most);
    const double of_all = predict(whole, with_suffix(rate_kind(whole), kernel.rate)).seconds;
    return {.most = most,
            .scratch_bytes =
                round_up(kernel.fused->scratch_bytes(spec, context_, most), kAlignmentBytes),
            .seconds = std::max(0.0, of_all - seconds) / (most - 1)};
  }

  // Nobody measured it: plain code on one thread.
  [[nodiscard]] static KernelChoice select_callers(const NodeSpec& spec) {
    const Cost cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
    const double seconds = (cost.bytes_read + cost.bytes_written) / kCallersBytesPerSecond +
                           cost.flops / kCallersFlopsPerSecond;
    return {
        .kernel = "caller's",
        .scratch_bytes = round_up(spec.op->callers_kernel->scratch_bytes(spec), kAlignmentBytes),
        .seconds = seconds,
        .far_seconds = seconds,
        .uncertainty = 1};
  }

  // The first of the list that takes the node, and why those before it do not.
  [[nodiscard]] const CpuKernelDef* first_of(const NodeSpec& spec, std::string& reasons) const {
    const auto list = kernels_.find(*spec.op->name);
    if (list == kernels_.end()) return nullptr;
    for (const CpuKernelDef* kernel : list->second) {
      const std::string reason = reason_against(*kernel, spec, context_);
      if (reason.empty()) return kernel;
      reasons += (reasons.empty() ? "" : "; ") + std::string(kernel->kernel) + ": " + reason;
    }
    return nullptr;
  }

  // Null where there is one for the node's operands in f32 only.
  [[nodiscard]] const CpuKernelDef* find(const NodeSpec& spec) const {
    std::string reasons;
    const CpuKernelDef* kernel = first_of(spec, reasons);
    if (kernel != nullptr) return kernel;
    const std::optional<NodeSpec> wide = widened(spec);
    std::string of_wide;
    if (wide && first_of(*wide, of_wide) != nullptr) return nullptr;
    const std::string& op = *spec.op->name;
    throw Error(
        ErrorCode::unsupported, op,
        "no CPU kernel takes " + signature_of(spec) + (reasons.empty() ? "" : " (" + reasons + ")"),
        reasons.empty() ? "the reference backend runs every op" : "");
  }

  CpuContext context_;
  std::map<std::string, std::vector<const CpuKernelDef*>, std::less<>> kernels_;
};

}  // namespace

std::string reason_against(const CpuKernelDef& kernel, const NodeSpec& spec,
                           const CpuContext& context) {
  std::string reason = TypeSignature(kernel.types).mismatch(spec);
  return reason.empty() ? kernel.accepts(spec, context) : reason;
}

std::unique_ptr<Backend> make_cpu_backend(CpuContext context) {
  (void)instruction_set();  // decides it, before any kernel is chosen
  // Kernels keep the pointers that dynamic dispatch gives them. Before the target is chosen, those
  // lead through a chooser that asks the processor anew at every call (CPUID, tens of microseconds
  // in a virtual machine).
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return std::make_unique<CpuBackend>(std::move(context));
}

}  // namespace snug
