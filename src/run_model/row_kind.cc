// SPDX-License-Identifier: Apache-2.0
#include "run_model/row_kind.h"

#include <fmt/ranges.h>

#include "run_model/image_processor.h"
#include "snug/error.h"

namespace snug::run_model {
namespace {

class Texts final : public RowKind {
 public:
  [[nodiscard]] std::string reads() const override { return "reads texts"; }
  [[nodiscard]] std::span<const char* const> foreign_keys() const override { return {}; }
  void read_folder(const std::string&, Model&) const override {}
  [[nodiscard]] std::vector<std::string> notices(const Model& model) const override;
  void write_folder(const Model& model, const text::Tokenizer* tokenizer, bool has_type_ids,
                    io::AtomicFolder& target) const override {
    if (tokenizer != nullptr) tokenizer->save(target.path(), model.limits, has_type_ids);
  }
  [[nodiscard]] bool has_lengths() const override { return true; }
  [[nodiscard]] std::string row(const Model&) const override { return {}; }
  [[nodiscard]] int64_t longest(const RunConfig& config, const Model&) const override {
    return config.max_seq_length;
  }
};

// Where training cuts texts at another length than the folder was made for, or at the other side.
std::vector<std::string> Texts::notices(const Model& model) const {
  if (model.weights_folder.empty()) return {};
  const text::TextLimits saved = text::Tokenizer::saved_limits(model.weights_folder);
  std::vector<std::string> texts;
  if (saved.max_length != 0 && saved.max_length != model.limits.max_length)
    texts.push_back("texts are cut at " + std::to_string(model.limits.max_length) +
                    " tokens (max_seq_length); model_max_length of " + model.weights_folder +
                    " is " + std::to_string(saved.max_length));
  if (saved.overlong == "tail" && model.limits.overlong.empty())
    texts.push_back("of long texts the first tokens stay; the tokenizer of " +
                    model.weights_folder +
                    " has truncation_side left, by which the last would (overlong: tail)");
  return texts;
}

class Images final : public RowKind {
 public:
  [[nodiscard]] std::string reads() const override { return "reads images"; }
  [[nodiscard]] std::span<const char* const> foreign_keys() const override {
    static constexpr const char* kKeys[] = {"tokenizer",     "tokenizer_kind", "vocab_size",
                                            "text_column",   "delimiter",      "text_pair_column",
                                            "label_column",  "max_seq_length", "group_by_length",
                                            "weight_column", "overlong",       "stride"};
    return kKeys;
  }
  void read_folder(const std::string& folder, Model& model) const override {
    read_image_processor(folder, model);
  }
  [[nodiscard]] std::vector<std::string> notices(const Model& model) const override;
  void write_folder(const Model& model, const text::Tokenizer*, bool,
                    io::AtomicFolder& target) const override {
    target.write(kImageProcessorFile, image_processor_json(model));
  }
  [[nodiscard]] bool has_lengths() const override { return false; }
  [[nodiscard]] std::string row(const Model& model) const override {
    return fmt::format("image of {0} x {0} pixels", model.traits.image_size);
  }
  [[nodiscard]] int64_t longest(const RunConfig&, const Model& model) const override {
    return model.traits.image_size;
  }
};

// Where the folder says otherwise than CIFAR-10.
std::vector<std::string> Images::notices(const Model& model) const {
  if (model.normalization == data::ImageNormalization{}) return {};
  const data::ImageNormalization& n = model.normalization;
  return {fmt::format("images are normalised as {}/{} says: (byte / {:.6g} - {:.4g}) / {:.4g}",
                      model.name, kImageProcessorFile, n.divisor, fmt::join(n.mean, ", "),
                      fmt::join(n.deviation, ", "))};
}

}  // namespace

const RowKind& row_kind_of(const Model& model) {
  static const Texts texts;
  static const Images images;
  switch (*model.family().info().input) {
    case models::InputKind::text:
      return texts;
    case models::InputKind::image:
      return images;
  }
  throw Error(ErrorCode::internal, model.name, "rows of no kind");
}

}  // namespace snug::run_model
