// SPDX-License-Identifier: Apache-2.0
#include "snug/lengths.h"

#include <algorithm>

#include "snug/error.h"

namespace snug {

int64_t Lengths::of(const std::string& name) const {
  if (name.empty()) return without_name_;
  const auto found = named_.find(name);
  return found == named_.end() ? 0 : found->second;
}

Lengths& Lengths::set(const std::string& name, int64_t length) {
  (name.empty() ? without_name_ : named_[name]) = length;
  return *this;
}

std::map<std::string, int64_t> Lengths::by_name() const {
  std::map<std::string, int64_t> all = named_;
  if (without_name_ != 0) all[{}] = without_name_;
  return all;
}

bool Lengths::holds(const Lengths& rows) const {
  return rows.without_name_ <= without_name_ &&
         std::all_of(rows.named_.begin(), rows.named_.end(),
                     [&](const auto& each) { return each.second <= of(each.first); });
}

std::string to_string(const Lengths& lengths) {
  std::string text;
  for (const auto& [name, length] : lengths.by_name())
    text += (text.empty() ? "" : ", ") + name + (name.empty() ? "" : " ") + std::to_string(length);
  return text.empty() ? "none" : text;
}

std::vector<Lengths> every_combination(const std::map<std::string, std::vector<int64_t>>& lengths) {
  std::vector<Lengths> programs = {{}};
  for (const auto& [name, sizes] : lengths) {
    if (sizes.empty())
      throw Error(ErrorCode::bad_config, "lengths", "'" + name + "' has no lengths",
                  "give one, or omit the name");
    std::vector<Lengths> longer;
    for (const Lengths& program : programs) {
      for (const int64_t size : sizes) longer.push_back(Lengths(program).set(name, size));
    }
    programs = std::move(longer);
  }
  return programs;
}

}  // namespace snug
