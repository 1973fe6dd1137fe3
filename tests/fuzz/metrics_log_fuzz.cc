// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl as a resumed run finds it: whole lines before the checkpoint stay, the next
// follows; and trainer_state.json, which is made of the lines, is one document.
//
//   input: 64 bytes that stand before the text | bytes that count / 32 | text
#include <algorithm>
#include <string>

#include "fuzz/fuzz.h"
#include "io/file.h"
#include "io/json_file.h"
#include "train/metrics_log.h"
#include "train/trainer_state.h"

namespace snug::fuzz {

void read_metrics_log(std::string_view input) {
  std::string text(size_t{take_byte(input)} * 64, 'x');
  const size_t kept = size_t{take_byte(input)} * 32;
  text += input;
  const std::string path = write_file("metrics.jsonl", text);
  const size_t end = text.substr(0, kept).rfind('\n');
  const std::string lines = text.substr(0, end == std::string::npos ? 0 : end + 1);
  train::MetricsLog log(path, static_cast<int64_t>(kept));
  require(log.bytes() == static_cast<int64_t>(lines.size()), "whole lines are kept");
  log.write(7, std::vector<train::KeyChange>());
  const std::string after = io::read_all(path, 1 << 20);
  require(after == lines + "{\"step\":7,\"changed\":{}}\n", "the next line follows them");
  const std::string state = write_file("trainer_state.json", "");
  train::TransformersState trainer;
  trainer.logs = {path, path};
  (void)train::write_trainer_state(trainer, state);
  const io::JsonValue json = io::parse_json(io::read_all(state, 1 << 20), state);
  require(json.at("log_history").is_array() && json.has("global_step"), "the lines are a list");
}

}  // namespace snug::fuzz
