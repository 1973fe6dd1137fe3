// SPDX-License-Identifier: Apache-2.0
#include "data/row_reader.h"

#include "base/utf8.h"

namespace snug::data {
namespace {

constexpr size_t kMaxExampleBytes = 240;

}  // namespace

void BadRowLog::report(const Error& error) {
  if (policy == BadRows::stop) throw Error(error);
  ++count;
  const bool is_example = static_cast<int64_t>(examples.size()) < kMaxBadExamples;
  if (!is_example && !on_skip) return;
  const std::string text = error.what();
  const size_t from = error.where().size() + 3;  // "[where] "
  const size_t end = error.hint().empty() ? text.size() : text.find("\nhint: ");
  const std::string what =
      error.where() + ": " + clip_text(text.substr(from, end - from), kMaxExampleBytes);
  if (is_example) examples.push_back(what);
  if (on_skip) on_skip(what);
}

}  // namespace snug::data
