// SPDX-License-Identifier: Apache-2.0
// How the rows of a run are opened: all in which texts and images differ there. One value for each
// InputKind; the rest of the program asks it and does not look which one it has. What the kind
// means for a model's folder and its keys is in row_kind.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "run_model/model.h"
#include "run_rows/run_data.h"
#include "run_rows/skipped_rows.h"

namespace snug::run_rows {

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
  const run_model::Model* model = nullptr;  // null: none is given
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

  /// The tokenizer that training would read, where there are no data; null where there is none.
  [[nodiscard]] virtual std::unique_ptr<const text::Tokenizer> open_tokenizer_alone(
      const RunConfig& config, const RunOptions& options, const run_model::Model& model,
      const std::string& folder) const = 0;

  /// Rows, labels with their counts, tokenizer and buckets of training.
  virtual void open_training(const RunConfig& config, const RunOptions& options,
                             const run_model::Model& model, const std::string& tokenizer_folder,
                             const WorkFolder& work, RunData& run) const = 0;

  /// The tokenizer of a trained model (may be null); sets keys that its folder decides.
  [[nodiscard]] virtual std::unique_ptr<const text::Tokenizer> open_trained(
      RunConfig& config, const RunOptions& options, const run_model::Model& model) const = 0;
  /// `cache_path` has no suffix.
  [[nodiscard]] virtual TrainedRows open_rows(const RunConfig& config, const RunOptions& options,
                                              const run_model::Model& model,
                                              const text::Tokenizer* tokenizer,
                                              const std::string& file, data::LabelUse use,
                                              const std::string& cache_path) const = 0;

  [[nodiscard]] virtual Inspection inspect(const InspectRequest& request) const = 0;
};

[[nodiscard]] const Input& text_input();
[[nodiscard]] const Input& image_input();
[[nodiscard]] const Input& input_of(const run_model::Model& model);

/// Reads everything that training needs; each file of text is tokenised once into a cache in
/// `work`.
[[nodiscard]] RunData open_training_data(const RunConfig& config, const RunOptions& options,
                                         const run_model::Model& model,
                                         const std::string& tokenizer_folder,
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

}  // namespace snug::run_rows
