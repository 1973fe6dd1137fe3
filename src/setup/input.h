// SPDX-License-Identifier: Apache-2.0
// What the rows of a run are: everything in which texts and images differ, from keys that say
// nothing of them to the files beside the weights. One value for each InputKind; the rest of the
// program asks it and does not look which one it has.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/atomic_folder.h"
#include "setup/model.h"
#include "setup/run_data.h"
#include "setup/skipped_rows.h"

namespace snug::train {

/// Rows that a trained model reads.
struct TrainedRows {
  std::unique_ptr<const data::RowStore> rows;
  std::vector<int32_t> buckets;
  std::optional<SkippedRows> skipped;  // of a prediction, where there are any
};

/// A file of rows that is to be inspected.
struct InspectRequest {
  const RunConfig& config;
  const RunOptions& options;
  const tasks::Task& task;
  const Model* model = nullptr;  // null: none is given
  std::vector<std::string> files{};
  std::string folder{};  // for caches
};
struct Inspection {
  std::vector<nlohmann::ordered_json> files;
  std::string text;  // of the same
  data::Labels labels;
  int64_t num_labels = 0;  // as RunData's
  int64_t vocab_size = 0;
};

class Input {
 public:
  Input() = default;
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  virtual ~Input() = default;

  /// "reads images": the reason why a model refuses the keys that say nothing of its rows.
  [[nodiscard]] virtual std::string reads() const = 0;
  [[nodiscard]] virtual std::span<const char* const> foreign_keys() const = 0;

  /// What a model folder says of its rows, but for the weights; how it is said to the user.
  virtual void read_folder(const std::string& folder, Model& model) const = 0;
  [[nodiscard]] virtual std::vector<std::string> notices(const Model& model) const = 0;
  /// Writes it beside the weights. `tokenizer` may be null.
  virtual void write_folder(const Model& model, const Tokenizer* tokenizer, bool has_type_ids,
                            io::AtomicFolder& target) const = 0;

  /// Whether rows have lengths, so that shorter ones take less memory.
  [[nodiscard]] virtual bool has_lengths() const = 0;
  /// What a row is, where lengths do not say it: "image of 32 x 32 pixels".
  [[nodiscard]] virtual std::string row(const Model& model) const = 0;
  /// The length of a row where there are no data.
  [[nodiscard]] virtual int64_t longest(const RunConfig& config, const Model& model) const = 0;
  /// The tokenizer that training would read, where there are no data; null where there is none.
  [[nodiscard]] virtual std::unique_ptr<const Tokenizer> open_tokenizer_alone(
      const RunConfig& config, const RunOptions& options, const Model& model,
      const std::string& folder) const = 0;

  /// Rows, labels with their counts, tokenizer and buckets of training.
  virtual void open_training(const RunConfig& config, const RunOptions& options, const Model& model,
                             const std::string& tokenizer_folder, const WorkFolder& work,
                             RunData& run) const = 0;

  /// The tokenizer of a trained model (may be null); sets keys that its folder decides.
  [[nodiscard]] virtual std::unique_ptr<const Tokenizer> open_trained(RunConfig& config,
                                                                      const RunOptions& options,
                                                                      const Model& model) const = 0;
  /// `cache_path` has no suffix.
  [[nodiscard]] virtual TrainedRows open_rows(const RunConfig& config, const RunOptions& options,
                                              const Model& model, const Tokenizer* tokenizer,
                                              const std::string& file, data::LabelUse use,
                                              const std::string& cache_path) const = 0;

  [[nodiscard]] virtual Inspection inspect(const InspectRequest& request) const = 0;
};

[[nodiscard]] const Input& text_input();
[[nodiscard]] const Input& image_input();
[[nodiscard]] const Input& input_of(const Model& model);

/// Reads everything that training needs; each file of text is tokenised once into a cache in
/// `work`.
[[nodiscard]] RunData open_training_data(const RunConfig& config, const RunOptions& options,
                                         const Model& model, const std::string& tokenizer_folder,
                                         const WorkFolder& work);

/// The rows to train on and those that are held out (validation_split, stratify), labelled as rows
/// of this form.
[[nodiscard]] data::Split split_of(const RunConfig& config, const data::RowStore& rows,
                                   const data::RowForm& form);

/// Where they lie by class (sampler: balanced).
[[nodiscard]] std::unique_ptr<const data::BalancedRows> balanced_rows(const RunConfig& config,
                                                                      const RunData& run,
                                                                      const data::RowForm& form,
                                                                      const std::string& scratch);

/// For inspections: how many rows each label has.
[[nodiscard]] std::string labels_text(const nlohmann::ordered_json& labels);

}  // namespace snug::train
