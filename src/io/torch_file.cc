// SPDX-License-Identifier: Apache-2.0
#include "io/torch_file.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/shell.h"
#include "base/utf8.h"
#include "io/json_tree.h"
#include "io/torch_pickle.h"
#include "io/zip.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr int64_t kMaxPickleBytes = int64_t{32} << 20;
constexpr int64_t kHeadBytes = 512;  // a block of tar
constexpr std::string_view kPickle = "/data.pkl";

[[noreturn]] void refuse(const File& file, const std::string& what, std::string hint) {
  throw Error(ErrorCode::bad_data, file.path(), what, std::move(hint));
}

[[noreturn]] void refuse_damaged(const File& file, const std::string& what) {
  refuse(file, "not a readable archive of torch.save: " + what,
         "the file is truncated, damaged or of another kind: get or save it again");
}

// Reads the file whole before it is written anew.
std::string saving_again(const std::string& path, const char* trust) {
  return "python3 -c " + shell_word("import torch; f=" + python_literal(path) +
                                    "; torch.save(torch.load(f, map_location='cpu', weights_only=" +
                                    trust + "), f)");
}

/// Refuses what is no archive, by what its first bytes say that it is.
void check_form(const File& file) {
  std::string head(static_cast<size_t>(kHeadBytes), '\0');
  const int64_t bytes = file.read_some_at(0, reinterpret_cast<std::byte*>(head.data()), kHeadBytes);
  head.resize(static_cast<size_t>(bytes));
  if (head.starts_with("PK\3\4")) return;
  if (head.starts_with("\x80"))
    refuse(file, "it is in the form that torch.save had before PyTorch 1.6",
           saving_again(file.path(), "True") + " writes it in the form of today");
  if (head.size() > 262 && head.compare(257, 5, "ustar") == 0)
    refuse(file, "it is a tar file, the form that torch.save had before PyTorch 0.2",
           saving_again(file.path(), "False") +
               " writes it in the form of today; it runs what the file holds, so only where you "
               "trust it");
  refuse_lfs_pointer(file);
  if (head.size() > 8 && head[8] == '{')
    refuse(file, "it is a safetensors file under another name", "call it model.safetensors");
  refuse_damaged(file, "it does not begin as one");
}

/// "archive" of "archive/data.pkl".
std::string root_of(const File& file, const ZipDirectory& directory) {
  std::string root;
  for (const ZipEntry& entry : directory.entries) {
    if (!entry.name.ends_with(kPickle) ||
        entry.name.find('/') + kPickle.size() != entry.name.size())
      continue;
    if (!root.empty()) refuse_damaged(file, "it has more than one data.pkl");
    root = entry.name.substr(0, entry.name.size() - kPickle.size());
  }
  if (root.empty()) refuse_damaged(file, "it has no data.pkl");
  if (directory.find(root + "/constants.pkl") != nullptr)
    refuse(file, "it is a program of TorchScript, not a dict of tensors",
           "save the tensors alone: torch.save(model.state_dict(), FILE)");
  return root;
}

std::string text_of(const File& file, const ZipEntry& entry, int64_t max_bytes) {
  if (entry.bytes > max_bytes)
    refuse_damaged(file, "its " + quote_json(entry.name) + " has " + std::to_string(entry.bytes) +
                             " bytes, more than " + std::to_string(max_bytes));
  std::string text(static_cast<size_t>(entry.bytes), '\0');
  file.read_at(entry.begin, reinterpret_cast<std::byte*>(text.data()), entry.bytes);
  return text;
}

void check_byte_order(const File& file, const ZipDirectory& directory, const std::string& root) {
  const ZipEntry* entry = directory.find(root + "/byteorder");  // PyTorch 2.1 and later
  if (entry == nullptr || text_of(file, *entry, 16) == "little") return;
  refuse(file, "its numbers are stored with the highest byte first",
         "save it on a machine that stores the lowest first, as nearly all do");
}

bool is_row_major(const PickledTensor& tensor) {
  int64_t next = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != next) return false;
    next *= tensor.shape[i];
  }
  return true;
}

/// Elements from the first to the last one, ends included; none where that does not fit 63 bits.
std::optional<int64_t> extent_of(const PickledTensor& tensor) {
  int64_t extent = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t steps = 0;
    if (tensor.strides[i] < 0 ||
        __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &steps) ||
        __builtin_add_overflow(extent, steps, &extent))
      return std::nullopt;
  }
  return extent;
}

StoredTensor info_of(const File& file, const ZipDirectory& directory, const std::string& root,
                     PickledTensor tensor) {
  const std::string name = "tensor " + quote_json(clip_text(tensor.name, 200));
  const ZipEntry* storage = directory.find(root + "/data/" + tensor.storage);
  if (storage == nullptr)
    refuse_damaged(file, name + " lies in the storage " +
                             quote_json(clip_text(tensor.storage, 200)) + ", which is missing");
  const int64_t size = bytes_of(tensor.dtype);
  if (tensor.storage_elements < 0 || storage->bytes / size != tensor.storage_elements ||
      storage->bytes % size != 0)
    refuse_damaged(file, "the storage of " + name + " has " + std::to_string(storage->bytes) +
                             " bytes, not " + std::to_string(tensor.storage_elements) +
                             " elements of " + std::to_string(size));
  int64_t bytes = 0;
  if (!tensor_bytes(tensor.dtype, tensor.shape, bytes))
    refuse_damaged(file, name + " has a size that cannot be");
  const auto extent = bytes == 0 ? std::optional<int64_t>(0) : extent_of(tensor);
  if (!extent || tensor.offset < 0 || tensor.offset > tensor.storage_elements ||
      *extent > tensor.storage_elements - tensor.offset)
    refuse_damaged(file, name + " does not lie in its storage of " +
                             std::to_string(tensor.storage_elements) + " elements");
  if (bytes / size > *extent)
    refuse(file, name + " repeats elements of its storage (torch's expand)",
           "call .contiguous() on it before it is saved");
  const bool is_plain = bytes == 0 || is_row_major(tensor);
  const int64_t begin = storage->begin + tensor.offset * size;
  return {.name = std::move(tensor.name),
          .dtype = tensor.dtype,
          .shape = std::move(tensor.shape),
          .begin = begin,
          .end = begin + bytes,
          .strides = is_plain ? std::vector<int64_t>() : std::move(tensor.strides)};
}

TensorTable torch_table_of(const File& file) {
  check_form(file);
  const ZipDirectory directory = read_zip_directory(file);
  const std::string root = root_of(file, directory);
  check_byte_order(file, directory, root);
  const std::string pickle =
      text_of(file, *directory.find(root + std::string(kPickle)), kMaxPickleBytes);
  TensorTable table{.tensors = {},
                    .table_bytes = directory.bytes + static_cast<int64_t>(pickle.size())};
  for (PickledTensor& tensor : read_torch_pickle(pickle, file.path()))
    table.tensors.push_back(info_of(file, directory, root, std::move(tensor)));
  return table;
}

TensorFile open_archive(const std::string& path) {
  File file = File::open_read(path);
  TensorTable table = torch_table_of(file);
  return {std::move(file), std::move(table)};
}

}  // namespace

TorchFile::TorchFile(const std::string& path) : TensorFile(open_archive(path)) {}

}  // namespace snug::io
