// SPDX-License-Identifier: Apache-2.0
#include "run_model/model_weights.h"

#include <algorithm>
#include <set>

#include "base/ascii.h"
#include "base/shell.h"
#include "base/stop.h"
#include "io/checkpoint_tensors.h"
#include "io/folder_marker.h"
#include "io/json_file.h"
#include "optim/groups.h"
#include "run_model/adapter_folder.h"
#include "run_model/model_network.h"
#include "snug/error.h"
#include "tasks/registry.h"

namespace snug::run_model {
namespace {

using models::WeightRole;

constexpr size_t kFewListed = 5;
constexpr int64_t kMaxConfigBytes = 16 << 20;

/// The class of transformers that reads all weights of the folder, no more and no fewer.
std::string transformers_class(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!io::file_exists(path)) return "AutoModel";
  const io::JsonValue json = io::parse_json(io::read_all(path, kMaxConfigBytes), path);
  const auto names = json.find("architectures");
  if (!names || !names->is_array() || names->size() == 0) return "AutoModel";
  std::string name = names->at(0).as_string();
  const bool is_plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return ascii::is_alphanumeric(c) || c == '_';
  });
  return is_plain ? name : "AutoModel";
}

/// The class where its head is for other results than this; else empty.
std::string class_of_other_head(const std::string& folder, models::HeadKind kind) {
  const std::string name = transformers_class(folder);
  const bool has_head = name.find("For") != std::string::npos;
  const bool is_own =
      kind == models::HeadKind::token
          ? name.ends_with("ForTokenClassification")
          : name.ends_with("ForSequenceClassification") || name.ends_with("ForImageClassification");
  return has_head && !is_own ? name : "";
}

// ---- names ----

constexpr const char* kCounters[] = {".num_batches_tracked", "embeddings.position_ids",
                                     "embeddings.token_type_ids"};
/// Tensors without meaning for the result that published files hold.
bool is_counter(const std::string& name) {
  return std::any_of(std::begin(kCounters), std::end(kCounters),
                     [&](const char* counter) { return name.ends_with(counter); });
}

// ---- what does not match ----

struct Mismatch {
  std::vector<std::string> missing;
  std::vector<std::string> changed;  // with both shapes, or the type
  std::vector<std::string> foreign;
};

std::string first_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kFewListed); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kFewListed) text += ", ...";
  return text;
}

const io::StoredTensor* find_behind(const std::string& prefix, const io::WeightFiles& file,
                                    const Model& model, const std::string& parameter) {
  for (const std::string& spelling : model.spellings(parameter)) {
    if (const io::StoredTensor* found = file.find(prefix + spelling)) return found;
  }
  return nullptr;
}

/// Names may be right behind something that all of them begin with.
std::string hint_of(const Mismatch& found, const io::WeightFiles& file, const Model& model) {
  const std::string prefix = file.common_prefix();
  const bool is_behind = !prefix.empty() && !found.missing.empty() &&
                         find_behind(prefix, file, model, found.missing.front()) != nullptr;
  return is_behind ? "every name in the file begins with '" + prefix +
                         "': write its tensors without that, as the state_dict of the module inside"
                   : std::string(
                         "use the config.json that was saved with these weights, or the weights "
                         "that were saved with it");
}

void refuse_mismatch(const Mismatch& found, const io::WeightFiles& file, const Model& model) {
  std::string text;
  const auto add = [&text](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + " " + what + ": " +
            first_of(names);
  };
  add(found.missing, "missing");
  add(found.changed, "of another shape or type");
  add(found.foreign, "that the model does not have");
  if (text.empty()) return;
  throw Error(ErrorCode::bad_data, model.weights_folder,
              "the weights do not belong to the folder's config.json: " + text,
              hint_of(found, file, model));
}

}  // namespace

bool is_model_folder(const std::string& model) {
  return io::is_folder(model) && !io::weight_entries(model).empty();
}

std::string transformers_line(const std::string& folder, const std::string& option) {
  const std::string path = python_literal(folder);
  return "python3 -c " +
         shell_word("from transformers import " + transformers_class(folder) +
                    " as M; M.from_pretrained(" + path + option + ").save_pretrained(" + path +
                    ", safe_serialization=True)") +
         " with transformers before 5 writes model.safetensors into the folder";
}

const io::StoredTensor* find_weight(const io::WeightFiles& file, const Model& model,
                                    const std::string& parameter) {
  return find_behind(file.wrapper(), file, model, parameter);
}

std::vector<std::string> head_weights(const Model& model) {
  std::vector<std::string> names;
  for (const TensorInfo& weight : tensors_of(network_of(model))) {
    if (model.role(weight.name) == WeightRole::head) names.push_back(weight.name);
  }
  return names;
}

