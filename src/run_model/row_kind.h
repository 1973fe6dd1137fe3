// SPDX-License-Identifier: Apache-2.0
// What the kind of its rows means for a model: for the files beside its weights, the keys that it
// takes and what is said of it. One value for each InputKind; opening rows is Input's (input.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/atomic_folder.h"
#include "run_model/model.h"
#include "text/tokenizer.h"

namespace snug::run_model {

class RowKind {
 public:
  RowKind() = default;
  RowKind(const RowKind&) = delete;
  RowKind& operator=(const RowKind&) = delete;
  virtual ~RowKind() = default;

  /// "reads images": the reason why a model refuses the keys that say nothing of its rows.
  [[nodiscard]] virtual std::string reads() const = 0;
  [[nodiscard]] virtual std::span<const char* const> foreign_keys() const = 0;

  /// What a model folder says of its rows, but for the weights; how it is said to the user.
  virtual void read_folder(const std::string& folder, Model& model) const = 0;
  [[nodiscard]] virtual std::vector<std::string> notices(const Model& model) const = 0;
  /// Writes it beside the weights. `tokenizer` may be null.
  virtual void write_folder(const Model& model, const text::Tokenizer* tokenizer, bool has_type_ids,
                            io::AtomicFolder& target) const = 0;

  /// Whether rows have lengths, so that shorter ones take less memory.
  [[nodiscard]] virtual bool has_lengths() const = 0;
  /// What a row is, where lengths do not say it: "image of 32 x 32 pixels".
  [[nodiscard]] virtual std::string row(const Model& model) const = 0;
  /// The length of a row where there are no data.
  [[nodiscard]] virtual int64_t longest(const RunConfig& config, const Model& model) const = 0;
};

[[nodiscard]] const RowKind& row_kind_of(const Model& model);

}  // namespace snug::run_model
