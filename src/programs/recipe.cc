// SPDX-License-Identifier: Apache-2.0
#include "programs/recipe.h"

#include <algorithm>

#include "base/stop.h"
#include "base/wildcard.h"
#include "snug/error.h"

namespace snug::train {

std::vector<std::string> trainable_names(const std::vector<std::string>& names,
                                         const std::vector<std::string>& freeze) {
  for (const std::string& pattern : freeze) {
    const bool is_used = std::any_of(names.begin(), names.end(), [&](const std::string& n) {
      return matches_wildcard(pattern, n);
    });
    if (!is_used) {
      throw Error(ErrorCode::bad_config, "freeze",
                  "the pattern '" + pattern + "' matches no weight of the model",
                  "`snug inspect --weights` lists the names, for example '" +
                      (names.empty() ? "" : names.front()) + "'");
    }
  }
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    stop_point();
    const bool is_frozen =
        std::any_of(freeze.begin(), freeze.end(),
                    [&](const std::string& pattern) { return matches_wildcard(pattern, name); });
    if (!is_frozen) kept.push_back(name);
  }
  if (kept.empty())
    throw Error(ErrorCode::bad_config, "freeze",
                "every weight is frozen: there is nothing to train");
  return kept;
}

}  // namespace snug::train
