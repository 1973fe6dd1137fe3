// SPDX-License-Identifier: Apache-2.0
#include "session/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "base/float_mode.h"
#include "base/threads.h"
#include "config/cores.h"
#include "snug/error.h"
#include "snug/instruction_set.h"

namespace snug {
namespace {

constexpr const char* kCpu = "cpu";

std::string usual_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!variable("XDG_CACHE_HOME").empty()) return variable("XDG_CACHE_HOME") + "/snug";
  if (!variable("HOME").empty()) return variable("HOME") + "/.cache/snug";
  return {};
}

/// One file for each number of threads, of processors that they have to share, and instruction set,
/// so that runs under different ones do not replace each other's.
std::string profile_file(int threads) {
  const int processors = available_threads();
  const std::string shared = threads > processors ? "-on-" + std::to_string(processors) : "";
  return "machine-" + std::to_string(threads) + shared + "-" +
         std::string(to_string(instruction_set())) + ".json";
}

// Processors that all threads of this process may use at once.
double usable_processors() {
  const double cores = available_threads();
  return std::min(cores, config::group_cores().value_or(cores));
}

int threads_of(int64_t wanted, double processors) {
  if (wanted > 0) return static_cast<int>(wanted);
  return std::max(1, static_cast<int>(std::ceil(processors)));
}

MachineProfile profile_of(int threads, double processors, const std::string& profile_folder,
                          const std::function<void()>& before_measuring,
                          const std::function<void(const std::string&)>& on_message,
                          int64_t room_bytes) {
  return load_or_measure_profile(
      {.folder = profile_folder.empty() ? usual_folder() : profile_folder,
       .file = profile_file(threads),
       .shares_processors = threads > processors,
       .before_measuring = before_measuring,
       .room_bytes = room_bytes,
       .on_message = on_message},
      threads);
}

}  // namespace

Machine::Machine(int64_t threads, const std::string& profile_folder,
                 const std::function<void()>& before_measuring,
                 const std::function<void(const std::string&)>& on_message, int64_t room_bytes) {
  const DefaultFloatMode float_mode;
  constexpr int64_t kMost = 1024;  // as of a run
  if (threads < 0 || threads > kMost)
    throw Error(ErrorCode::bad_config, "threads",
                std::to_string(threads) + " is not within [0, 1024]", "give 0 for every core");
  const double processors = usable_processors();
  const int own = threads_of(threads, processors);
  if (own > available_threads() && on_message)
    on_message("threads is " + std::to_string(own) + ", and this process may use " +
               std::to_string(available_threads()) +
               " at once: threads that wait for one another make steps slower");
  MachineProfile profile =
      profile_of(own, processors, profile_folder, before_measuring, on_message, room_bytes);
  const MachineLimits limits = limits_of(profile);
  impl_ = std::make_shared<const Impl>(
      Impl{.threads = own,
           .name = kCpu,
           .backend = make_cpu_backend({.threads = own, .profile = std::move(profile)}),
           .limits = limits});
}

int Machine::threads() const { return impl_->threads; }
const std::string& Machine::backend() const { return impl_->name; }

}  // namespace snug
