// SPDX-License-Identifier: Apache-2.0
#include "run_model/other_weights.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/listed.h"
#include "base/shell.h"
#include "io/file.h"
#include "run_model/model_weights.h"
#include "snug/error.h"
#include "text/tokenizer.h"

namespace snug::run_model {
namespace {

constexpr int kDepth = 4;  // of subfolders; links may lead in a circle

// ---- what holds no weights ----

constexpr std::string_view kHarmlessNames[] = {".ds_store", ".gitattributes", ".gitignore",
                                               ".gitkeep", ".gitmodules", ".snug.complete",
                                               "cachedir.tag", "dockerfile", "latest", "makefile",
                                               // Only a Trainer's arguments.
                                               "training_args.bin"};

constexpr std::string_view kHarmlessBegins[] = {
    "authors", "changelog", "citation", "copying", "events.out.tfevents",
    "licence", "license",   "notice",   "readme"};

// Texts, tables, programs and pictures.
constexpr std::string_view kHarmlessEnds[] = {
    ".bib",  ".cff", ".cfg", ".conf", ".css",   ".csv", ".gif", ".htm",  ".html", ".ini",  ".ipynb",
    ".jpeg", ".jpg", ".js",  ".json", ".jsonl", ".log", ".md",  ".pdf",  ".png",  ".py",   ".pyc",
    ".rst",  ".sh",  ".svg", ".text", ".toml",  ".tsv", ".txt", ".webp", ".xml",  ".yaml", ".yml"};

// What stands beside a file of any name, and is not that file.
constexpr std::string_view kSideEnds[] = {".lock", ".md5", ".metadata", ".sha256"};

// Names of weights: "model.safetensors.txt" is what a browser made of one.
constexpr std::string_view kWeightWords[] = {".bin.",         ".h5.",         ".index.",
                                             ".msgpack.",     ".safetensors", "flax_model",
                                             "pytorch_model", "tf_model"};

// Before ".model": a tokenizer of SentencePiece.
constexpr std::string_view kTokenizerWords[] = {"bpe",       "piece",   "spm",
                                                "tokenizer", "unigram", "vocab"};

template <class Words, class Is>
bool is_any(const Words& words, const Is& is) {
  return std::any_of(std::begin(words), std::end(words), is);
}

bool is_harmless(const std::string& file) {
  const std::string name = ascii::lowered(file);
  const auto begins = [&](std::string_view word) { return name.starts_with(word); };
  const auto ends = [&](std::string_view word) { return name.ends_with(word); };
  const auto has = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  if (is_any(kSideEnds, ends)) return true;
  if (is_any(kWeightWords, has)) return false;
  if (name.ends_with(".model")) return is_any(kTokenizerWords, has);
  return is_any(kHarmlessNames, [&](std::string_view word) { return name == word; }) ||
         is_any(kHarmlessBegins, begins) || is_any(kHarmlessEnds, ends);
}

std::string plain_path(const std::string& path) {
  std::string plain = io::absolute_path(path);
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

/// Files that may hold weights, below `folder`: "model.h5", "variables/variables.index".
void find_files(const std::string& folder, const std::string& below, int depth,
                const std::string& output, std::vector<std::string>& found) {
  for (const std::string& name : io::list_folder(folder)) {
    const std::string path = folder + "/" + name;
    if (!io::is_folder(path)) {
      if (!is_harmless(name)) found.push_back(below + name);
    } else if (name != ".git" && depth < kDepth && plain_path(path) != output) {
      find_files(path, below + name + "/", depth + 1, output, found);
    }
  }
}

// ---- the line that helps ----

constexpr std::pair<std::string_view, const char*> kUnpack[] = {
    {".tar", "tar -xf"},    {".tgz", "tar -xf"}, {".tar.gz", "tar -xf"}, {".tar.bz2", "tar -xf"},
    {".tar.xz", "tar -xf"}, {".zip", "unzip"},   {".gz", "gunzip"},      {".bz2", "bunzip2"},
    {".xz", "unxz"},        {".zst", "unzstd"},  {".7z", "7z x"},        {".rar", "unrar x"}};
constexpr std::string_view kPartial[] = {".aria2", ".crdownload", ".download", ".incomplete",
                                         ".part",  ".partial",    ".tmp"};

// Tarballs and zips hold paths of their own, the others are one file.
std::string unpack_line(const std::string& folder, const std::string& name) {
  const auto* best = std::end(kUnpack);
  for (const auto* each = std::begin(kUnpack); each != std::end(kUnpack); ++each) {
    if (ascii::lowered(name).ends_with(each->first) &&
        (best == std::end(kUnpack) || each->first.size() > best->first.size()))
      best = each;
  }
  if (best == std::end(kUnpack)) return {};
  const std::string command = best->second;
  const std::string to = command == "tar -xf" ? " -C " + shell_word(folder)
                         : command == "unzip" ? " -d " + shell_word(folder)
                                              : "";
  return command + " " + shell_word(folder + "/" + name) + to;
}

// The name under which Snug would read it; empty: none.
std::string own_name(const std::string& name) {
  const std::string plain = ascii::lowered(name);
  for (const char* own : {"model.safetensors", "pytorch_model.bin"}) {
    if (plain.starts_with(own)) return own;
  }
  return plain.ends_with(".safetensors") ? "model.safetensors" : "";
}

std::string fresh_line(const std::string& folder) {
  return "for fresh weights give --model " + shell_word(folder + "/config.json") +
         (text::Tokenizer::is_in(folder) ? " --tokenizer " + shell_word(folder) : "");
}

std::string hint_of_subfolder(const std::string& folder, const std::string& file) {
  const std::string path = folder + "/" + file;
  const std::string sub = io::parent_folder(path);
  return io::file_exists(sub + "/config.json")
             ? "give --model " + shell_word(sub) + ", which has config.json and weights; " +
                   fresh_line(folder)
             : "where " + file + " holds its weights (" + fresh_line(folder) + "): mv " +
                   shell_word(path) + " " + shell_word(folder + "/");
}

// The hint for forms that a converter of their own reads; else empty.
std::string hint_of_trainer(const std::string& folder, const std::string& name) {
  if (name.ends_with("_model_states.pt") || name.ends_with("_optim_states.pt"))
    return "DeepSpeed's own zero_to_fp32.py, which it writes beside its parts, makes one file of "
           "them: python3 " +
           shell_word(folder + "/zero_to_fp32.py") + " " + shell_word(folder) + " " +
           shell_word(folder) + " (before DeepSpeed 0.15 the last word is the file, " +
           shell_word(folder + "/pytorch_model.bin") + ")";
  if (name.ends_with(".distcp"))
    return "the parts that FSDP wrote become model.safetensors by accelerate merge-weights " +
           shell_word(io::parent_folder(folder + "/" + name)) + " " + shell_word(folder);
  if (name.ends_with("tf_model.h5")) return transformers_line(folder, ", from_tf=True");
  if (name.ends_with("flax_model.msgpack")) return transformers_line(folder, ", from_flax=True");
  return {};
}

std::string hint_of_name(const std::string& folder, const std::string& name) {
  const std::string plain = ascii::lowered(name);
  const auto ends = [&](std::string_view end) { return plain.ends_with(end); };
  if (is_any(kPartial, ends))
    return name + " is what a download leaves that did not end: get the file again, whole";
  if (const std::string line = unpack_line(folder, name); !line.empty())
    return "where " + name + " holds its weights, unpack it (" + fresh_line(folder) + "): " + line;
  if (const std::string own = own_name(name); !own.empty())
    return "where " + name + " holds its weights, rename it to " + own + ": mv " +
           shell_word(folder + "/" + name) + " " + shell_word(folder + "/" + own);
  if (const std::string line = hint_of_trainer(folder, name); !line.empty()) return line;
  if (ends(".pt") || ends(".pth") || ends(".bin"))
    return "where " + name + " is its state_dict: " +
           convert_line(folder + "/" + name, folder + "/model.safetensors");
  if (ends(".pkl") || ends(".pickle"))
    return "where " + name + " is its state_dict by torch.save: mv " +
           shell_word(folder + "/" + name) + " " + shell_word(folder + "/pytorch_model.bin");
  return {};
}

std::string hint_for(const std::string& folder, const std::vector<std::string>& files) {
  for (const char* begin : {"model-", "pytorch_model-"}) {
    const bool is_of_torch = std::string_view(begin) == "pytorch_model-";
    const std::string end = is_of_torch ? ".bin" : ".safetensors";
    if (is_any(files, [&](const std::string& name) {
          return name.starts_with(begin) && name.ends_with(end);
        }))
      return std::string(is_of_torch ? "pytorch_model.bin" : "model.safetensors") +
             ".index.json, which says what is in which file, is missing: add it";
  }
  if (const std::string sub = model_folder_in(folder); !sub.empty())
    return hint_of_subfolder(folder, sub.substr(folder.size() + 1) + "/config.json");
  for (const std::string& name : files) {
    const std::string file = name.substr(name.rfind('/') + 1);
    if (file != name && (file == "model.safetensors" || file == "pytorch_model.bin"))
      return hint_of_subfolder(folder, name);
  }
  for (const std::string& name : files) {
    if (const std::string hint = hint_of_name(folder, name); !hint.empty()) return hint;
  }
  return "save the model as model.safetensors (save_pretrained(FOLDER, safe_serialization=True) of "
         "transformers); " +
         fresh_line(folder);
}

}  // namespace

std::string model_folder_in(const std::string& folder) {
  std::string newest;
  for (const std::string& name : io::list_folder(folder)) {
    const std::string path = folder + "/" + name;
    // A longer name is a later one: checkpoint-1000 is behind checkpoint-500.
    if (is_model_folder(path) && io::file_exists(path + "/config.json") &&
        std::pair(path.size(), path) > std::pair(newest.size(), newest))
      newest = path;
  }
  return newest;
}

void refuse_other_weights(const std::string& folder, const std::string& output_dir) {
  if (!io::file_exists(folder + "/config.json") || is_model_folder(folder)) return;
  std::vector<std::string> files;
  find_files(folder, "", 0, output_dir.empty() ? "" : plain_path(output_dir), files);
  if (files.empty()) return;
  for (const std::string& name : files)  // of a cache whose downloads are gone
    if (io::is_dangling(folder + "/" + name)) io::throw_dangling(folder + "/" + name);
  throw Error(ErrorCode::bad_data, folder,
              "the folder has neither model.safetensors nor pytorch_model.bin, and what may hold "
              "its weights cannot be read: " +
                  joined(files, kListed),
              hint_for(folder, files));
}

}  // namespace snug::run_model
