// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "io/json_events.h"
#include "io/json_tree.h"
#include "snug/error.h"

namespace snug::io {
namespace {

constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadataKey = "__metadata__";

// Receives the JSON parser's events without building a tree, so a hostile header costs no more
// memory than its text. The only legal form: {"name": {"dtype": text, "shape": [n, ...],
// "data_offsets": [n, n]}, "__metadata__": {"k": "v"} or null}.
class HeaderReader final : public JsonEvents {
 public:
  std::string message;  // why the parser was stopped
  SafetensorsHeader header;

  bool null() override {
    if (state_ != State::value || tensor_.name != kMetadataKey) return stop("null is not allowed");
    if (std::exchange(has_metadata_, true)) return stop("it stands twice");
    state_ = State::root;  // as safetensors' own reader takes it: there are none
    return true;
  }
  bool boolean(bool) override { return stop("true and false are not allowed"); }
  bool number_integer(int64_t) override { return stop("a number is negative"); }
  bool number_float(double, const std::string& text) override {
    return stop("the number " + text + " is no integer of 63 bits");
  }

  bool number_unsigned(uint64_t value) override {
    if (state_ != State::shape && state_ != State::offsets)
      return stop("a number stands where none belongs");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return stop("the number " + std::to_string(value) + " is no integer of 63 bits");
    }
    if (state_ == State::shape) {
      if (tensor_.shape.size() == kMaxRank)
        return stop("it has more than " + std::to_string(kMaxRank) + " dimensions");
      tensor_.shape.push_back(static_cast<int64_t>(value));
    } else {
      if (offset_count_ == 2) return stop("data_offsets must hold two numbers");
      (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = static_cast<int64_t>(value);
    }
    return true;
  }

  bool string(std::string& text) override {
    if (state_ == State::metadata) {
      if (!header.metadata.emplace(key_, std::move(text)).second) {
        return stop("the key " + quote_json(key_) + " stands twice");
      }
      return true;
    }
    if (state_ != State::dtype) return stop("a text stands where none belongs");
    if (!parse_stored_type(text, tensor_.dtype))
      return stop("the dtype " + quote_json(text) + " is unknown");
    state_ = State::tensor;
    return true;
  }

  bool key(std::string& text) override {
    if (state_ == State::metadata) {
      key_ = std::move(text);
      return true;
    }
    if (state_ == State::root) {
      tensor_ = {};
      tensor_.name = std::move(text);
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offset_count_ = 0;
      state_ = State::value;
      return true;
    }
    if (text == "dtype" && !std::exchange(has_dtype_, true)) {
      state_ = State::dtype;
    } else if (text == "shape" && !std::exchange(has_shape_, true)) {
      state_ = State::before_shape;
    } else if (text == "data_offsets" && !std::exchange(has_offsets_, true)) {
      state_ = State::before_offsets;
    } else {
      return stop("the field " + quote_json(text) + " is unknown or stands twice");
    }
    return true;
  }

  bool start_object() override {
    if (state_ == State::start) {
      state_ = State::root;
    } else if (state_ == State::value) {
      const bool is_metadata = tensor_.name == kMetadataKey;
      if (is_metadata && std::exchange(has_metadata_, true)) return stop("it stands twice");
      state_ = is_metadata ? State::metadata : State::tensor;
    } else {
      return stop("an object stands where none belongs");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::metadata) {
      state_ = State::root;
    } else if (state_ == State::tensor) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_) {
        return stop(std::string("the field ") +
                    (!has_dtype_   ? "dtype"
                     : !has_shape_ ? "shape"
                                   : "data_offsets") +
                    " is missing");
      }
      header.tensors.push_back(std::move(tensor_));
      tensor_ = {};
      state_ = State::root;
    } else {
      state_ = State::done;
    }
    return true;
  }

  bool start_array() override {
    if (state_ == State::before_shape) {
      state_ = State::shape;
    } else if (state_ == State::before_offsets) {
      state_ = State::offsets;
    } else {
      return stop("a list stands where none belongs");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && offset_count_ != 2)
      return stop("data_offsets must hold two numbers");
    state_ = State::tensor;
    return true;
  }

  void broken(size_t, const std::string& why) override {
    message = "the header is broken JSON: " + why;
  }

 private:
  enum class State : uint8_t {
    start,
    root,
    value,
    tensor,
    dtype,
    before_shape,
    shape,
    before_offsets,
    offsets,
    metadata,
    done,
  };

  bool stop(const std::string& why) {
    message = state_ == State::start || state_ == State::root
                  ? "the header must be an object of tensors: " + why
                  : "tensor " + quote_json(tensor_.name) + ": " + why;
    return false;
  }

  State state_ = State::start;
  std::string key_;
  StoredTensor tensor_;
  int offset_count_ = 0;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  bool has_metadata_ = false;
};

void check_names(const std::vector<StoredTensor>& tensors, const std::string& path) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw_bad_safetensors(path, "tensor " + quote_json(*twice) + " stands twice");
}

// Ranges must follow one another from 0 to the end of the file: no gap, no overlap, nothing
// outside.
void check_ranges(const std::vector<StoredTensor>& tensors, int64_t data_bytes,
                  const std::string& path) {
  int64_t expected = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::string name = "tensor " + quote_json(tensor.name);
    const std::string range =
        "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ")";
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      throw_bad_safetensors(path, name + ": the bytes " + range + " lie outside the data of " +
                                      std::to_string(data_bytes) + " bytes");
    }
    if (tensor.begin != expected) {
      throw_bad_safetensors(
          path, name + ": the bytes " + range +
                    (tensor.begin < expected ? " overlap the tensor before" : " leave a gap") +
                    ", which ends at " + std::to_string(expected));
    }
    int64_t bytes = 0;
    if (!tensor_bytes(tensor.dtype, tensor.shape, bytes) || bytes != tensor.size_bytes()) {
      throw_bad_safetensors(path,
                            name + ": its shape and dtype need another number of bytes than the " +
                                std::to_string(tensor.size_bytes()) + " stored");
    }
    expected = tensor.end;
  }
  if (expected != data_bytes) {
    throw_bad_safetensors(path, "the tensors end at byte " + std::to_string(expected) + " of " +
                                    std::to_string(data_bytes) + " bytes of data");
  }
}

}  // namespace

void throw_bad_safetensors(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::bad_data, path, "not a valid safetensors file: " + what,
              "the file is truncated, damaged or of another kind: get or convert it again");
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           const std::string& path) {
  if (text.empty() || text.front() != '{')
    throw_bad_safetensors(path, "the header does not begin with '{'");
  HeaderReader reader;
  if (!read_json_events(text, reader)) throw_bad_safetensors(path, reader.message);
  SafetensorsHeader header = std::move(reader.header);
  check_names(header.tensors, path);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  check_ranges(header.tensors, data_bytes, path);
  return header;
}

std::string safetensors_header_text(std::span<const TensorToWrite> tensors,
                                    const SafetensorsNotes& notes) {
  std::string text = R"({"__metadata__":{"format":"pt")";
  for (const auto& [key, value] : notes) text += "," + quote_json(key) + ":" + quote_json(value);
  text += "}";
  int64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    int64_t bytes = 0;
    SNUG_CHECK(tensor_bytes(tensor.dtype, tensor.shape, bytes), tensor.name);
    text += "," + quote_json(tensor.name) + R"(:{"dtype":")" +
            std::string(to_string(tensor.dtype)) + R"(","shape":[)";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      text += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    }
    text += R"(],"data_offsets":[)" + std::to_string(offset) + "," +
            std::to_string(offset + bytes) + "]}";
    offset += bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace snug::io
