// SPDX-License-Identifier: Apache-2.0
// A text that does not change, of which copies share one block: where a thousand ops lie in one
// scope, it is stored once.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <utility>

namespace snug {

class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text)  // NOLINT: used like the text
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}  // NOLINT: used like the text

  [[nodiscard]] const std::string& str() const {
    static const std::string none;
    return text_ ? *text_ : none;
  }
  operator const std::string&() const { return str(); }  // NOLINT: used like the text
  [[nodiscard]] bool empty() const { return text_ == nullptr; }

  friend bool operator==(const SharedText& a, const SharedText& b) {
    return a.text_ == b.text_ || a.str() == b.str();
  }
  friend std::ostream& operator<<(std::ostream& out, const SharedText& text) {
    return out << text.str();
  }

 private:
  std::shared_ptr<const std::string> text_;  // null: empty
};

}  // namespace snug
