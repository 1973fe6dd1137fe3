// SPDX-License-Identifier: Apache-2.0
// The results of the verbs as JSON: the contract of docs/files.md.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "snug/run.h"

namespace snug {
namespace {

nlohmann::ordered_json json_of(const EvalMetrics& metrics) {
  nlohmann::ordered_json json = {{"rows", metrics.rows}, {"loss", nullptr}};
  if (metrics.rows > 0) json["loss"] = metrics.loss;
  for (const MetricValue& value : metrics.values) json[value.name] = value.value;
  for (const auto& [name, word] : metrics.words) json[name] = word;
  if (metrics.classes.empty()) return json;
  json["classes"] = nlohmann::ordered_json::array();
  for (const ClassScore& score : metrics.classes) {
    json["classes"].push_back({{"label", score.label},
                               {"rows", score.rows},
                               {"precision", score.precision},
                               {"recall", score.recall},
                               {"f1", score.f1}});
  }
  return json;
}

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

const char* text_of(RunStatus status) {
  switch (status) {
    case RunStatus::completed:
      return "completed";
    case RunStatus::early_stopped:
      return "early_stopped";
    case RunStatus::interrupted:
      return "interrupted";
  }
  return "";
}

}  // namespace

std::string to_json(const EvalMetrics& metrics) { return json_of(metrics).dump(2); }

std::string TrainSummary::to_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Warning& each : warnings) {
    list.push_back(
        {{"code", each.code}, {"text", each.text}, {"count", each.count}, {"share", nullptr}});
    if (each.share) list.back()["share"] = *each.share;
  }
  const nlohmann::ordered_json json = {{"status", text_of(status)},
                                       {"steps", steps},
                                       {"planned_peak_bytes", planned_peak_bytes},
                                       {"planned_arena_bytes", planned_arena_bytes},
                                       {"measured_arena_bytes", measured_arena_bytes},
                                       {"measured_peak_rss_bytes", measured_peak_rss_bytes},
                                       {"final_metrics", json_of(final_metrics)},
                                       {"weights_sha256", weights_sha256},
                                       {"instruction_set", instruction_set},
                                       {"seconds", seconds},
                                       {"warnings", list}};
  // Names of files and labels need not be UTF-8.
  return json.dump(2, ' ', false, kReplace);
}

// Without a tree: with thousands of labels that would be many times the text.
std::string Prediction::to_json() const {
  std::string text = "{\"row\":" + std::to_string(row);
  const auto begin_field = [&text](const std::string& name) { text += ",\"" + name + "\":"; };
  if (!file.empty()) {
    begin_field("file");
    text += nlohmann::json(file).dump(-1, ' ', false, kReplace);
  }
  if (!reason.empty()) {
    begin_field(lacking);
    text += "null";
    begin_field("reason");
    return text + nlohmann::json(reason).dump(-1, ' ', false, kReplace) + "}";
  }
  if (!label.empty()) {
    begin_field("label");
    text += nlohmann::json(label).dump();
  }
  if (labels) {
    begin_field("labels");
    nlohmann::json list = nlohmann::json::array();
    for (const auto& each : *labels) list.push_back(each ? nlohmann::json(*each) : nullptr);
    text += list.dump();
  }
  if (!scores.empty()) {
    begin_field("scores");
    text += '{';
    for (const auto& [name, score] : scores) {
      if (text.back() != '{') text += ',';
      text += nlohmann::json(name).dump() + ":" + nlohmann::json(score).dump();
    }
    text += '}';
  }
  if (!values.empty()) {
    begin_field("values");
    text += nlohmann::json(values).dump();
  }
  return text + "}";
}

bool VerifyReport::is_equal() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const VerifyCheck& check) { return check.is_equal; });
}

std::string VerifyReport::to_json() const {
  nlohmann::ordered_json json = {{"is_equal", is_equal()}};
  json["checks"] = nlohmann::ordered_json::array();
  for (const VerifyCheck& check : checks) {
    json["checks"].push_back({{"name", check.name},
                              {"is_equal", check.is_equal},
                              {"detail", check.detail},
                              {"is_skipped", check.is_skipped}});
  }
  return json.dump(2);
}

}  // namespace snug
