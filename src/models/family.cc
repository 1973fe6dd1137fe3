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

std::string own_name(const FamilyConfig&, const std::string& parameter) { return parameter; }

WeightRole role_of(const ModelFamily& family, const std::string& parameter) {
  if (parameter.starts_with(std::string(kSnugHead) + ".")) return WeightRole::head;
  return (*family.weights->role)(parameter);
}

WeightRole role_by_classifier(const std::string& parameter) {
  return parameter.starts_with("classifier.") ? WeightRole::head : WeightRole::body;
}

bool every_tensor_is_own(const std::string&) { return true; }

}  // namespace snug::models
