// SPDX-License-Identifier: Apache-2.0
// Checkpoints: a model folder (config.json, model.safetensors, tokenizer or preprocessor;
// docs/files.md) that appears whole or not at all; `last` also holds optimizer.safetensors,
// snug_state.json and, for other programs, trainer_state.json. With adapters it is a folder of
// PEFT's in place of model.safetensors (run_model/adapter_folder.h). Tensors are written straight
// from the run's memory.
#pragma once

#include <string>

#include "run_model/model.h"
#include "snug/session.h"
#include "text/tokenizer.h"
#include "train/state.h"
#include "train/trainer_state.h"

namespace snug::train {

struct RunFolder {
  std::string path;
  [[nodiscard]] std::string last() const { return path + "/last"; }
  [[nodiscard]] std::string best() const { return path + "/best"; }
  [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
};

/// What a checkpoint holds beside a model and the optimizer's states.
struct CheckpointState {
  const RunState& own;
  const TransformersState& trainer;
};

/// Writes weights, configuration and tokenizer (null: the model reads images), and with `state` all
/// that resuming needs. `base_sha256` is what initialize_weights returned. Returns the SHA-256 of
/// the file of weights. Throws Error{io}; then the former folder is still there.
std::string save_checkpoint(const std::string& folder, const Session& session,
                            const run_model::Model& model, const text::Tokenizer* tokenizer,
                            const std::string& base_sha256, const CheckpointState* state);

/// Sizes of the files of a checkpoint that hold tensors.
struct CheckpointBytes {
  int64_t weights = 0;
  int64_t states = 0;
};
[[nodiscard]] CheckpointBytes bytes_of_checkpoint(const Session& session,
                                                  const run_model::Model& model);

/// Copies last/, which is of update `step`, to checkpoint-N.
void archive_checkpoint(const RunFolder& folder, int64_t step);
/// Removes the oldest of these folders beyond `limit`, of those up to update `step`. What Snug did
/// not complete is not one of them, whatever its name: it neither counts nor is touched.
void prune_archives(const RunFolder& folder, int64_t step, int64_t limit);
/// The updates after which a run writes archives.
struct ArchiveSteps {
  int64_t every = 0;  // above 0
  int64_t first = 0;
  int64_t last = 0;
};
/// Throws Error{bad_config} where something that Snug did not complete has the name of one.
void require_archive_places(const RunFolder& folder, const ArchiveSteps& steps);
/// Puts right what a kill left of archives.
void recover_archives(const RunFolder& folder);
[[nodiscard]] bool has_archive(const RunFolder& folder, int64_t step);
/// Path of the newest complete checkpoint-N; empty where there is none.
[[nodiscard]] std::string newest_archive(const RunFolder& folder);

/// snug_state.json of a complete checkpoint; trainer_state.json where an older version wrote it.
[[nodiscard]] std::string state_path(const std::string& folder);
[[nodiscard]] RunState load_state(const std::string& folder);
/// Reads weights and optimizer states into the session. Every value must be there with its shape,
/// and finite. With adapters, or frozen weights in fewer bits, the
/// model's weights must be in the session already.
void load_checkpoint(const std::string& folder, Session& session, const run_model::Model& model,
                     const std::string& base_sha256);

}  // namespace snug::train
