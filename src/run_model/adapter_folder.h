// SPDX-License-Identifier: Apache-2.0
// A folder of adapters as PEFT writes it: adapter_config.json says rank, alpha and the base model,
// adapter_model.safetensors holds the adapters and what was trained beside them (the head). The
// weights that did not move are in the base's folder only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/sha256.h"
#include "run_model/adapter_config.h"
#include "run_model/model.h"
#include "snug/session.h"

namespace snug::run_model {

/// The adapter_config.json of a run: the tensors that a session saves, by their names in the file,
/// and the base's path.
[[nodiscard]] std::string adapter_config_json(const Model& model, const Session& session);

/// Whether the folder of the base model does not have this weight.
[[nodiscard]] bool is_in_no_base(const Model& model, const std::string& weight);
/// Whether a weight is a part of the folder: an adapter, what is trained beside them, and what no
/// base has.
[[nodiscard]] bool is_of_adapter_folder(const Model& model, const TensorInfo& weight);
/// The name of a weight in adapter_model.safetensors.
[[nodiscard]] std::string adapter_key(const Model& model, const std::string& parameter);

/// An open adapter_model.safetensors.
class AdapterFile {
 public:
  explicit AdapterFile(const std::string& folder);
  /// Null where it does not hold this weight.
  [[nodiscard]] const io::StoredTensor* find(const Model& model,
                                             const std::string& parameter) const;
  [[nodiscard]] const io::SafetensorsFile& file() const { return file_; }
  /// Throws Error{bad_data} where it was trained on other frozen weights than these.
  void check_base(const std::string& base_sha256, const Model& model) const;

 private:
  std::string folder_;
  io::SafetensorsFile file_;
};

/// Which linear maps of the model have adapters there. Throws Error{bad_data} for one without its
/// other half, of another rank than adapter_config.json says or for a map of another size, and for
/// a tensor that is of no use.
[[nodiscard]] LoraOptions match_adapters(const Model& model);

/// Rows of the table of word embeddings that PEFT saved beside adapters, since the tokenizer got
/// more tokens than the base has rows; 0 where it did not.
[[nodiscard]] int64_t rows_of_larger_table(const Model& model);

/// SHA-256 over the weights that did not move, whatever order they come in.
class BaseDigest {
 public:
  /// The next values of a weight.
  void add(const std::string& weight, std::span<const float> values);
  /// The digest of all of them; empty where there were none.
  [[nodiscard]] std::string finish();

 private:
  std::map<std::string, io::Sha256> of_;
};
/// Where adapter_model.safetensors keeps it.
inline constexpr const char* kBaseDigestKey = "base_sha256";

}  // namespace snug::run_model
