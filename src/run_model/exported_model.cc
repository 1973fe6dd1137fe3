// SPDX-License-Identifier: Apache-2.0
#include "run_model/exported_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/finite.h"
#include "base/half.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "io/atomic_folder.h"
#include "io/json_file.h"
#include "io/json_tree.h"
#include "io/weight_files.h"
#include "run_model/model_network.h"
#include "run_model/model_weights.h"
#include "snug/error.h"

namespace snug::run_model {
namespace {

using io::StoredType;

constexpr int64_t kPartElements = 64 << 10;

/// What tokenizers and preprocessors of transformers read.
constexpr const char* kCopied[] = {"tokenizer.json",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "vocab.txt",
                                   "vocab.json",
                                   "merges.txt",
                                   "spm.model",
                                   "spiece.model",
                                   "tokenizer.model",
                                   "sentencepiece.bpe.model",
                                   "preprocessor_config.json"};

/// Rounded to the nearest, ties to even.
template <class T>
void cast(std::span<const float> from, T (*round)(float), std::vector<std::byte>& to,
          const std::string& name) {
  to.resize(from.size() * sizeof(T));
  for (size_t i = 0; i < from.size(); ++i) {
    const T value = round(from[i]);
    if (!std::isfinite(to_f32(value)))
      throw Error(ErrorCode::numeric, name,
                  number_text(static_cast<double>(from[i])) +
                      " is too large for the type that is asked for",
                  "export as bfloat16 or float32");
    std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
  }
}

/// The tensor in another type, a part at a time.
io::TensorToWrite cast_tensor(const io::TensorFile& file, const io::StoredTensor& tensor,
                              const std::string& name, StoredType type) {
  return {
      .name = name,
      .dtype = type,
      .shape = tensor.shape,
      .make = [&file, &tensor, type](const io::TensorToWrite::Put& put) {
        std::vector<float> values;
        std::vector<std::byte> bytes;
        for (int64_t first = 0; first < tensor.elements(); first += kPartElements) {
          stop_point();
          values.resize(static_cast<size_t>(std::min(kPartElements, tensor.elements() - first)));
          file.read_f32(tensor.name, first, values);
          require_finite(file.path(), tensor.name, values, first);
          if (type == StoredType::f32) {
            put(std::as_bytes(std::span<const float>(values)));
            continue;
          }
          if (type == StoredType::bf16) {
            cast<Bf16>(values, &to_bf16, bytes, tensor.name);
          } else {
            cast<F16>(values, &to_f16, bytes, tensor.name);
          }
          put(bytes);
        }
      }};
}

/// The names of the files' tensors in the exported one: of the model's own weights those of today,
/// whatever spelling they are found under.
std::map<std::string, std::string> names_of_today(const io::WeightFiles& files,
                                                  const Model& model) {
  std::map<std::string, std::string> names;
  for (const TensorInfo& weight : tensors_of(network_of(model))) {
    const io::StoredTensor* found = find_weight(files, model, weight.name);
    if (found != nullptr) names[found->name] = model.stored_name(weight.name);
  }
  return names;
}

const char* name_of(StoredType type) {
  switch (type) {
    case StoredType::f64:
      return "float64";
    case StoredType::f16:
      return "float16";
    case StoredType::bf16:
      return "bfloat16";
    default:
      return "float32";
  }
}

/// The type of most bytes per element among the real tensors: what loads without a loss.
StoredType widest(const std::vector<io::TensorToWrite>& tensors) {
  StoredType type = StoredType::f16;
  bool is_first = true;
  for (const io::TensorToWrite& tensor : tensors) {
    if (!is_real(tensor.dtype)) continue;
    const bool is_wider = io::bytes_of(tensor.dtype) > io::bytes_of(type);
    const bool is_other_half = io::bytes_of(tensor.dtype) == 2 && tensor.dtype != type;
    if (is_first || is_wider) {
      type = tensor.dtype;
    } else if (is_other_half && io::bytes_of(type) == 2) {
      type = StoredType::f32;
    }
    is_first = false;
  }
  return type;
}

/// config.json with its type, under the key that the file has, or transformers' of today.
std::string config_with_type(const std::string& path, StoredType type) {
  const io::JsonValue config = io::load_json(path);
  const std::string value = std::string("\"") + name_of(type) + "\"";
  std::string text;
  bool has_type = false;
  const auto add = [&](const std::string& key, const std::string& json) {
    text += (text.empty() ? "{\n  " : ",\n  ") + io::quote_json(key) + ": " + json;
  };
  for (const std::string& key : config.keys()) {
    const bool is_type = key == "dtype" || key == "torch_dtype";
    has_type |= is_type;
    add(key, is_type ? value : config.find_or_null(key)->dump());
  }
  if (!has_type) add("dtype", value);
  return text + "\n}\n";
}

}  // namespace

void write_exported_model(const std::string& folder, const Model& model,
                          std::optional<StoredType> type) {
  const io::WeightFiles files(model.weights_folder);
  const std::map<std::string, std::string> names = names_of_today(files, model);
  std::vector<io::TensorToWrite> tensors;
  for (const io::StoredTensor& tensor : files.tensors()) {
    // Tables of 0, 1, 2, ... and of 0 that old versions saved and new ones call unexpected.
    if (tensor.name.ends_with("embeddings.position_ids") ||
        tensor.name.ends_with("embeddings.token_type_ids"))
      continue;
    const auto named = names.find(tensor.name);
    const std::string name =
        named == names.end() ? tensor.name.substr(files.wrapper().size()) : named->second;
    const io::TensorFile& file = files.file_of(tensor.name);
    const bool is_cast = type && is_real(tensor.dtype) && tensor.dtype != *type;
    tensors.push_back(is_cast ? cast_tensor(file, tensor, name, *type)
                              : io::same_tensor(file, tensor, name));
  }
  io::AtomicFolder target(folder,
                          {.expected_bytes = io::safetensors_file_bytes(tensors), .on_step = {}});
  target.write("config.json", config_with_type(model.config_file, type.value_or(widest(tensors))));
  for (const char* name : kCopied) {
    const std::string from = model.weights_folder + "/" + name;
    if (io::has_file(from)) target.record(name, io::copy_file(from, target.file(name)));
  }
  target.record("model.safetensors",
                io::write_safetensors(target.file("model.safetensors"), tensors));
  target.commit();
}

}  // namespace snug::run_model
