// SPDX-License-Identifier: Apache-2.0
// export_model: a model's folder, written anew for transformers.
#include "base/float_mode.h"
#include "base/shell.h"
#include "base/stop.h"
#include "io/file.h"
#include "notices/notices.h"
#include "run_model/adapter_config.h"
#include "run_model/exported_model.h"
#include "run_model/model_weights.h"
#include "run_model/other_weights.h"
#include "run_model/read_model.h"
#include "snug/error.h"
#include "snug/run.h"

namespace snug {
namespace {

std::optional<io::StoredType> type_of(const std::string& dtype) {
  if (dtype.empty()) return std::nullopt;
  if (dtype == "float32") return io::StoredType::f32;
  if (dtype == "bfloat16") return io::StoredType::bf16;
  if (dtype == "float16") return io::StoredType::f16;
  throw Error(ErrorCode::bad_config, "dtype", "'" + dtype + "' is no type of weights",
              "float32, bfloat16 and float16 are");
}

}  // namespace

void export_model(const std::string& model, const std::string& output, const std::string& dtype,
                  const RunOptions& options) {
  const DefaultFloatMode float_mode;
  const StopScope stop({.cancel = options.cancel, .deadline = {}});
  const std::optional<io::StoredType> type = type_of(dtype);
  if (io::absolute_path(output) == io::absolute_path(model))
    throw Error(ErrorCode::bad_config, "output", "'" + output + "' is what is exported",
                "give another folder");
  if (run_model::is_adapter_folder(model))
    throw Error(ErrorCode::bad_config, "model", "'" + model + "' holds adapters, not a model",
                "write both into one folder first: snug merge --model BASE --adapter " +
                    shell_word(model) + " --output FOLDER");
  run_model::refuse_other_weights(model, {});
  if (!run_model::is_model_folder(model))
    throw Error(ErrorCode::bad_config, "model", "'" + model + "' is no folder with weights",
                "give the folder of a model, best/ or last/ of a run, say");
  RunConfig config;
  config.model = model;
  config.fresh_head = true;  // whatever its own is for, it is copied
  const run_model::Model read = run_model::read_model(config);
  run_model::check_weight_files(read);
  if (const std::string notice = notices::head_notice(read); !notice.empty())
    notices::say(options, notice);
  run_model::write_exported_model(output, read, type);
}

}  // namespace snug
