// SPDX-License-Identifier: Apache-2.0
// merge_adapters: a model and its adapters become one model folder.
#include "base/float_mode.h"
#include "base/stop.h"
#include "io/file.h"
#include "run_model/adapter_folder.h"
#include "run_model/merged_model.h"
#include "run_model/model_weights.h"
#include "run_model/read_model.h"
#include "run_rows/input.h"
#include "snug/error.h"
#include "snug/run.h"

namespace snug {

void merge_adapters(const std::string& model, const std::string& adapters,
                    const std::string& output, const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  if (io::absolute_path(output) == io::absolute_path(model) ||
      io::absolute_path(output) == io::absolute_path(adapters))
    throw Error(ErrorCode::bad_config, "output", "'" + output + "' is what is merged",
                "give another folder");
  RunConfig config;
  config.model = model;
  config.lora_adapter = adapters;
  run_model::Model merged = run_model::read_model(config);
  run_model::check_weight_files(merged);
  run_model::refuse_fresh_weights(merged);
  // As the adapters were trained, where their folder says it.
  if (text::Tokenizer::is_in(adapters)) config.tokenizer = adapters;
  for (const std::string& folder : {model, adapters}) {
    const text::TextLimits saved = text::Tokenizer::saved_limits(folder);
    if (saved.max_length > 0) config.max_seq_length = saved.max_length;
    if (saved.overlong.empty()) continue;
    config.overlong = saved.overlong;
    config.stride = saved.stride;
  }
  const auto tokenizer = run_rows::input_of(merged).open_trained(config, {}, merged);
  run_model::fit_model(merged, config, {.vocab_size = tokenizer ? tokenizer->vocab_size() : 0});
  run_model::write_merged_model(output, merged, tokenizer.get());
}

}  // namespace snug
