// SPDX-License-Identifier: Apache-2.0
// A session's tensors by name: weights, buffers and states, as values or as the bytes that they
// are.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/finite.h"
#include "base/float_mode.h"
#include "base/threads.h"
#include "session/coded_weight.h"
#include "session/finite.h"
#include "session/session_impl.h"
#include "snug/error.h"

namespace snug {

using runtime::ResidentLayout;
using session::is_coded_weight;

namespace {

constexpr int64_t kBufferElements = 1 << 16;
constexpr float kLargestCode = 255;  // of a state in 8 bits

int64_t rows_at_once(int64_t columns) { return std::max<int64_t>(1, kBufferElements / columns); }

void require_f32(const std::string& name, DType dtype) {
  if (dtype != DType::f32)
    throw Error(ErrorCode::bad_config, name,
                std::string("its elements are stored as ") + to_string(dtype),
                "view_bytes and edit_bytes give them, read and write their values");
}

void check_finite(const std::string& name, std::span<const float> values, int64_t first) {
  const int64_t bad = first_not_finite(values);
  if (bad >= 0)
    throw Error(ErrorCode::numeric, name,
                "element " + std::to_string(first + bad) + " is not finite");
}

void check_size(const std::string& name, std::span<const float> values, int64_t elements) {
  if (std::ssize(values) != elements)
    throw Error(ErrorCode::bad_config, name,
                std::to_string(values.size()) + " elements are given, the tensor has " +
                    std::to_string(elements));
}

}  // namespace

void Session::Impl::initialize(const std::string& weight, const ResidentLayout::Entry& entry) {
  const InitRule rule = planned->def.init_rule(weight, entry.type.shape);
  const auto seed = static_cast<uint64_t>(planned->options.seed);
  const int threads = planned->machine.threads();
  const TeamFloatMode float_mode(threads, Subnormals::kept);
  has_prologue = false;
  if (!is_coded_weight(*engine, weight)) {
    engine->fill_parts<float>(
        weight, 0, element_count(entry.type), [&](int64_t at, std::span<float> values) {
          nn::initialize(values, entry.type.shape, rule, weight, seed, threads, at);
        });
    return;
  }
  // A few rows at a time: the weight is never in memory as f32.
  const int64_t columns = element_count(entry.type) / entry.type.shape[0];
  const int64_t rows = rows_at_once(columns);
  std::vector<float> values;
  for (int64_t first = 0; first < entry.type.shape[0]; first += rows) {
    values.resize(static_cast<size_t>(std::min(rows, entry.type.shape[0] - first) * columns));
    nn::initialize(values, entry.type.shape, rule, weight, seed, threads, first * columns);
    session::write_coded_rows(*engine, weight, first, values);
  }
}

const ResidentLayout::Entry& Session::Impl::entry(const std::string& tensor) const {
  const bool is_there = engine->has(tensor) && !tensor.starts_with(compile::kGradientPrefix);
  if (!is_there || !is_kept(planned->plan.residents.at(tensor).kind))
    throw Error(ErrorCode::bad_config, tensor, "the session has no tensor of this name",
                "tensors() lists them");
  return planned->plan.residents.at(tensor);
}

int64_t Session::Impl::columns_of(const std::string& weight, int64_t first_row,
                                  int64_t elements) const {
  const ResidentLayout::Entry& tensor = entry(weight);
  const Shape& shape = tensor.type.shape;
  const int64_t columns = shape.empty() || shape[0] == 0 ? 0 : element_count(shape) / shape[0];
  const bool is_whole = columns > 0 && elements % columns == 0;
  const bool is_inside = is_whole && first_row >= 0 && first_row <= shape[0] - elements / columns;
  if (!is_of_model(tensor.kind) || !is_inside)
    throw Error(ErrorCode::bad_config, weight,
                std::to_string(elements) + " elements from row " + std::to_string(first_row) +
                    " are no rows of a weight " + to_string(shape),
                "give whole rows of a weight or buffer");
  return columns;
}

std::vector<TensorInfo> Session::tensors() const {
  std::vector<TensorInfo> found;
  for (const auto& [name, entry] : impl_->planned->plan.residents.entries()) {
    if (!is_kept(entry.kind) || name.starts_with(compile::kGradientPrefix)) continue;
    const TensorKind kind = entry.kind == ValueKind::parameter         ? TensorKind::parameter
                            : entry.kind == ValueKind::state           ? TensorKind::optimizer_state
                            : session::is_scales(*impl_->engine, name) ? TensorKind::scales
                                                                       : TensorKind::buffer;
    found.push_back({.name = name,
                     .shape = entry.type.shape,
                     .dtype = entry.type.dtype,
                     .kind = kind,
                     .is_trained = impl_->planned->trained.count(name) != 0});
  }
  return found;
}

std::span<const std::byte> Session::view_bytes(const std::string& name) const {
  (void)impl_->entry(name);
  return impl_->engine->view<std::byte>(name);
}

std::span<std::byte> Session::edit_bytes(const std::string& name) {
  (void)impl_->entry(name);
  impl_->is_edited = true;
  return impl_->engine->edit<std::byte>(name);
}

// Elements of at most 4 bytes: parts are whole ones.
void Session::read_bytes(const std::string& name,
                         const std::function<void(std::span<const std::byte>)>& use) const {
  (void)impl_->entry(name);
  impl_->engine->for_parts<std::byte>(name, [&](int64_t, auto bytes) { use(bytes); });
}

void Session::write_bytes(const std::string& name,
                          const std::function<void(int64_t first, std::span<std::byte>)>& fill) {
  (void)impl_->entry(name);
  impl_->has_prologue = false;
  impl_->engine->fill_parts<std::byte>(name, fill);
}

std::span<const float> Session::view(const std::string& name) const {
  require_f32(name, impl_->entry(name).type.dtype);
  return impl_->engine->view<float>(name);
}

std::span<float> Session::edit(const std::string& name) {
  require_f32(name, impl_->entry(name).type.dtype);
  impl_->is_edited = true;
  return impl_->engine->edit<float>(name);
}

void Session::read(const std::string& name, std::span<float> values) const {
  const session::Engine& engine = *impl_->engine;
  const TensorType& type = impl_->entry(name).type;
  check_size(name, values, element_count(type));
  if (is_coded_weight(engine, name)) return session::read_coded_rows(engine, name, 0, values);
  if (type.dtype == DType::u8)
    return engine.for_parts<uint8_t>(name, 0, std::ssize(values),
                                     [&](int64_t at, std::span<const uint8_t> codes) {
                                       std::ranges::copy(codes, values.begin() + at);
                                     });
  require_f32(name, type.dtype);
  engine.read<float>(name, 0, values);
}

std::vector<float> Session::read(const std::string& name) const {
  std::vector<float> values(static_cast<size_t>(element_count(impl_->entry(name).type)));
  read(name, values);
  return values;
}

void Session::write(const std::string& name, std::span<const float> values) {
  const TensorType& type = impl_->entry(name).type;
  check_size(name, values, element_count(type));
  check_finite(name, values, 0);
  if (is_coded_weight(*impl_->engine, name)) return write_rows(name, 0, values);
  if (type.dtype != DType::u8) {
    require_f32(name, type.dtype);
    impl_->has_prologue = false;
    return impl_->engine->write<float>(name, 0, values);
  }
  const auto wrong = std::find_if(values.begin(), values.end(), [](float value) {
    return value < 0 || value > kLargestCode || value != std::floor(value);
  });
  if (wrong != values.end())
    throw Error(ErrorCode::bad_config, name,
                "element " + std::to_string(wrong - values.begin()) + " is no code of 8 bits",
                "give whole numbers from 0 to 255");
  impl_->engine->fill_parts<uint8_t>(
      name, 0, std::ssize(values), [&](int64_t at, std::span<uint8_t> codes) {
        const auto from = values.subspan(static_cast<size_t>(at), codes.size());
        std::ranges::transform(from, codes.begin(),
                               [](float value) { return static_cast<uint8_t>(value); });
      });
}

void Session::read_rows(const std::string& name, int64_t first_row, std::span<float> values) const {
  const int64_t columns = impl_->columns_of(name, first_row, std::ssize(values));
  if (is_coded_weight(*impl_->engine, name))
    return session::read_coded_rows(*impl_->engine, name, first_row, values);
  require_f32(name, impl_->entry(name).type.dtype);
  impl_->engine->read<float>(name, first_row * columns, values);
}

void Session::write_rows(const std::string& name, int64_t first_row,
                         std::span<const float> values) {
  const int64_t columns = impl_->columns_of(name, first_row, std::ssize(values));
  check_finite(name, values, first_row * columns);
  impl_->has_prologue = false;
  if (is_coded_weight(*impl_->engine, name))
    return session::write_coded_rows(*impl_->engine, name, first_row, values);
  require_f32(name, impl_->entry(name).type.dtype);
  impl_->engine->write<float>(name, first_row * columns, values);
}

void Session::initialize(const std::string& name) {
  check_threads(impl_->planned->machine.threads());
  const ResidentLayout::Entry& entry = impl_->entry(name);
  if (session::is_scales(*impl_->engine, name))
    throw Error(ErrorCode::bad_config, name, "it is a part of a weight in 8 bits",
                "name the weight");
  if (!is_of_model(entry.kind))
    throw Error(ErrorCode::bad_config, name, "it is a state of the optimizer, which begins as 0",
                "name a weight or buffer");
  impl_->initialize(name, entry);
}

std::string Session::find_not_finite() const {
  const std::optional<NotFinite> found = session::find_not_finite(*impl_->engine);
  return found ? found->text() : std::string();
}

void Session::require_finite(const std::string& where) const {
  const std::optional<NotFinite> found = session::find_not_finite(*impl_->engine);
  if (found) refuse_not_finite(where, *found);
}

}  // namespace snug
