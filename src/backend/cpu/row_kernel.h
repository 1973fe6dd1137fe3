// SPDX-License-Identifier: Apache-2.0
// Kernels that compute a piece of rows at a time (base/row_form.h), by themselves or several of
// them together. Such a kernel is written as what it does with a piece; who cuts the rows is here.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace snug {

/// Rows [begin, end) of a kernel's own, on one thread.
struct RowPiece {
  int64_t begin = 0;
  int64_t end = 0;
  int part = 0;                              // of the threads that work at once
  std::span<const std::byte* const> inputs;  // from row `begin` on, or the whole operand
  std::span<std::byte* const> outputs;       // likewise
  std::byte* scratch = nullptr;              // the kernel's
  [[nodiscard]] int64_t rows() const { return end - begin; }
};

class RowKernel : public Kernel {
 public:
  explicit RowKernel(RowwiseForm form) : form_(std::move(form)) {}
  [[nodiscard]] const RowwiseForm& form() const { return form_; }
  /// Before the first piece, of any kernel of a program: of the operands that are read as a whole,
  /// whether they are valid. Where they are not, nothing is computed.
  [[nodiscard]] virtual ErrorCode check(const Launch& /*launch*/) const noexcept {
    return ErrorCode::ok;
  }
  /// Pieces of one grain come in their order, on one thread.
  virtual void run_rows(const RowPiece& piece) const noexcept = 0;
  /// Behind the last piece: what is there only then.
  virtual void finish(const Launch& /*launch*/) const noexcept {}
  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override;

 private:
  RowwiseForm form_;
};

inline constexpr auto kNothingBehind = [](const Launch&) {};
inline constexpr auto kAllIsValid = [](const Launch&) { return ErrorCode::ok; };

/// A row kernel from `void run_rows(const RowPiece&)`, `void finish(const Launch&)` and `ErrorCode
/// check(const Launch&)`.
template <class RunRows, class Finish = decltype(kNothingBehind),
          class Check = decltype(kAllIsValid)>
[[nodiscard]] std::unique_ptr<Kernel> make_row_kernel(RowwiseForm form, RunRows run_rows,
                                                      Finish finish = kNothingBehind,
                                                      Check check = kAllIsValid) {
  class Made final : public RowKernel {
   public:
    Made(RowwiseForm form, RunRows run, Finish end, Check check)
        : RowKernel(std::move(form)),
          run_(std::move(run)),
          finish_(std::move(end)),
          check_(std::move(check)) {}
    [[nodiscard]] ErrorCode check(const Launch& launch) const noexcept override {
      return check_(launch);
    }
    void run_rows(const RowPiece& piece) const noexcept override { run_(piece); }
    void finish(const Launch& launch) const noexcept override { finish_(launch); }

   private:
    RunRows run_;
    Finish finish_;
    Check check_;
  };
  return std::make_unique<Made>(std::move(form), std::move(run_rows), std::move(finish),
                                std::move(check));
}

/// `kernels`: of `nodes`, all of them row kernels.
[[nodiscard]] std::unique_ptr<Kernel> make_row_program(
    std::span<const RowNode> nodes, std::vector<std::unique_ptr<Kernel>> kernels);

}  // namespace snug
