// SPDX-License-Identifier: Apache-2.0
// The limit of the instruction set: which words there are, that the lowest limit wins, and that
// both libraries keep it. What is decided once a process is looked at in processes of their own.
#include "backend/cpu/instruction_set.h"

#include <dnnl.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#if defined(__x86_64__) && defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstddef>
#include <cstdlib>
#include <iostream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/onednn.h"
#include "io/test_folder.h"

namespace snug {
namespace {

constexpr InstructionSet kX86[] = {InstructionSet::baseline, InstructionSet::avx2,
                                   InstructionSet::avx512, InstructionSet::avx512_bf16,
                                   InstructionSet::amx};

TEST(Instruction_set, is_found_by_its_name) {
  for (const InstructionSet set : kX86) EXPECT_EQ(find_instruction_set(to_string(set)), set);
  EXPECT_EQ(find_instruction_set("avx2"), InstructionSet::avx2);
  EXPECT_EQ(find_instruction_set("neon"), InstructionSet::neon);
  EXPECT_EQ(find_instruction_set("AVX2"), std::nullopt);
  EXPECT_EQ(find_instruction_set(""), std::nullopt);
}

#if HWY_ARCH_X86

TEST(Instruction_set, a_limit_is_one_of_four_words) {
  EXPECT_EQ(parse_limit(nullptr), std::nullopt);
  EXPECT_EQ(parse_limit(""), std::nullopt);
  EXPECT_EQ(parse_limit("avx2"), InstructionSet::avx2);
  EXPECT_EQ(parse_limit("avx512"), InstructionSet::avx512);
  EXPECT_EQ(parse_limit("avx512_bf16"), InstructionSet::avx512_bf16);
  EXPECT_EQ(parse_limit("amx"), InstructionSet::amx);
  for (const char* word : {"avx", "AVX2", "avx2 ", "baseline", "neon", "0"}) {
    EXPECT_ERROR((void)parse_limit(word), "bad_config: [SNUG_MAX_ISA] '" + std::string(word) +
                                              "' in the environment is no limit that there is\n"
                                              "hint: give one of avx2, avx512, avx512_bf16, amx, "
                                              "or unset SNUG_MAX_ISA");
  }
}

TEST(Instruction_set, of_the_limit_and_onednns_own_the_lower_wins) {
  const auto both = [](InstructionSet limit, const char* variable) {
    return set_of_onednn(onednn_limit(limit, variable));
  };
  for (const InstructionSet limit : kX86) {
    for (const char* none : {static_cast<const char*>(nullptr), "", "nonsense", "avx512"})
      EXPECT_EQ(both(limit, none), limit) << to_string(limit);
    EXPECT_EQ(both(limit, "SSE41"), InstructionSet::baseline);
    EXPECT_EQ(both(limit, "avx2"), std::min(limit, InstructionSet::avx2));
    EXPECT_EQ(both(limit, "AVX2_VNNI"), std::min(limit, InstructionSet::avx2));
    EXPECT_EQ(both(limit, "AVX512_CORE"), std::min(limit, InstructionSet::avx512));
    EXPECT_EQ(both(limit, "AVX512_CORE_VNNI"), std::min(limit, InstructionSet::avx512));
    EXPECT_EQ(both(limit, "Avx512_Core_Bf16"), std::min(limit, InstructionSet::avx512_bf16));
    EXPECT_EQ(both(limit, "AVX512_CORE_AMX"), limit);
  }
  // What oneDNN takes: no mixture of bits.
  EXPECT_EQ(onednn_limit(InstructionSet::amx, "AVX2_VNNI"), dnnl_cpu_isa_avx2);
  EXPECT_EQ(onednn_limit(InstructionSet::avx512, "AVX512_CORE_VNNI"), dnnl_cpu_isa_avx512_core);
  EXPECT_EQ(onednn_limit(InstructionSet::avx2, "AVX"), dnnl_cpu_isa_avx);
}

TEST(Instruction_set, of_a_processor_is_read_from_onednns) {
  EXPECT_EQ(set_of_onednn(dnnl_cpu_isa_all), InstructionSet::baseline);  // no bit: not even SSE 4.1
  EXPECT_EQ(set_of_onednn(dnnl_cpu_isa_avx), InstructionSet::baseline);
  EXPECT_EQ(set_of_onednn(dnnl_cpu_isa_avx2_vnni), InstructionSet::avx2);
  EXPECT_EQ(set_of_onednn(dnnl_cpu_isa_avx512_mic_4ops), InstructionSet::avx2);
  EXPECT_EQ(set_of_onednn(dnnl_cpu_isa_avx512_core_vnni), InstructionSet::avx512);
}

constexpr const char* kVariables[] = {"SNUG_MAX_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};

// Each body runs in a new process, which comes to it through the test anew: what stands before it
// must decide nothing.
class Instruction_set_of_a_process : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  template <class Body>
  static void expect_said(const std::string& said, const Body& body) {
    EXPECT_EXIT(run_alone(body), testing::ExitedWithCode(0), said);
  }
  template <class Body>
  [[noreturn]] static void run_alone(const Body& body) {
    for (const char* name : kVariables) unsetenv(name);
    try {
      body();
    } catch (const Error& error) {
      std::cerr << error.what();
    }
    std::exit(0);
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }

  // What runs, by both libraries.
  static void say(InstructionSet set) {
    std::cerr << "set " << to_string(set) << ", oneDNN "
              << to_string(set_of_onednn(dnnl_get_effective_cpu_isa())) << ", own " << own_kernels()
              << ".";
  }
  static std::string own_kernels() {
    const int64_t targets = hwy::SupportedTargets();
    return (targets & HWY_AVX3) != 0 ? "avx512" : (targets & HWY_AVX2) != 0 ? "avx2" : "baseline";
  }
};

const std::string kBaseline = "^set baseline, oneDNN baseline, own baseline\\.$";

TEST_F(Instruction_set_of_a_process, is_held_down_in_both_libraries) {
  expect_said(kBaseline, [] { say(hold_to(InstructionSet::baseline)); });
}

TEST_F(Instruction_set_of_a_process, onednns_variables_hold_own_kernels_down_too) {
  expect_said(kBaseline, [] {
    set("ONEDNN_MAX_CPU_ISA", "SSE41");
    say(instruction_set());
  });
  expect_said(kBaseline, [] {
    set("DNNL_MAX_CPU_ISA", "AVX");
    set("SNUG_MAX_ISA", "avx2");
    say(instruction_set());
  });
  expect_said(kBaseline, [] {  // the newer name counts, where it says anything
    set("DNNL_MAX_CPU_ISA", "SSE41");
    set("ONEDNN_MAX_CPU_ISA", "");
    set("SNUG_MAX_ISA", "amx");
    say(instruction_set());
  });
}

TEST_F(Instruction_set_of_a_process, a_limit_above_the_processor_holds_nothing_down) {
  for (const char* name : kVariables) {
    if (std::getenv(name) != nullptr) GTEST_SKIP() << name << " is set: the processor is not known";
  }
  const std::string own = own_kernels();
  const std::string wanted =
      own == "avx512"
          ? "^set (avx512|avx512_bf16|amx), oneDNN (avx512|avx512_bf16|amx), own avx512\\.$"
          : "^set " + own + ", oneDNN " + own + ", own " + own + "\\.$";
  expect_said(wanted, [] {
    set("SNUG_MAX_ISA", "amx");
    say(instruction_set());
  });
  expect_said(wanted, [] { say(instruction_set()); });
}

TEST_F(Instruction_set_of_a_process, is_no_higher_than_each_limit) {
  expect_said("^set (avx2, oneDNN avx2, own avx2|baseline, oneDNN baseline, own baseline)\\.$", [] {
    set("SNUG_MAX_ISA", "avx2");
    say(instruction_set());
  });
  expect_said("^set [a-z0-9]+, oneDNN [a-z0-9]+, own [a-z0-9]+\\.$", [] {  // not avx512_bf16
    set("SNUG_MAX_ISA", "avx512");
    say(instruction_set());
  });
  expect_said("^set [a-z0-9_]+, oneDNN [a-z0-9_]+, own [a-z0-9]+\\.$", [] {
    set("SNUG_MAX_ISA", "avx512_bf16");
    say(instruction_set());
    if (instruction_set() > InstructionSet::avx512_bf16) std::cerr << " It is above the limit.";
  });
}

#if defined(__x86_64__) && defined(__linux__)
// What Linux calls them (asm/prctl.h of later versions).
constexpr unsigned kAskForState = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr unsigned kPermitted = 0x1022;    // ARCH_GET_XCOMP_PERM
constexpr uint64_t kTileData = uint64_t{1} << 18;

bool is_permitted_tiles() {
  uint64_t permitted = 0;
  return syscall(SYS_arch_prctl, kPermitted, &permitted) == 0 && (permitted & kTileData) != 0;
}

// The process is no longer granted tiles.
void refuse_tiles() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAskForState, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    std::cerr << "no filter of system calls can be set";
}

TEST_F(Instruction_set_of_a_process, has_tiles_where_the_system_granted_them) {
  expect_said("^set (amx and permitted|less)$", [] {
    const bool has_tiles = instruction_set() == InstructionSet::amx;
    std::cerr << "set " << (has_tiles ? "amx" : "less");
    if (has_tiles) std::cerr << (is_permitted_tiles() ? " and permitted" : ", not permitted");
  });
}

TEST_F(Instruction_set_of_a_process, has_no_tiles_where_the_system_refuses_them) {
  expect_said("^set (avx512_bf16|avx512|avx2|baseline), permitted 0, has tiles 0$", [] {
    refuse_tiles();
    std::cerr << "set " << to_string(instruction_set()) << ", permitted " << is_permitted_tiles()
              << ", has tiles " << has_bf16_tiles();
  });
}
#endif

TEST_F(Instruction_set_of_a_process, a_backend_decides_it) {
  expect_said(kBaseline, [] {
    set("ONEDNN_MAX_CPU_ISA", "SSE41");
    (void)make_cpu_backend({.threads = 1, .profile = default_profile()});
    say(instruction_set());
  });
  expect_said("SNUG_MAX_ISA. 'sse2' in the environment", [] {
    set("SNUG_MAX_ISA", "sse2");
    (void)make_cpu_backend({.threads = 1, .profile = default_profile()});
  });
}

TEST_F(Instruction_set_of_a_process, where_onednn_was_used_before_a_lower_limit_is_an_error) {
  expect_said(
      "^set baseline|SNUG_MAX_ISA. this program used oneDNN before Snug, with [a-z0-9_]+: it "
      "cannot be held to "
      "baseline any more\nhint: call snug::instruction_set.. before oneDNN is used, or set "
      "ONEDNN_MAX_CPU_ISA=SSE41 as well",
      [] {
        (void)dnnl_get_effective_cpu_isa();
        say(hold_to(InstructionSet::baseline));
      });
  expect_said(kBaseline, [] {  // as the hint says
    set("ONEDNN_MAX_CPU_ISA", "SSE41");
    (void)dnnl_get_effective_cpu_isa();
    say(hold_to(InstructionSet::baseline));
  });
  expect_said("^set ", [] {  // what runs is not above it
    (void)dnnl_get_effective_cpu_isa();
    set("SNUG_MAX_ISA", "amx");
    say(instruction_set());
  });
}

#elif HWY_ARCH_ARM_A64

TEST(Instruction_set, of_ARM_is_neon_alone) {
  EXPECT_EQ(instruction_set(), InstructionSet::neon);
  EXPECT_EQ(hold_to(InstructionSet::neon), InstructionSet::neon);
  EXPECT_FALSE(has_blocked_products());
  EXPECT_FALSE(has_bf16_products());
  EXPECT_FALSE(has_bf16_tiles());
}

TEST(Instruction_set, a_limit_is_the_one_word_of_ARM) {
  EXPECT_EQ(parse_limit(nullptr), std::nullopt);
  EXPECT_EQ(parse_limit(""), std::nullopt);
  EXPECT_EQ(parse_limit("neon"), InstructionSet::neon);
  for (const char* word : {"avx2", "avx512", "avx512_bf16", "amx", "baseline", "NEON", "sve"}) {
    EXPECT_ERROR((void)parse_limit(word), "bad_config: [SNUG_MAX_ISA] '" + std::string(word) +
                                              "' in the environment is no limit that there is\n"
                                              "hint: give neon, or unset SNUG_MAX_ISA");
  }
}

#endif

TEST(Instruction_set, going_on_under_another_is_said) {
  const InstructionSet now = instruction_set();
  EXPECT_EQ(instruction_set_notice(std::nullopt), "");
  EXPECT_EQ(instruction_set_notice(now), "");
  const InstructionSet other =
      now == InstructionSet::amx ? InstructionSet::avx2 : InstructionSet::amx;
  EXPECT_EQ(instruction_set_notice(other),
            "instruction set: " + std::string(to_string(other)) + " so far, " +
                std::string(to_string(now)) +
                " from here on: the last bits of the result may differ from those of a run on one "
                "of them");
}

}  // namespace
}  // namespace snug