bool has_trained_head(const Model& model) {
  if (model.weights_folder.empty()) return false;
  const io::WeightFiles file(model.weights_folder);
  std::optional<AdapterFile> adapters;
  if (!model.adapter_folder.empty()) adapters.emplace(model.adapter_folder);
  Model any = model;
  if (any.task == nullptr) any.task = &tasks::default_task();
  const std::vector<std::string> names = head_weights(any);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return find_weight(file, any, name) != nullptr ||
           (adapters && adapters->find(any, name) != nullptr);
  });
}

std::vector<std::string> weights_of_last_layers(const Model& model, int64_t layers) {
  std::vector<std::string> names;
  for (const TensorInfo& weight : tensors_of(network_of(model))) {
    if (weight.kind == TensorKind::parameter && model.role(weight.name) == WeightRole::body)
      names.push_back(weight.name);
  }
  const int64_t there_are = optim::numbered_layers(names);
  if (layers > there_are) {
    throw Error(ErrorCode::bad_config, "reinit_layers",
                std::to_string(layers) + " layers are more than the model has (" +
                    std::to_string(there_are) + ")",
                there_are > 0 ? "give at most " + std::to_string(there_are) : "omit reinit_layers");
  }
  const std::vector<int64_t> layer_of = optim::layers_of(names);
  std::vector<std::string> last;
  for (size_t i = 0; i < names.size(); ++i) {
    if (layer_of[i] > there_are - layers && layer_of[i] <= there_are) last.push_back(names[i]);
  }
  return last;
}

WeightMatch match_weights(const Model& model) {
  const io::WeightFiles file(model.weights_folder);
  Mismatch mismatch;
  std::vector<std::string> head;
  std::vector<std::string> pooler;
  std::vector<std::string> beside;
  size_t heads = 0;
  size_t poolers = 0;
  std::set<std::string> used;
  std::set<std::string> of_other_head;
  std::optional<AdapterFile> adapters;
  if (!model.adapter_folder.empty()) adapters.emplace(model.adapter_folder);
  const std::string other_head = class_of_other_head(model.weights_folder, model.traits.head.kind);
  for (const TensorInfo& weight : tensors_of(network_of(model))) {
    const WeightRole role = model.role(weight.name);
    const bool of_head = role == WeightRole::head;
    const bool of_pooler = role == WeightRole::pooler;
    heads += of_head ? 1 : 0;
    poolers += of_pooler ? 1 : 0;
    const io::StoredTensor* found = find_weight(file, model, weight.name);
    // What was trained beside adapters takes the place of the base's.
    if (const io::StoredTensor* own = adapters ? adapters->find(model, weight.name) : nullptr) {
      if (found != nullptr) used.insert(found->name);
      if (own->shape != weight.shape)
        mismatch.changed.push_back(own->name + " is " + to_string(own->shape) +
                                   ", config.json says " + to_string(weight.shape));
      beside.push_back(weight.name);
      continue;
    }
    if (of_head && found != nullptr && !other_head.empty()) {
      of_other_head.insert(found->name);
      found = nullptr;
    }
    if (found == nullptr) {
      (of_head ? head : of_pooler ? pooler : mismatch.missing).push_back(weight.name);
      continue;
    }
    used.insert(found->name);
    if (found->shape != weight.shape) {
      mismatch.changed.push_back(found->name + " is " + to_string(found->shape) +
                                 ", config.json says " + to_string(weight.shape));
    } else if (!is_real(found->dtype)) {
      mismatch.changed.push_back(found->name + " has the type " +
                                 std::string(to_string(found->dtype)));
    }
  }
  WeightMatch match{
      .fresh = {},
      .unused = {of_other_head.begin(), of_other_head.end()},
      .beside = std::move(beside),
      .header_bytes = file.table_bytes() + (adapters ? adapters->file().table_bytes() : 0),
      .has_head = head.size() < heads,
      .wrapper = file.wrapper(),
      .other_head = of_other_head.empty() ? "" : other_head};
  const auto take = [&](const std::vector<std::string>& absent, size_t whole) {
    std::vector<std::string>& to = absent.size() == whole ? match.fresh : mismatch.missing;
    to.insert(to.end(), absent.begin(), absent.end());
  };
  take(pooler, poolers);
  take(head, heads);
  for (const io::StoredTensor& tensor : file.tensors()) {
    if (used.count(tensor.name) != 0 || of_other_head.count(tensor.name) != 0 ||
        is_counter(tensor.name))
      continue;
    // A pooler, or what belongs to another head, is no sign of another network.
    const std::string name = tensor.name.substr(file.wrapper().size());
    const WeightRole role = model.role(name);
    const bool has_other_head = !other_head.empty() || model.traits.text_head.is_snugs();
    const bool is_spare =
        role == WeightRole::pooler || (role == WeightRole::head && has_other_head);
    const bool is_foreign = model.family().is_own(name) && !is_spare;
    (is_foreign ? mismatch.foreign : match.unused).push_back(tensor.name);
  }
  if (!mismatch.missing.empty())  // their names may say what they are
    mismatch.foreign.insert(mismatch.foreign.end(), match.unused.begin(), match.unused.end());
  refuse_mismatch(mismatch, file, model);
  return match;
}

