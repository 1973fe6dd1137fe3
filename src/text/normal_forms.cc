// SPDX-License-Identifier: Apache-2.0
#include "text/normal_forms.h"

#include <unicode/unorm2.h>

#include <algorithm>

#include "base/check.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

const UNormalizer2& normalizer_of(bool is_compatible) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* normalizer =
      is_compatible ? unorm2_getNFKDInstance(&status) : unorm2_getNFDInstance(&status);
  SNUG_CHECK(U_SUCCESS(status), u_errorName(status));
  return *normalizer;
}

/// The primary composite of two code points, or -1.
UChar32 compose(char32_t first, char32_t second) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* nfc = unorm2_getNFCInstance(&status);
  SNUG_CHECK(U_SUCCESS(status), u_errorName(status));
  const UChar32 both =
      unorm2_composePair(nfc, static_cast<UChar32>(first), static_cast<UChar32>(second));
  return both >= 0 && existed_in(9, static_cast<char32_t>(both)) ? both : -1;
}

class Writer {
 public:
  Writer(NormalForm form, std::vector<ClassedPoint>& points, std::string& out)
      : normalizer_(normalizer_of(form == NormalForm::nfkc || form == NormalForm::nfkd)),
        composes_(form == NormalForm::nfc || form == NormalForm::nfkc),
        points_(points),
        out_(out) {
    points_.clear();
  }

  void push(char32_t c) {
    if (c < 0x80) return push_part(c);
    UChar units[64];
    UErrorCode status = U_ZERO_ERROR;
    const int32_t size =
        unorm2_getDecomposition(&normalizer_, static_cast<UChar32>(c), units, 64, &status);
    SNUG_CHECK(U_SUCCESS(status), u_errorName(status));
    if (size < 0 || !existed_in(9, c)) return push_part(c);
    for (int32_t i = 0; i < size;) {
      UChar32 part;
      U16_NEXT(units, i, size, part);
      push_part(static_cast<char32_t>(part));
    }
  }

  void finish() {
    settle();
    write();
  }

 private:
  void push_part(char32_t c) {
    const uint8_t order = combining_class(c);
    if (order == 0) {
      settle();
      if (composes_ && points_.size() == 1 && points_[0].first == 0) {
        if (const UChar32 both = compose(points_[0].second, c); both >= 0) {
          points_[0].second = static_cast<char32_t>(both);
          return;
        }
      }
      write();
    }
    points_.emplace_back(order, c);
  }

  /// Orders the marks behind the starter, and lets it take those that it composes with.
  void settle() {
    const bool has_starter = !points_.empty() && points_[0].first == 0;
    const auto marks = points_.begin() + (has_starter ? 1 : 0);
    const auto by_class = [](const ClassedPoint& a, const ClassedPoint& b) {
      return a.first < b.first;
    };
    // stable_sort takes a buffer from the heap: most runs are one mark, or in order already.
    if (!std::is_sorted(marks, points_.end(), by_class))
      std::stable_sort(marks, points_.end(), by_class);
    if (!composes_ || !has_starter) return;
    size_t kept = 1;
    for (size_t i = 1; i < points_.size(); ++i) {
      const bool is_blocked = kept > 1 && points_[kept - 1].first >= points_[i].first;
      const UChar32 both = is_blocked ? -1 : compose(points_[0].second, points_[i].second);
      if (both >= 0) {
        points_[0].second = static_cast<char32_t>(both);
      } else {
        points_[kept++] = points_[i];
      }
    }
    points_.resize(kept);
  }

  void write() {
    for (const auto& [order, c] : points_) append_utf8(c, out_);
    points_.clear();
  }

  const UNormalizer2& normalizer_;
  bool composes_;
  std::vector<ClassedPoint>& points_;
  std::string& out_;
};

}  // namespace

void append_normal_form(NormalForm form, std::string_view text, std::vector<ClassedPoint>& points,
                        std::string& out) {
  Writer writer(form, points, out);
  for (size_t at = 0; at < text.size();) writer.push(next_code_point(text, at));
  writer.finish();
}

}  // namespace snug::text
