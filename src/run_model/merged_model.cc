// SPDX-License-Identifier: Apache-2.0
#include "run_model/merged_model.h"

#include <algorithm>

#include "base/finite.h"
#include "io/atomic_folder.h"
#include "network/facts.h"
#include "run_model/adapter_folder.h"
#include "run_model/model_network.h"
#include "run_model/model_weights.h"
#include "run_model/row_kind.h"
#include "snug/error.h"

namespace snug::run_model {
namespace {

std::vector<float> read(const io::TensorFile& file, const io::StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  file.read_f32(tensor.name, values);
  require_finite(file.path(), tensor.name, values);
  return values;
}

/// The weights of the merged model, one at a time.
class MergedWeights {
 public:
  explicit MergedWeights(const Model& model)
      : model_(model), base_(model.weights_folder), adapters_(model.adapter_folder) {}

  [[nodiscard]] std::vector<float> make(const TensorInfo& weight) {
    const io::StoredTensor* own = adapters_.find(model_, weight.name);
    if (own != nullptr) return read(adapters_.file(), *own);
    const io::StoredTensor* found = find_weight(base_, model_, weight.name);
    std::vector<float> values = read(base_.file_of(found->name), *found);
    digest_.add(weight.name, values);
    const auto& maps = model_.lora.match;
    if (std::find(maps.begin(), maps.end(), weight.name) == maps.end()) return values;
    add_adapter(weight, values);
    require_finite(model_.adapter_folder, weight.name, values);  // sums that f32 does not hold
    return values;
  }
  /// When all were made.
  void check_base() { adapters_.check_base(digest_.finish(), model_); }

 private:
  // In double, rounded once.
  void add_adapter(const TensorInfo& weight, std::vector<float>& values) const {
    const AdapterNames names = adapter_names(weight.name);
    const std::vector<float> a = read(adapters_.file(), *adapters_.find(model_, names.a));
    const std::vector<float> b = read(adapters_.file(), *adapters_.find(model_, names.b));
    const AdapterSize size = adapter_size(model_.lora, weight.name);
    const auto rank = static_cast<size_t>(size.rank);
    const auto columns = static_cast<size_t>(weight.shape[1]);
    std::vector<double> row(columns);
    for (size_t i = 0; i < static_cast<size_t>(weight.shape[0]); ++i) {
      std::fill(row.begin(), row.end(), 0.0);
      for (size_t k = 0; k < rank; ++k) {
        const auto scale = static_cast<double>(b[i * rank + k]);
        for (size_t j = 0; j < columns; ++j)
          row[j] += scale * static_cast<double>(a[k * columns + j]);
      }
      float* const out = &values[i * columns];
      for (size_t j = 0; j < columns; ++j)
        out[j] = static_cast<float>(static_cast<double>(out[j]) + size.scale * row[j]);
    }
  }

  const Model& model_;
  io::WeightFiles base_;
  AdapterFile adapters_;
  BaseDigest digest_;
};

bool reads(const Network& network, const std::string& input) {
  const std::vector<network::FedInput>& inputs = network.facts()->inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const network::FedInput& each) { return each.name == input; });
}

}  // namespace

void write_merged_model(const std::string& folder, const Model& model,
                        const text::Tokenizer* tokenizer) {
  const Network network = network_of(model);
  MergedWeights weights(model);
  std::vector<io::TensorToWrite> tensors;
  for (const TensorInfo& weight : tensors_of(network)) {
    tensors.push_back({.name = model.stored_name(weight.name),
                       .dtype = io::StoredType::f32,
                       .shape = weight.shape,
                       .make = [&weights, weight](const auto& put) {
                         put(std::as_bytes(std::span<const float>(weights.make(weight))));
                       }});
  }
  io::AtomicFolder target(folder,
                          {.expected_bytes = io::safetensors_file_bytes(tensors), .on_step = {}});
  target.write("config.json", model.config_json());
  row_kind_of(model).write_folder(model, tokenizer, reads(network, models::kTokenTypeIds), target);
  target.record("model.safetensors",
                io::write_safetensors(target.file("model.safetensors"), tensors));
  weights.check_base();
  target.commit();
}

}  // namespace snug::run_model
