// SPDX-License-Identifier: Apache-2.0
// Finds the kernel of a node in the lists of the op families. Holds no state between calls; one
// object may serve many executables, from one thread at a time.
#include "backend/cpu/cpu_backend.h"

#include <hwy/targets.h>

#include <algorithm>
#include <map>
#include <vector>

#include "backend/cpu/onednn.h"
#include "backend/type_signature.h"
#include "base/check.h"
#include "base/threads.h"
#include "base/units.h"

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

  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    if (spec.op->callers_kernel != nullptr) return select_callers(spec);
    const CpuKernelDef& kernel = find(spec);
    set_library_threads(
        context_.threads);  // oneDNN's blocking, hence its scratchpad, depends on it
    const Cost cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
    const std::string kind = rate_kind(spec);
    return {.kernel = kernel.kernel,
            .scratch_bytes = round_up(kernel.scratch_bytes(spec, context_), kAlignmentBytes),
            .seconds = context_.profile.seconds(kind, cost),
            .far_seconds = context_.profile.far_seconds(kind, cost),
            .uncertainty = context_.profile.uncertainty(kind)};
  }

  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec& spec) const override {
    if (spec.op->callers_kernel != nullptr) return spec.op->callers_kernel->create(spec);
    const CpuKernelDef& kernel = find(spec);
    set_library_threads(context_.threads);
    return kernel.create(spec, context_);
  }

 private:
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

  [[nodiscard]] const CpuKernelDef& find(const NodeSpec& spec) const {
    const std::string& op = *spec.op->name;
    std::string reasons;
    const auto list = kernels_.find(op);
    if (list != kernels_.end()) {
      for (const CpuKernelDef* kernel : list->second) {
        const std::string reason = reason_against(*kernel, spec, context_);
        if (reason.empty()) return *kernel;
        reasons += (reasons.empty() ? "" : "; ") + std::string(kernel->kernel) + ": " + reason;
      }
    }
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
  // Kernels keep the pointers that dynamic dispatch gives them. Before the target is chosen, those
  // lead through a chooser that asks the processor anew at every call (CPUID, tens of microseconds
  // in a virtual machine).
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return std::make_unique<CpuBackend>(std::move(context));
}

}  // namespace snug
