// SPDX-License-Identifier: Apache-2.0
#include "data/label_places.h"

#include <string_view>
#include <utility>

#include "data/source.h"

namespace snug::data {
namespace {

[[noreturn]] void refuse(int64_t places, int64_t wanted, const std::string& whose,
                         const std::string& where) {
  throw RowError(ErrorCode::bad_data, where,
                 "the label is a list of " + std::to_string(places) + " numbers, one a label; " +
                     whose + " " + std::to_string(wanted),
                 "give every row one number for each label, or set bad_rows to skip");
}

}  // namespace

PlacesOfLabels::PlacesOfLabels(const CacheSpec& spec, CodeOf code_of)
    : spec_(spec), code_of_(std::move(code_of)) {}

void PlacesOfLabels::check_form(std::span<const ColumnDraft> columns, const std::string& where) {
  for (const ColumnDraft& each : columns) {
    if (!each.places && each.names.empty()) continue;
    const char* const form = each.places ? "0 and 1" : each.names_are_ids ? "ids" : "names";
    if (form_ != nullptr && std::string_view(form) != form_)
      throw RowError(
          ErrorCode::bad_data, where,
          std::string("the label is a list of ") + form + ", those before are lists of " + form_,
          "give every row the same form, or set bad_rows to skip");
    form_ = form;
  }
}

std::span<const int32_t> PlacesOfLabels::codes(int64_t places, const std::string& where) {
  if (codes_.empty()) begin(places, where);
  if (places != std::ssize(codes_))
    refuse(places, std::ssize(codes_), "the rows before have", where);
  return codes_;
}

void PlacesOfLabels::begin(int64_t places, const std::string& where) {
  if (places > kMaxLabels)
    throw RowError(ErrorCode::bad_data, where,
                   "a list of " + std::to_string(places) + " labels (at most " +
                       std::to_string(kMaxLabels) + ")");
  const bool is_known = spec_.label_use == LabelUse::known;
  const bool is_of_model = is_known || spec_.rule.is_trained;
  const bool has_names = is_of_model || !spec_.rule.order_key.empty();
  const std::vector<std::string>& names = is_known      ? spec_.known_labels.names()
                                          : is_of_model ? spec_.rule.model
                                                        : spec_.rule.order;
  if (has_names && places != std::ssize(names))
    refuse(places, std::ssize(names), is_of_model ? "the model has" : spec_.rule.order_key + " has",
           where);
  std::vector<int32_t> codes;
  for (int64_t place = 0; place < places; ++place) {
    const std::string name = has_names ? names[static_cast<size_t>(place)] : std::to_string(place);
    codes.push_back(is_known ? static_cast<int32_t>(place) : code_of_(name, where));
  }
  codes_ = std::move(codes);
}

}  // namespace snug::data
