// SPDX-License-Identifier: Apache-2.0
#include "base/row_form.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace snug {
namespace {

// The same grid in rows of which each is several of its own.
RowGrid in_rows(const RowGrid& grid, int64_t rows) {
  const int64_t merged = grid.rows / rows;
  const auto shorter = [&](int64_t count) { return count / std::gcd(count, merged); };
  return {rows, shorter(grid.step), shorter(grid.grain)};
}

RowGrid joined(const RowGrid& a, const RowGrid& b) {
  if (a == b) return {a.rows, a.step, std::lcm(a.step, a.grain)};
  const int64_t rows = std::gcd(a.rows, b.rows);
  const RowGrid of_a = in_rows(a, rows);
  const RowGrid of_b = in_rows(b, rows);
  const int64_t step = std::lcm(of_a.step, of_b.step);
  return {rows, step, std::lcm(step, std::lcm(of_a.grain, of_b.grain))};
}

// A program has some sixty operands at most: a table by key would take longer to make.
auto find(auto& operands, int64_t key) {
  return std::find_if(operands.begin(), operands.end(),
                      [key](const auto& operand) { return operand.key == key; });
}

int64_t aligned(int64_t bytes) {
  return (bytes + RowProgram::kAlignment - 1) / RowProgram::kAlignment * RowProgram::kAlignment;
}

}  // namespace

bool RowProgram::add(const RowwiseForm& form, std::span<const int64_t> inputs,
                     std::span<const int64_t> outputs,
                     std::span<const std::pair<int64_t, int64_t>> reuses) {
  if (!form.is_given()) return false;
  // Most ops of a program have one grid, which is in the program's already.
  const bool is_known = !operands_.empty() && form.grid == last_;
  const RowGrid grid = is_known ? grid_ : joined(operands_.empty() ? form.grid : grid_, form.grid);
  const int32_t threads = std::max(threads_, form.threads);
  if (grid.rows / grid.grain < threads) return false;
  changed_ = operands_;
  // References hold until the next call.
  const auto now = [&](int64_t key) -> Operand& {
    const auto found = find(changed_, key);
    return found != changed_.end() ? *found : changed_.emplace_back(Operand{.key = key});
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0) continue;
    Operand& operand = now(inputs[i]);
    const int64_t bytes = form.inputs[i] * form.grid.rows;
    const bool is_whole = bytes == 0;
    if (operand.is_made && (is_whole || operand.is_whole || operand.bytes != bytes)) return false;
    if (!is_whole && operand.bytes != 0 && operand.bytes != bytes) return false;
    operand.bytes = std::max(operand.bytes, bytes);
    operand.is_whole = operand.is_whole || is_whole;
  }
  const auto is_alike = [&](const Operand& input, int64_t bytes) {
    return bytes > 0 && !input.is_whole && input.bytes == bytes;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int64_t bytes = form.outputs[i] * form.grid.rows;
    Operand& operand = now(outputs[i]);
    // In its own place, as an op of the graph that overwrites what it reads.
    if ((operand.is_made || operand.bytes > 0 || operand.is_whole) && !is_alike(operand, bytes))
      return false;
    operand = {.key = operand.key, .bytes = bytes, .is_made = true, .is_whole = bytes == 0};
  }
  for (const auto& [output, input] : reuses) {
    const int64_t bytes = now(output).bytes;
    if (!is_alike(now(input), bytes)) return false;
  }
  operands_.swap(changed_);
  grid_ = grid;
  last_ = form.grid;
  threads_ = threads;
  return true;
}

int64_t RowProgram::piece_rows() const {
  int64_t bytes = 0;
  for (const Operand& operand : operands_) bytes += operand.bytes;
  bytes /= std::max<int64_t>(1, grid_.rows);  // which divides the rows of each
  const int64_t rows = kRowPieceBytes / std::max<int64_t>(1, bytes) / grid_.step * grid_.step;
  // Every thread has a piece.
  const int64_t most = grid_.rows / threads_ / grid_.step * grid_.step;
  return std::clamp(rows, grid_.step, std::max(grid_.step, most));
}

int64_t RowProgram::row_bytes(int64_t key) const {
  const auto found = find(operands_, key);
  if (found == operands_.end() || found->is_whole) return 0;
  return found->bytes / grid_.rows;
}

int64_t RowProgram::buffer_bytes(int64_t key, int64_t piece_rows) const {
  return threads_ * aligned(piece_rows * row_bytes(key));
}

void RowProgram::clear() {
  grid_ = last_ = {};
  threads_ = 1;
  operands_.clear();
}

}  // namespace snug
