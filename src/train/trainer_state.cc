// SPDX-License-Identifier: Apache-2.0
#include "train/trainer_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/hashing_writer.h"
#include "io/json_file.h"
#include "io/text_file.h"
#include "snug/error.h"

namespace snug::train {
namespace {

constexpr int64_t kMostStateLineBytes = 1 << 16;

/// The lines of a log, one at a time.
class LogLines {
 public:
  explicit LogLines(const std::string& path) : file_(path) { next(); }
  [[nodiscard]] bool is_at_end() const { return is_at_end_; }
  [[nodiscard]] int64_t step() const { return step_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  void next() {
    for (;;) {
      const io::TextFile::Line line = file_.read_line(text_, kMostStateLineBytes);
      is_at_end_ = line == io::TextFile::Line::end;
      if (is_at_end_ || (line == io::TextFile::Line::ok && is_entry())) return;
      if (line == io::TextFile::Line::too_long) file_.skip_line();
    }
  }

 private:
  bool is_entry() {
    try {
      const io::JsonValue json = io::parse_json(text_, file_.path());
      if (!json.is_object() || json.has("changed")) return false;
      step_ = json.at("step").as_int(0);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_data) throw;
      return false;
    }
  }

  io::TextFile file_;
  std::string text_;
  int64_t step_ = 0;
  bool is_at_end_ = false;
};

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json fields_of(const TransformersState& state) {
  const std::optional<std::string> best =
      state.best_metric ? std::optional(state.best_model_checkpoint) : std::nullopt;
  return {{"best_global_step", or_null(state.best_global_step)},
          {"best_metric", or_null(state.best_metric)},
          {"best_model_checkpoint", or_null(best)},
          {"epoch", state.epoch},
          {"eval_steps", state.eval_steps},
          {"global_step", state.global_step},
          {"is_hyper_param_search", false},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"logging_steps", state.logging_steps},
          {"max_steps", state.max_steps},
          {"num_input_tokens_seen", 0},
          {"num_train_epochs", state.num_train_epochs},
          {"save_steps", state.save_steps},
          {"stateful_callbacks", nlohmann::ordered_json::object()},
          {"total_flos", 0.0},
          {"train_batch_size", state.train_batch_size},
          {"trial_name", nullptr},
          {"trial_params", nullptr}};
}

}  // namespace

std::string write_trainer_state(const TransformersState& state, const std::string& path) {
  io::HashingWriter file(path);
  std::string fields = fields_of(state).dump(2);
  fields.resize(fields.size() - 2);  // "\n}"
  file.write(fields + ",\n  \"log_history\": [");
  std::vector<LogLines> logs;
  logs.reserve(state.logs.size());
  for (const std::string& log : state.logs) logs.emplace_back(log);
  const char* separator = "\n    ";
  for (;;) {
    LogLines* first = nullptr;  // of equal steps that of the first log
    for (LogLines& log : logs) {
      if (!log.is_at_end() && (first == nullptr || log.step() < first->step())) first = &log;
    }
    if (first == nullptr) break;
    file.write(separator + first->text());
    separator = ",\n    ";
    first->next();
  }
  file.write("\n  ]\n}\n");
  return file.finish();
}

}  // namespace snug::train
