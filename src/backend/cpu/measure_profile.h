// SPDX-License-Identifier: Apache-2.0
// The measurement behind a MachineProfile; machine_profile.h is what others use.
#pragma once

#include <span>
#include <string>

#include "backend/cpu/machine_profile.h"

namespace snug {

/// What /proc/cpuinfo calls its first processor: the model's name, or on ARM, which gives none, the
/// numbers of its maker and part.
[[nodiscard]] std::string processor_name(const std::string& cpuinfo);

/// How often a profile is measured at most, where other work disturbed it.
inline constexpr int64_t kMostMeasurements = 4;

/// CPU model, threads and the processors that they share, instruction set and library version: what
/// rates depend on.
[[nodiscard]] std::string machine_key(int threads);

/// Whether other work disturbed a profile so much, and it was measured so seldom, that measuring it
/// again is worth the time.
[[nodiscard]] bool is_measured_again(const MachineProfile& profile);

/// Runs every kind of kernel on small operands (one to three seconds, at most 24 MiB).
[[nodiscard]] MachineProfile measure_profile(int threads);

/// Seconds that one run of a node took.
struct RatePoint {
  double flops = 0;
  double bytes = 0;
  double seconds = 0;
  double near_seconds = 0;  // with operands in the caches; 0: the same
  double far_seconds = 0;   // with operands in memory; 0: the same
  double spread = 0;        // of its measurements: the mean above the least, as a share of that
};
/// The rate, without negative parts, whose predictions have the smallest relative squared error
/// over the points. Its uncertainty is the root mean square of what is left of that error and of
/// the points' spread.
[[nodiscard]] KernelRate fit_rate(std::span<const RatePoint> points, RateBasis basis);

/// The text of a cache file, and its reading; false for text that is not a profile of this machine.
[[nodiscard]] std::string write_profile(const MachineProfile& profile);
[[nodiscard]] bool read_profile(const std::string& text, const std::string& machine,
                                MachineProfile& profile);

}  // namespace snug
