// SPDX-License-Identifier: Apache-2.0
// The formula of a prediction and the built-in rates. Measuring is in measure_profile.cc, the cache
// in profile_cache.cc.
#include "backend/cpu/machine_profile.h"

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

double seconds_at(const KernelRate& rate, double per_byte, const Cost& cost) {
  return std::max(0.0, rate.per_call + rate.per_flop * cost.flops +
                           per_byte * (cost.bytes_read + cost.bytes_written));
}

}  // namespace

const KernelRate* MachineProfile::rate_of(const std::string& kind) const {
  auto rate = rates.find(kind);
  if (rate == rates.end()) rate = rates.find(kind.substr(0, kind.find('.')));
  if (rate == rates.end()) rate = rates.find("");
  return rate == rates.end() ? nullptr : &rate->second;
}

double MachineProfile::seconds(const std::string& kind, const Cost& cost) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0 : seconds_at(*rate, rate->per_byte, cost);
}

double MachineProfile::far_seconds(const std::string& kind, const Cost& cost) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0
                         : seconds_at(*rate, std::max(rate->per_byte, rate->far_per_byte), cost);
}

double MachineProfile::uncertainty(const std::string& kind) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0 : rate->uncertainty;
}

double MachineProfile::share_from_memory(double bytes) const {
  // Operands of half the last cache are still there from the op before, operands of twice its size
  // are not; between them by the logarithm.
  const double ratio = bytes / static_cast<double>(std::max<int64_t>(cache_bytes, 1));
  return ratio <= 0.5 ? 0 : std::min(1.0, 0.5 * std::log2(2 * ratio));
}

double MachineProfile::kept_seconds_per_byte() const {
  // As two bytes of an element-wise op; a little less, so that an output of such an op never looks
  // cheaper to make again than to keep.
  constexpr double kBytes = 1.8;
  const auto rate = rates.find("");
  return rate == rates.end() ? 0 : kBytes * rate->second.per_byte;
}

std::string rate_kind(const NodeSpec& spec) {
  const std::string& op = *spec.op->name;
  if (op == "add" || op == "sub" || op == "mul" || op == "div")
    return spec.inputs[0].shape == spec.inputs[1].shape ? op : op + ".broadcast";
  if (op == "transpose") {
    const std::vector<int64_t>& order = spec.attrs.ints("perm");
    const bool keeps_rows = order.empty() || order.back() + 1 == static_cast<int64_t>(order.size());
    return keeps_rows ? op : op + ".across";
  }
  // One rate for both, so that a split is never predicted faster by the noise between two
  // measurements.
  if (op != "matmul" && op != "matmul_accumulate") return op;
  const bool has_first_across = spec.attrs.boolean("transpose_a");
  const bool has_second_across = spec.attrs.boolean("transpose_b");
  return has_first_across ? "matmul.tn" : has_second_across ? "matmul" : "matmul.nn";
}

MachineProfile default_profile() {
  // Two cores of a server CPU with AVX-512: 280 GFLOP/s in matrix products, 15 GB/s elsewhere.
  const KernelRate convolution{.per_call = 5e-6, .per_flop = 1.0 / 120e9, .per_byte = 1.0 / 30e9};
  const KernelRate product{.per_call = 5e-6, .per_flop = 1.0 / 280e9, .per_byte = 1.0 / 60e9};
  MachineProfile profile{
      .machine = "default",
      .rates = {
          {"", {.per_call = 2e-6, .per_flop = 0, .per_byte = 1.0 / 15e9}},
          {"matmul", product},
          {"conv2d", convolution},
          {"conv2d_grad_input", convolution},
          {"conv2d_grad_weight", convolution},
          {"attention", {.per_call = 5e-6, .per_flop = 1.0 / 60e9, .per_byte = 1.0 / 15e9}},
          {"attention_grad", {.per_call = 5e-6, .per_flop = 1.0 / 60e9, .per_byte = 1.0 / 15e9}}}};
  for (auto& [kind, rate] : profile.rates) rate.uncertainty = 0.5;  // not of this machine
  return profile;
}

}  // namespace snug
