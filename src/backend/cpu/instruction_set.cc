// SPDX-License-Identifier: Apache-2.0
// oneDNN says which set runs, since it knows the processor's tiles and what the system permits; our
// own kernels are held to the same. Whoever comes with another library, or another architecture,
// adds it here alone.
#include "backend/cpu/instruction_set.h"

#include <dnnl.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdlib>

#include "base/ascii.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr const char* kVariable = "SNUG_MAX_ISA";

// No kernel is written for speed below AVX2, so nobody is helped by such a limit.
bool is_limit(InstructionSet set) {
#if HWY_ARCH_X86
  return set >= InstructionSet::avx2;
#else
  return set == InstructionSet::neon;
#endif
}

// "neon", "one of avx2, avx512"
std::string limits_in_words() {
  std::string text;
  for (const InstructionSet set : kInstructionSets) {
    if (is_limit(set)) text += (text.empty() ? "" : ", ") + std::string(to_string(set));
  }
  return (text.find(',') == std::string::npos ? "" : "one of ") + text;
}

// oneDNN's names. A value has the bits of every set below it.
struct OnednnName {
  std::string_view name;
  dnnl_cpu_isa_t isa;
};
constexpr OnednnName kOnednnNames[] = {{"SSE41", dnnl_cpu_isa_sse41},
                                       {"AVX", dnnl_cpu_isa_avx},
                                       {"AVX2", dnnl_cpu_isa_avx2},
                                       {"AVX2_VNNI", dnnl_cpu_isa_avx2_vnni},
                                       {"AVX512_MIC", dnnl_cpu_isa_avx512_mic},
                                       {"AVX512_MIC_4OPS", dnnl_cpu_isa_avx512_mic_4ops},
                                       {"AVX512_CORE", dnnl_cpu_isa_avx512_core},
                                       {"AVX512_CORE_VNNI", dnnl_cpu_isa_avx512_core_vnni},
                                       {"AVX512_CORE_BF16", dnnl_cpu_isa_avx512_core_bf16},
                                       {"AVX512_CORE_AMX", dnnl_cpu_isa_avx512_core_amx}};

dnnl_cpu_isa_t onednn_isa(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
    case InstructionSet::neon:  // another architecture's
      return dnnl_cpu_isa_sse41;
    case InstructionSet::avx2:
      return dnnl_cpu_isa_avx2;
    case InstructionSet::avx512:
      return dnnl_cpu_isa_avx512_core;
    case InstructionSet::avx512_bf16:
      return dnnl_cpu_isa_avx512_core_bf16;
    case InstructionSet::amx:
      return dnnl_cpu_isa_avx512_core_amx;
  }
  return dnnl_cpu_isa_all;
}

#if HWY_ARCH_X86
// As oneDNN looks for it.
const char* onednn_variable() {
  const char* newer = std::getenv("ONEDNN_MAX_CPU_ISA");
  return newer != nullptr && *newer != '\0' ? newer : std::getenv("DNNL_MAX_CPU_ISA");
}

std::string onednn_name(InstructionSet set) {
  const auto* const found =
      std::find_if(std::begin(kOnednnNames), std::end(kOnednnNames),
                   [&](const OnednnName& each) { return each.isa == onednn_isa(set); });
  return std::string(found->name);
}

// Highway's targets are bits, the best of them the lowest.
void hold_own_kernels_to(InstructionSet set) {
  if (set >= InstructionSet::avx512) return;  // what needs more asks instruction_set()
  const int64_t above = set == InstructionSet::avx2 ? HWY_AVX2 - 1 : 2 * HWY_AVX2 - 1;
  const int64_t supported = hwy::SupportedTargets();
  // What the program took away itself stays away.
  if ((supported & above) != 0) hwy::DisableTargets(~(supported & ~above));
}
#endif

}  // namespace

std::optional<InstructionSet> parse_limit(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::optional<InstructionSet> set = find_instruction_set(text);
  if (set && is_limit(*set)) return set;
  throw Error(ErrorCode::bad_config, kVariable,
              "'" + std::string(text) + "' in the environment is no limit that there is",
              "give " + limits_in_words() + ", or unset " + kVariable);
}

dnnl_cpu_isa_t onednn_limit(InstructionSet limit, const char* variable) {
  std::string word = variable == nullptr ? "" : variable;
  for (char& c : word) c = ascii::to_upper(c);
  for (const OnednnName& each : kOnednnNames) {
    if (each.name == word) return static_cast<dnnl_cpu_isa_t>(each.isa & onednn_isa(limit));
  }
  return onednn_isa(limit);
}

InstructionSet set_of_onednn(dnnl_cpu_isa_t isa) {
  for (const InstructionSet set : {InstructionSet::amx, InstructionSet::avx512_bf16,
                                   InstructionSet::avx512, InstructionSet::avx2}) {
    if ((isa & onednn_isa(set)) == onednn_isa(set)) return set;
  }
  return InstructionSet::baseline;
}

InstructionSet hold_to(std::optional<InstructionSet> limit) {
#if HWY_ARCH_X86
  // Fails where oneDNN was used before. That matters where it is above the limit, which shows.
  if (limit) (void)dnnl_set_max_cpu_isa(onednn_limit(*limit, onednn_variable()));
  const InstructionSet set = set_of_onednn(dnnl_get_effective_cpu_isa());
  if (limit && set > *limit) {
    throw Error(ErrorCode::bad_config, kVariable,
                "this program used oneDNN before Snug, with " + std::string(to_string(set)) +
                    ": it cannot be held to " + std::string(to_string(*limit)) + " any more",
                "call snug::instruction_set() before oneDNN is used, or set ONEDNN_MAX_CPU_ISA=" +
                    onednn_name(*limit) + " as well");
  }
  hold_own_kernels_to(set);
  return set;
#else
  // One set an architecture: nothing to choose, and nothing to hold down.
  (void)limit;
  return HWY_ARCH_ARM ? InstructionSet::neon : InstructionSet::baseline;
#endif
}

InstructionSet instruction_set() {
  static const InstructionSet set = hold_to(parse_limit(std::getenv(kVariable)));
  return set;
}

std::string instruction_set_notice(std::optional<InstructionSet> before) {
  const InstructionSet now = instruction_set();
  if (!before || *before == now) return {};
  return "instruction set: " + std::string(to_string(*before)) + " so far, " +
         std::string(to_string(now)) +
         " from here on: the last bits of the result may differ from those of a run on one of them";
}

}  // namespace snug
