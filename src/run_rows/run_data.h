// SPDX-License-Identifier: Apache-2.0
// The data of a run: tokenizer (read or learned), labels, rows on disk, parts and length
// buckets; and what opens a file of text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/balanced_rows.h"
#include "data/image_frame.h"
#include "data/row_store.h"
#include "data/sampler.h"
#include "data/split.h"
#include "data/token_cache.h"
#include "snug/run.h"
#include "tasks/task.h"
#include "text/tokenizer.h"

namespace snug::run_rows {

/// A folder for caches that removes itself where the run has no folder of its own.
class WorkFolder {
 public:
  /// `cache_dir`, else `output_dir`, else a temporary folder.
  explicit WorkFolder(const RunConfig& config);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() { remove(); }
  void remove();  // where it is temporary
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_temporary_ = false;
};

struct RunData {
  std::unique_ptr<const text::Tokenizer> tokenizer;  // null where rows are no texts
  data::Labels labels;
  data::LabelSource label_source = data::LabelSource::data;
  std::vector<int64_t> label_counts;      // by id: how often each stands in the rows of `train`
  std::optional<data::ImageFrame> frame;  // of images in folders
  int64_t num_labels = 0;  // where labels have no names: how many numbers a row's has
  std::unique_ptr<const data::RowStore> train;
  std::unique_ptr<const data::RowStore> validation;  // null: the held-out share of `train`
  data::Subset train_part;
  data::Subset validation_part;
  std::vector<int32_t> buckets;

  std::unique_ptr<const data::BalancedRows> balanced;  // of train_part (sampler: balanced)
  bool learns_vocabulary = false;
  bool drops_remainder = false;  // batches of training are whole: the model has batch norm

  [[nodiscard]] const data::RowStore& validation_rows() const {
    return validation ? *validation : *train;
  }
  [[nodiscard]] int32_t pad_id() const { return tokenizer ? tokenizer->pad_id() : 0; }
};

/// Where the tokenizer comes from: `tokenizer_folder` (a checkpoint) if not empty, else the
/// configuration's tokenizer, else the model's folder, else it is learned from the training text,
/// whose rows have this form.
[[nodiscard]] std::unique_ptr<const text::Tokenizer> open_tokenizer(
    const RunConfig& config, const RunOptions& options, const std::string& tokenizer_folder,
    const data::RowForm& form);
/// True where open_tokenizer would have to learn a vocabulary.
[[nodiscard]] bool learns_vocabulary(const RunConfig& config, const std::string& tokenizer_folder);

/// What the labels of train_file look like, which is said.
[[nodiscard]] const tasks::Task& task_of_labels(const RunConfig& config, const RunOptions& options);
/// Throws Error{bad_config} where the configuration names other tokens than a resumed run's own: it
/// keeps them.
void check_tokenizer(const RunConfig& config, const text::Tokenizer& own);
/// Files that cannot be opened, or have no such columns, are to be known before a vocabulary is
/// learned.
void read_first_rows(const RunConfig& config, const RunOptions& options, const std::string& file,
                     const data::RowForm& form);
/// Files in memory are not given back as others are when memory is short: the process is killed.
/// Throws Error{out_of_budget} where what is written to this folder, which lies there, leaves too
/// little.
void require_memory_for_files(const std::string& folder);

/// How the rows of a file are read to be predicted: without labels.
[[nodiscard]] data::RowSchema predicted_schema(const RunConfig& config, const RunOptions& options,
                                               const data::RowForm& form,
                                               const text::Tokenizer& tokenizer);

/// The batches of training, a pure function of rows and configuration. `run` must outlive it.
[[nodiscard]] data::TrainSampler train_sampler(const RunConfig& config, const RunData& run);

/// What the labels of a file are, and what they are for.
struct FileLabels {
  const data::RowForm* form = nullptr;
  int64_t width = 0;  // numbers in a label; 0: as many as in the first row
  data::LabelUse use = data::LabelUse::ignore;
  data::LabelRule rule{};  // with LabelUse::known only is_trained counts
  data::Labels known{};    // with LabelUse::known
};
/// Rows of text, of the files that `file` means (data/row_files.h). Says which rows are left out.
[[nodiscard]] data::TokenCache open_file(const RunConfig& config, const RunOptions& options,
                                         const text::Tokenizer& tokenizer, const std::string& file,
                                         const FileLabels& labels, const std::string& cache_path);

}  // namespace snug::run_rows
