// SPDX-License-Identifier: Apache-2.0
#include "text/merge_list.h"

#include "snug/error.h"

namespace snug::text {

bool MergeList::add(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return false;
  for (std::string_view text : {left, right}) {
    texts_ += text;
    ends_.push_back(static_cast<uint32_t>(texts_.size()));
  }
  return true;
}

bool MergeList::add_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    return false;
  return add(line.substr(0, space), line.substr(space + 1));
}

std::vector<BpeMerge> MergeList::resolve(const TokenizerSpec& spec, std::string_view prefix) const {
  std::vector<BpeMerge> merges;
  if (ends_.empty()) return merges;
  const std::string_view texts = texts_;
  const auto text = [&](size_t i) {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return texts.substr(begin, ends_[i] - begin);
  };
  const auto id_of = [&](std::string_view token, size_t merge) {
    const int32_t id = spec.vocabulary.find(token);
    if (id >= 0) return id;
    throw Error(ErrorCode::bad_data, spec.where,
                "merge " + std::to_string(merge + 1) + " needs the token '" + std::string(token) +
                    "', which the vocabulary lacks",
                "the merges belong to another vocabulary: get both again");
  };
  merges.reserve(ends_.size() / 2);
  std::string both;
  for (size_t i = 0; i < ends_.size(); i += 2) {
    const std::string_view right = text(i + 1);
    if (right.size() < prefix.size()) {
      throw Error(ErrorCode::bad_data, spec.where,
                  "merge " + std::to_string(i / 2 + 1) + " joins '" + std::string(right) +
                      "', which is shorter than continuing_subword_prefix",
                  "write the file again");
    }
    both = text(i);
    both += right.substr(prefix.size());
    merges.push_back({id_of(text(i), i / 2), id_of(right, i / 2), id_of(both, i / 2)});
  }
  return merges;
}

}  // namespace snug::text