void refuse_fresh_weights(const Model& model) {
  if (model.fresh.empty()) return;
  std::string names;
  for (const std::string& name : model.fresh) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::bad_data, model.weights_folder,
              "the model has no trained weights for " + names, "train the model first");
}

void check_weight_files(const Model& model) {
  io::check_file_of_folder(model.weights_folder, "model.safetensors");
  if (!model.adapter_folder.empty())
    io::check_file_of_folder(model.adapter_folder, kAdapterWeights);
}

namespace {

// Adapters of a folder that the session has no place for.
void check_places(const Model& model, const Session& session) {
  std::set<std::string> names;
  for (const TensorInfo& tensor : session.tensors()) names.insert(tensor.name);
  for (const std::string& weight : model.lora.match) {
    if (model.adapter_folder.empty() || names.count(adapter_names(weight).a) != 0) continue;
    throw Error(ErrorCode::bad_config, "lora_adapter",
                "the session has no adapter of '" + weight + "', " + model.adapter_folder + " has",
                "plan it with SessionOptions::lora, whose match names the weight");
  }
}

}  // namespace

void read_weight(const io::TensorFile& file, const std::string& name, const TensorInfo& weight,
                 Session& session, BaseDigest* digest) {
  if (weight.is_coded()) {
    io::for_rows(file, *file.find(name), [&](int64_t row, std::span<const float> values) {
      session.write_rows(weight.name, row, values);
      if (digest != nullptr) digest->add(weight.name, values);
    });
    return;
  }
  session.write_bytes(weight.name, [&](int64_t first, std::span<std::byte> bytes) {
    const std::span<float> values(reinterpret_cast<float*>(bytes.data()),
                                  bytes.size() / sizeof(float));
    file.read_f32(name, first / int64_t{sizeof(float)}, values);
    if (digest != nullptr) digest->add(weight.name, values);
  });
}

namespace {

/// The table of word embeddings, which has more rows than the file's.
bool is_resized(const Model& model, const io::StoredTensor& found, const TensorInfo& tensor) {
  return model.resized_from > 0 && tensor.shape.size() == 2 && found.shape.size() == 2 &&
         found.shape[0] == model.resized_from && tensor.shape[0] == model.traits.vocab_size &&
         found.shape[1] == tensor.shape[1];
}

void read_resized(const io::TensorFile& file, const io::StoredTensor& found,
                  const TensorInfo& tensor, Session& session) {
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  std::vector<double> sum(columns, 0.0);
  io::for_rows(file, found, [&](int64_t row, std::span<const float> values) {
    session.write_rows(tensor.name, row, values);
    for (size_t i = 0; i < values.size(); ++i) sum[i % columns] += static_cast<double>(values[i]);
  });
  std::vector<float> mean;
  for (const double each : sum)
    mean.push_back(static_cast<float>(each / static_cast<double>(found.shape[0])));
  for (int64_t row = found.shape[0]; row < tensor.shape[0]; ++row)
    session.write_rows(tensor.name, row, mean);
}

}  // namespace

std::string initialize_weights(const Model& model, Session& session) {
  std::optional<io::WeightFiles> file;
  std::optional<AdapterFile> adapters;
  if (!model.weights_folder.empty()) file.emplace(model.weights_folder);
  if (!model.adapter_folder.empty()) adapters.emplace(model.adapter_folder);
  check_places(model, session);
  std::set<std::string> fresh(model.fresh.begin(), model.fresh.end());
  fresh.insert(model.reinitialized.begin(), model.reinitialized.end());
  BaseDigest base;
  for (const TensorInfo& tensor : session.tensors()) {
    stop_point();
    if (tensor.kind == TensorKind::optimizer_state || tensor.kind == TensorKind::scales) continue;
    const io::StoredTensor* adapted = adapters ? adapters->find(model, tensor.name) : nullptr;
    if (!file || fresh.count(tensor.name) != 0 ||
        (is_adapter_name(tensor.name) && adapted == nullptr)) {
      session.initialize(tensor.name);
      continue;
    }
    const io::StoredTensor* found =
        adapted != nullptr ? adapted : find_weight(*file, model, tensor.name);
    if (found != nullptr && is_resized(model, *found, tensor)) {
      read_resized(file->file_of(found->name), *found, tensor, session);
      continue;
    }
    if (found == nullptr || found->shape != tensor.shape) {
      throw Error(ErrorCode::bad_data, model.weights_folder,
                  "the weights changed since the run began: '" + tensor.name + "'", "begin again");
    }
    if (adapted != nullptr) {
      read_weight(adapters->file(), found->name, tensor, session);
      continue;
    }
    const bool is_base = !tensor.is_trained && (model.lora.is_on() || tensor.is_coded());
    read_weight(file->file_of(found->name), found->name, tensor, session,
                is_base ? &base : nullptr);
  }
  session.require_finite(model.name);
  std::string digest = base.finish();
  if (adapters) adapters->check_base(digest, model);
  return digest;
}

}  // namespace snug::run_model
