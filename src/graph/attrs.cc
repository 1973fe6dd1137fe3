// SPDX-License-Identifier: Apache-2.0
#include "snug/attrs.h"

#include <algorithm>

#include "base/check.h"
#include "base/numbers.h"

namespace snug {
namespace {

bool is_before(const Attrs::Item& item, std::string_view name) { return item.first < name; }

template <class T>
const T& get(const Attrs& attrs, const std::string& name) {
  const AttrValue* found = attrs.find(name);
  SNUG_CHECK(found != nullptr, "attribute " + name + " is absent");
  const T* value = std::get_if<T>(found);
  SNUG_CHECK(value != nullptr, "attribute " + name + " has another kind");
  return *value;
}

}  // namespace

Attrs::Attrs(std::initializer_list<Item> items) : items_(items) {
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return a.first < b.first; });
}

void Attrs::set(const std::string& name, AttrValue value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, is_before);
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, name, std::move(value));
  }
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name, is_before);
  return at != items_.end() && at->first == name ? &at->second : nullptr;
}

bool Attrs::boolean(const std::string& name) const { return get<bool>(*this, name); }
int64_t Attrs::int64(const std::string& name) const { return get<int64_t>(*this, name); }
double Attrs::real(const std::string& name) const { return get<double>(*this, name); }
const std::string& Attrs::text(const std::string& name) const {
  return get<std::string>(*this, name);
}
const std::vector<int64_t>& Attrs::ints(const std::string& name) const {
  return get<std::vector<int64_t>>(*this, name);
}

AttrKind kind_of(const AttrValue& value) { return static_cast<AttrKind>(value.index()); }

std::string to_string(const AttrValue& value) {
  switch (kind_of(value)) {
    case AttrKind::boolean:
      return std::get<bool>(value) ? "true" : "false";
    case AttrKind::int64:
      return std::to_string(std::get<int64_t>(value));
    case AttrKind::real: {
      std::string text = digits_text(std::get<double>(value), 17);
      // A real always shows that it is one, so that the parser finds the same kind.
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
      return text;
    }
    case AttrKind::text: {
      std::string text = "\"";
      for (char c : std::get<std::string>(value)) {
        if (c == '"' || c == '\\') text += '\\';
        text += c;
      }
      return text + "\"";
    }
    case AttrKind::ints: {
      std::string text = "[";
      for (int64_t item : std::get<std::vector<int64_t>>(value)) {
        text += (text.size() > 1 ? "," : "") + std::to_string(item);
      }
      return text + "]";
    }
  }
  return {};
}

}  // namespace snug
