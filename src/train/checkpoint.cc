// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "io/atomic_folder.h"
#include "io/checkpoint_tensors.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "run_model/adapter_folder.h"
#include "run_model/model_weights.h"
#include "run_model/row_kind.h"
#include "snug/error.h"
#include "train/frozen_source.h"

namespace snug::train {
namespace {

constexpr const char* kStateFile = "snug_state.json";
constexpr const char* kTrainerStateFile = "trainer_state.json";
constexpr int64_t kMaxStateBytes = 1 << 20;
constexpr std::string_view kArchivePrefix = "checkpoint-";
constexpr size_t kMaxStepDigits = 17;

// What PyTorch counts in a batch norm and does not use where momentum is given.
constexpr int64_t kNoBatches = 0;

/// Whether the weight or state is in a checkpoint: beside adapters what does not move is not.
bool is_saved(const run_model::Model& model, const TensorInfo& tensor) {
  if (tensor.kind == TensorKind::scales) return false;
  return !tensor.is_weight() || !model.lora.is_on() ||
         run_model::is_of_adapter_folder(model, tensor);
}

std::string weights_file(const run_model::Model& model) {
  return model.lora.is_on() ? run_model::kAdapterWeights : "model.safetensors";
}

// As f32, which holds what is stored in fewer bits exactly.
io::TensorToWrite of_rows(const Session& session, const TensorInfo& weight,
                          const std::string& name) {
  return io::tensor_of_rows(name, weight.shape, [&session, own = weight.name](auto row, auto to) {
    session.read_rows(own, row, to);
  });
}

io::TensorToWrite of_bytes(const Session& session, const TensorInfo& tensor,
                           const std::string& name) {
  return io::tensor_of(
      name, {tensor.dtype, tensor.shape},
      [&session, &own = tensor.name](const auto& put) { session.read_bytes(own, put); });
}

/// The weights under the names that other programs read; or states, under their own. `all` are the
/// session's, and are referred to.
std::vector<io::TensorToWrite> stored(const Session& session, const std::vector<TensorInfo>& all,
                                      const run_model::Model& model, bool is_model,
                                      FrozenSource& frozen) {
  std::vector<io::TensorToWrite> tensors;
  std::vector<io::TensorToWrite> counters;
  for (const TensorInfo& tensor : all) {
    if (tensor.is_weight() != is_model || !is_saved(model, tensor)) continue;
    const std::string name = !is_model            ? tensor.name
                             : model.lora.is_on() ? run_model::adapter_key(model, tensor.name)
                                                  : model.stored_name(tensor.name);
    tensors.push_back(tensor.is_frozen_code() ? frozen.tensor(tensor, name)
                      : tensor.is_coded()     ? of_rows(session, tensor, name)
                                              : of_bytes(session, tensor, name));
    const std::string statistic = ".running_var";
    if (!is_model || !name.ends_with(statistic)) continue;
    counters.push_back(
        {.name = name.substr(0, name.size() - statistic.size()) + ".num_batches_tracked",
         .dtype = io::StoredType::i64,
         .shape = {},
         .data = reinterpret_cast<const std::byte*>(&kNoBatches)});
  }
  tensors.insert(tensors.end(), counters.begin(), counters.end());
  return tensors;
}

void read_values(const std::string& path, Session& session, const run_model::Model& model,
                 bool is_model, run_model::BaseDigest& frozen) {
  const io::SafetensorsFile file(path);
  for (const TensorInfo& tensor : session.tensors()) {
    if (tensor.is_weight() != is_model || !is_saved(model, tensor)) continue;
    const io::StoredTensor* found = is_model ? file.find(model.stored_name(tensor.name)) : nullptr;
    if (found == nullptr && model.lora.is_on())
      found = file.find(run_model::adapter_key(model, tensor.name));
    if (found == nullptr) found = file.find(tensor.name);  // an older checkpoint, too
    if (tensor.is_coded() && found != nullptr && found->shape == tensor.shape) {
      run_model::read_weight(file, found->name, tensor, session,
                             tensor.is_trained ? nullptr : &frozen);
      continue;
    }
    io::read_exactly(file, found, tensor.name, {tensor.dtype, tensor.shape},
                     [&](const io::FillBytes& fill) { session.write_bytes(tensor.name, fill); });
  }
}

std::string archive_name(int64_t step) {
  return std::string(kArchivePrefix) + std::to_string(step);
}

// The steps N of what is called checkpoint-N in the folder, whoever made it; ascending.
std::vector<int64_t> steps_of_archives(const RunFolder& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : io::list_folder(folder.path)) {
    if (!name.starts_with(kArchivePrefix)) continue;
    const std::string digits = name.substr(kArchivePrefix.size());
    if (digits.empty() || digits.size() > kMaxStepDigits) continue;
    if (digits.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::optional<int64_t> step = number_in<int64_t>(digits);
    if (step && name == archive_name(*step)) steps.push_back(*step);  // without zeros in front
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

std::string save_checkpoint(const std::string& folder, const Session& session,
                            const run_model::Model& model, const text::Tokenizer* tokenizer,
                            const std::string& base_sha256, const CheckpointState* state) {
  const io::SafetensorsNotes notes =
      model.lora.is_on() ? io::SafetensorsNotes{{run_model::kBaseDigestKey, base_sha256}}
                         : io::SafetensorsNotes{};
  FrozenSource frozen(model);
  const std::vector<TensorInfo> all = session.tensors();
  const std::vector<io::TensorToWrite> weights = stored(session, all, model, true, frozen);
  const std::vector<io::TensorToWrite> states = state == nullptr
                                                    ? std::vector<io::TensorToWrite>{}
                                                    : stored(session, all, model, false, frozen);
  io::AtomicFolder target(folder, {.expected_bytes = io::safetensors_file_bytes(weights, notes) +
                                                     io::safetensors_file_bytes(states),
                                   .on_step = {}});
  const auto write_tensors = [&target](const std::string& name, const auto& tensors,
                                       const io::SafetensorsNotes& with) {
    std::string sha256 = io::write_safetensors(target.file(name), tensors, with);
    target.record(name, sha256);
    return sha256;
  };
  target.write(model.lora.is_on() ? run_model::kAdaptedModelConfig : "config.json",
               model.config_json());
  run_model::row_kind_of(model).write_folder(model, tokenizer,
                                             session.has_input(models::kTokenTypeIds), target);
  if (model.lora.is_on())
    target.write(run_model::kAdapterConfig, run_model::adapter_config_json(model, session));
  std::string sha256 = write_tensors(weights_file(model), weights, notes);
  frozen.check(base_sha256);
  if (state != nullptr) {
    (void)write_tensors("optimizer.safetensors", states, {});
    target.write(kStateFile, state->own.to_json());
    target.record(kTrainerStateFile,
                  write_trainer_state(state->trainer, target.file(kTrainerStateFile)));
  }
  target.commit();
  return sha256;
}

CheckpointBytes bytes_of_checkpoint(const Session& session, const run_model::Model& model) {
  FrozenSource frozen(model);
  const std::vector<TensorInfo> all = session.tensors();
  return {.weights = io::safetensors_file_bytes(stored(session, all, model, true, frozen)),
          .states = io::safetensors_file_bytes(stored(session, all, model, false, frozen))};
}

void archive_checkpoint(const RunFolder& folder, int64_t step) {
  io::AtomicFolder target(folder.file(archive_name(step)));
  for (const auto& [name, record] : io::read_marker(folder.last())) {
    const std::string sha256 = io::copy_file(folder.last() + "/" + name, target.file(name));
    if (!record.sha256.empty() && sha256 != record.sha256) {
      throw Error(ErrorCode::io, folder.last() + "/" + name,
                  "the file reads back with other bytes than were written to it",
                  "check the disk before going on");
    }
    target.record(name, sha256);
  }
  target.commit();
}

void prune_archives(const RunFolder& folder, int64_t step, int64_t limit) {
  std::vector<int64_t> own = steps_of_archives(folder);
  std::erase_if(own, [&](int64_t each) { return each > step || !has_archive(folder, each); });
  while (static_cast<int64_t>(own.size()) > limit) {
    io::remove_complete_folder(folder.file(archive_name(own.front())));
    own.erase(own.begin());
  }
}

void require_archive_places(const RunFolder& folder, const ArchiveSteps& steps) {
  for (const int64_t step : steps_of_archives(folder)) {
    const bool is_written =
        step >= steps.first && step <= steps.last && step > 0 && step % steps.every == 0;
    if (is_written) io::require_place(folder.file(archive_name(step)));
  }
}

void recover_archives(const RunFolder& folder) {
  for (const std::string& name : io::list_folder(folder.path)) {
    const size_t end = name.find(".snug-");
    if (name.starts_with(kArchivePrefix) && end != std::string::npos)
      (void)io::recover_folder(folder.file(name.substr(0, end)));
  }
}

bool has_archive(const RunFolder& folder, int64_t step) {
  return io::is_complete(folder.file(archive_name(step)));
}

std::string newest_archive(const RunFolder& folder) {
  std::string newest;
  for (const int64_t step : steps_of_archives(folder)) {
    if (has_archive(folder, step)) newest = folder.file(archive_name(step));
  }
  return newest;
}

std::string state_path(const std::string& folder) {
  const std::string path = folder + "/" + kStateFile;
  return io::file_exists(path) ? path : folder + "/" + kTrainerStateFile;
}

RunState load_state(const std::string& folder) {
  const std::string path = state_path(folder);
  return RunState::from_json(io::read_all(path, kMaxStateBytes), path);
}

void load_checkpoint(const std::string& folder, Session& session, const run_model::Model& model,
                     const std::string& base_sha256) {
  if (model.lora.is_on()) run_model::AdapterFile(folder).check_base(base_sha256, model);
  run_model::BaseDigest frozen;
  read_values(folder + "/" + weights_file(model), session, model, true, frozen);
  const std::string found = frozen.finish();
  if (!found.empty() && found != base_sha256)
    throw Error(ErrorCode::bad_data, model.weights_folder,
                "the weights changed since the run began: what is frozen is not that of " + folder,
                "put the folder back as it was");
  read_values(folder + "/optimizer.safetensors", session, model, false, frozen);
  session.require_finite(folder);
}

}  // namespace snug::train
