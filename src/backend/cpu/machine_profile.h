// SPDX-License-Identifier: Apache-2.0
// How fast this machine runs each kind of kernel, measured once on small operands and cached in a
// file, so that the same arguments give the same plan. Predictions only: no result depends on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "graph/op_def.h"

namespace snug {

/// Predicted seconds of one run = per_call + per_flop * flops + per_byte * (bytes read + bytes
/// written), for operands that lie in the caches as they do between the ops of a usual step, which
/// has more bytes than the caches; with far_per_byte for those that come from memory and go back
/// there.
struct KernelRate {
  double per_call = 0;
  double per_flop = 0;
  double per_byte = 0;
  double far_per_byte = 0;  // with all operands in memory
  double uncertainty = 0;   // of a prediction, as a share of it
  double saved_share = 0;   // of the seconds, where the caches hold all of a step
  // All seconds a flop of the fastest run that was measured; 0: none had flops. The parts above are
  // a fit, in which noise may give to bytes what flops took; this was really reached.
  double reached_per_flop = 0;
  bool operator==(const KernelRate&) const = default;
};

struct MachineProfile {
  std::string machine;  // CPU model, threads, instruction set, library version: the cache key
  std::map<std::string, KernelRate> rates;  // by kind; "" for kinds that are not listed
  int64_t cache_bytes = int64_t{32} << 20;  // the last cache
  // While its rates were measured, threads waited for such a share of the time, since other work
  // had the processors: rates are then too slow, by up to a hundred times.
  double waited_share = 0;
  int64_t measurements = 1;  // of which this is the least disturbed
  /// `kind`: "op" or "op.variant", which is as fast as its op where it is not listed.
  [[nodiscard]] double seconds(const std::string& kind, const Cost& cost) const;
  /// The part of seconds() that is saved where the caches hold all of a step.
  [[nodiscard]] double saved_seconds(const std::string& kind, const Cost& cost) const;
  [[nodiscard]] double far_seconds(const std::string& kind, const Cost& cost) const;
  /// By how much of itself such a prediction may be wrong.
  [[nodiscard]] double uncertainty(const std::string& kind) const;
  /// The share of so many bytes together, those of an op's operands or of a whole step, that comes
  /// from memory.
  [[nodiscard]] double share_from_memory(double bytes) const;
  /// A byte that is kept for the backward part is written to memory and read back from there.
  [[nodiscard]] double kept_seconds_per_byte() const;

 private:
  [[nodiscard]] const KernelRate* rate_of(const std::string& kind) const;
};

/// The kind whose rate predicts the node: its op's Timing says it, and this at its end that an
/// input is in 16 bits where that does not.
inline constexpr std::string_view kHalfKind = "half";
[[nodiscard]] std::string rate_kind(const NodeSpec& spec);
/// The name of a rate with a word more: ".word" after the name of an op, else "_word".
[[nodiscard]] std::string with_suffix(std::string kind, std::string_view suffix);

/// Built-in rates of an ordinary machine, for tests and where measuring is not wanted.
[[nodiscard]] MachineProfile default_profile();
/// What measuring a machine takes at most.
inline constexpr int64_t kMeasuringBytes = int64_t{24} << 20;
/// Where a profile is kept.
struct ProfilePlace {
  std::string folder;  // empty: there is none
  std::string file;    // of the folder
  // The threads have fewer processors: they wait for one another, whoever else is there.
  bool shares_processors = false;
  std::function<void()> before_measuring = {};
  /// What measuring may take. Where that is less than kMeasuringBytes, nothing is measured, and the
  /// rates are those of a file or of default_profile().
  int64_t room_bytes = INT64_MAX;
  /// Sentences for people: that, and why, speeds are kept elsewhere, nowhere, or not measured.
  std::function<void(const std::string&)> on_message = {};
  /// Measures for so many threads; empty: by running kernels.
  std::function<MachineProfile(int threads)> measure = {};
};
/// Reads the profile of this machine, or measures it (up to half a minute) and writes it. One that
/// other work disturbed is measured again, four times at most, and the least disturbed one is kept.
/// Where the folder cannot be written, the file is kept in one of this user's in $TMPDIR.
[[nodiscard]] MachineProfile load_or_measure_profile(const ProfilePlace& place, int threads);

}  // namespace snug
