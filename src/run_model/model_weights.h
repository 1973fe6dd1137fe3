// SPDX-License-Identifier: Apache-2.0
// The weights in a model's folder against the parameters of the model: by name, shape and type,
// from the files' headers, before any data is read and any plan is made. Then their reading.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/weight_files.h"
#include "run_model/adapter_folder.h"
#include "run_model/model.h"
#include "snug/session.h"

namespace snug::run_model {

/// True where `model` names a folder with weights that can be read.
[[nodiscard]] bool is_model_folder(const std::string& model);

/// The command by which transformers writes the folder's weights as model.safetensors.
[[nodiscard]] std::string transformers_line(const std::string& folder, const std::string& option);

struct WeightMatch {
  std::vector<std::string> fresh;   // of the model, absent in the folder
  std::vector<std::string> unused;  // of the folder, of no use to the model (another head)
  std::vector<std::string> beside;  // of the adapters' folder, and no adapters
  int64_t header_bytes = 0;         // of the files of both
  bool has_head = false;            // the classifier is there
  std::string wrapper;              // what is left out of every name in the files
  /// The class of transformers that the folder's head belongs to where that is no classifier of
  /// rows; its tensors, called as a classifier's are, are among `unused`.
  std::string other_head;
};
/// Matches the weights of `model` as its config.json describes it. Only a whole classifier or
/// pooler may be absent. Throws Error{bad_data} with everything that is missing, of another shape
/// or left over.
[[nodiscard]] WeightMatch match_weights(const Model& model);
/// Whether any weight of the classifier is in the model's folder or beside its adapters. Asks for
/// no task.
[[nodiscard]] bool has_trained_head(const Model& model);
/// The parameters of the classifier.
[[nodiscard]] std::vector<std::string> head_weights(const Model& model);

/// Null where the file has no such weight under any of the names that it may have.
[[nodiscard]] const io::StoredTensor* find_weight(const io::WeightFiles& file, const Model& model,
                                                  const std::string& parameter);

/// The body's weights of the last `layers` numbered layers. Throws Error{bad_config} where there
/// are not so many.
[[nodiscard]] std::vector<std::string> weights_of_last_layers(const Model& model, int64_t layers);

/// Every weight of a trained model must be there: nothing is known of a fresh one. Throws
/// Error{bad_data}.
void refuse_fresh_weights(const Model& model);

/// Where Snug wrote the folders that the weights come from: whether the files are still what was
/// written. Throws Error{bad_data}.
void check_weight_files(const Model& model);

/// Reads the tensor `name` into a weight of the same shape, whatever it is stored in. `digest` may
/// be null.
void read_weight(const io::TensorFile& file, const std::string& name, const TensorInfo& weight,
                 Session& session, BaseDigest* digest = nullptr);

/// Fills the session's weights: from the adapters' folder what is there, from the model's the rest,
/// but those in `model.fresh`, `model.reinitialized` and adapters without a folder by the network's
/// rule; all by the rule where there is no folder. Rows that the folder's word embeddings do not
/// have are the mean of those that it has. Throws Error{numeric} for one that is not finite,
/// Error{bad_data} where adapters were trained on other weights. Returns the SHA-256 of what
/// adapters leave as it is, or of frozen weights that are stored in fewer bits; empty where there
/// are none.
std::string initialize_weights(const Model& model, Session& session);

}  // namespace snug::run_model
