// SPDX-License-Identifier: Apache-2.0
#include "models/family.h"

namespace snug::models {

void take_labels(const ModelFacts& facts, int64_t& num_labels, std::vector<std::string>& labels) {
  if (!facts.labels.empty()) {
    labels = facts.labels;
    num_labels = static_cast<int64_t>(labels.size());
  } else if (facts.num_labels > 0) {
    if (facts.num_labels != num_labels) labels.clear();
    num_labels = facts.num_labels;
  }
}

WeightRole ModelFamily::role(const std::string& parameter) const {
  if (parameter.starts_with(std::string(kSnugHead) + ".")) return WeightRole::head;
  return own_role(parameter);
}

WeightRole role_by_classifier(const std::string& parameter) {
  return parameter.starts_with("classifier.") ? WeightRole::head : WeightRole::body;
}

}  // namespace snug::models
