// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/row_kernel.h"

#include <algorithm>
#include <array>
#include <map>
#include <type_traits>

#include "base/check.h"
#include "base/threads.h"
#include "base/units.h"
#include "graph/op_def.h"

namespace snug {
namespace {

// Operands of one node; more have none of the ops that are computed by rows.
constexpr size_t kMostOperands = 12;
// Below so many bytes of operands a second thread does not pay.
constexpr int64_t kWorthAThread = int64_t{48} << 10;

// Rows that a thread takes at least.
int64_t grain_of(const RowGrid& grid, int64_t bytes_of_row) {
  const int64_t worth = kWorthAThread / std::max<int64_t>(1, bytes_of_row);
  return std::max<int64_t>(1, worth / grid.grain) * grid.grain;
}

int64_t sum_of(const std::vector<int64_t>& bytes) {
  int64_t sum = 0;
  for (const int64_t each : bytes) sum += each;
  return sum;
}

class RowProgramKernel final : public Kernel {
 public:
  RowProgramKernel(std::span<const RowNode> nodes, std::vector<std::unique_ptr<Kernel>> kernels)
      : kernels_(std::move(kernels)) {
    RowProgram program;
    for (size_t i = 0; i < nodes.size(); ++i) add(nodes[i], *kernels_[i], program);
    grid_ = program.grid();
    piece_rows_ = program.piece_rows();
    threads_ = program.threads();
    int64_t bytes_of_row = 0;
    std::map<int32_t, int64_t> buffers;  // bytes, by number
    for (size_t i = 0; i < nodes.size(); ++i) {
      Member& member = members_[i];
      member.rows = member.kernel->form().grid.rows / grid_.rows;
      for (const auto& [operands, refs] :
           {std::pair(&member.inputs, &nodes[i].inputs), {&member.outputs, &nodes[i].outputs}}) {
        for (size_t o = 0; o < refs->size(); ++o) {
          const RowOperand& ref = (*refs)[o];
          const auto& form = member.kernel->form();
          const std::vector<int64_t>& bytes = refs == &nodes[i].inputs ? form.inputs : form.outputs;
          operands->push_back({ref, bytes[o] * member.rows, 0});
          bytes_of_row += bytes[o] * member.rows;
          if (ref.place == RowOperand::Place::buffer)
            buffers[ref.index] = program.buffer_bytes(key_of(ref)) / threads_;
        }
      }
    }
    // Buffers in the order of their numbers, each of all threads; then the nodes' scratch.
    int64_t at = 0;
    std::map<int32_t, int64_t> places;
    for (const auto& [index, bytes] : buffers) {
      places[index] = at;
      at += bytes * threads_;
    }
    for (Member& member : members_) {
      for (auto* operands : {&member.inputs, &member.outputs}) {
        for (Operand& operand : *operands) {
          if (operand.ref.place != RowOperand::Place::buffer) continue;
          operand.place = places[operand.ref.index];
          operand.bytes_of_thread = buffers[operand.ref.index];
        }
      }
      member.scratch = at;
      at += round_up(member.kernel->form().scratch_bytes, RowProgram::kAlignment);
    }
    grain_ = grain_of(grid_, bytes_of_row);
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    for (const Member& member : members_) {
      const ErrorCode code = as_a_whole(
          launch, member, [&](const Launch& whole) { return member.kernel->check(whole); });
      if (code != ErrorCode::ok) return code;
    }
    const int64_t grains = (grid_.rows + grain_ - 1) / grain_;
    parallel_parts_for(threads_, grains, 1, [&](int part, int64_t first, int64_t last) {
      const int64_t end = std::min(grid_.rows, last * grain_);
      for (int64_t at = first * grain_; at < end; at += piece_rows_)
        run_piece(launch, part, at, std::min(end, at + piece_rows_));
    });
    for (const Member& member : members_) {
      as_a_whole(launch, member, [&](const Launch& whole) { member.kernel->finish(whole); });
    }
    return ErrorCode::ok;
  }

 private:
  struct Operand {
    RowOperand ref;
    int64_t row_bytes = 0;  // of a row of the program; 0: a whole one
    int64_t place = 0;      // of a buffer in the scratch
    int64_t bytes_of_thread = 0;
  };
  struct Member {
    const RowKernel* kernel = nullptr;
    int64_t rows = 1;  // in one of the program
    std::vector<Operand> inputs = {};
    std::vector<Operand> outputs = {};
    int64_t scratch = 0;
  };

  static int64_t key_of(const RowOperand& ref) {
    constexpr int64_t kApart = int64_t{1} << 32;
    return ref.place == RowOperand::Place::absent
               ? -1
               : static_cast<int64_t>(ref.place) * kApart + ref.index;
  }

  void add(const RowNode& node, const Kernel& kernel, RowProgram& program) {
    const auto* by_rows = dynamic_cast<const RowKernel*>(&kernel);
    SNUG_CHECK(by_rows != nullptr, *node.spec.op->name + " is not computed by rows");
    SNUG_CHECK(std::max(node.inputs.size(), node.outputs.size()) <= kMostOperands,
               *node.spec.op->name + " has too many operands");
    const auto keys_of = [](const std::vector<RowOperand>& refs) {
      std::vector<int64_t> keys;
      for (const RowOperand& ref : refs) keys.push_back(key_of(ref));
      return keys;
    };
    const bool is_added = program.add(by_rows->form(), keys_of(node.inputs), keys_of(node.outputs));
    SNUG_CHECK(is_added, *node.spec.op->name + " does not fit the row program");
    members_.push_back({.kernel = by_rows});
  }

  [[nodiscard]] std::byte* place_of(const Launch& launch, const Operand& operand, int part,
                                    int64_t row) const {
    const auto index = static_cast<size_t>(operand.ref.index);
    switch (operand.ref.place) {
      case RowOperand::Place::absent:
        return nullptr;
      case RowOperand::Place::buffer:
        return launch.scratch + operand.place + part * operand.bytes_of_thread;
      case RowOperand::Place::input:
        // Read only: an input's address, which kernels take as const.
        return const_cast<std::byte*>(launch.inputs[index]) + row * operand.row_bytes;
      case RowOperand::Place::output:
        break;
    }
    return launch.outputs[index] + row * operand.row_bytes;
  }

  void run_piece(const Launch& launch, int part, int64_t begin, int64_t end) const noexcept {
    for (const Member& member : members_) {
      std::array<const std::byte*, kMostOperands> inputs{};
      std::array<std::byte*, kMostOperands> outputs{};
      for (size_t i = 0; i < member.inputs.size(); ++i)
        inputs[i] = place_of(launch, member.inputs[i], part, begin);
      for (size_t i = 0; i < member.outputs.size(); ++i)
        outputs[i] = place_of(launch, member.outputs[i], part, begin);
      member.kernel->run_rows({.begin = begin * member.rows,
                               .end = end * member.rows,
                               .part = part,
                               .inputs = {inputs.data(), member.inputs.size()},
                               .outputs = {outputs.data(), member.outputs.size()},
                               .scratch = launch.scratch + member.scratch});
    }
  }

  // With all rows of the operands that are in memory: nothing else is read before the first piece
  // and behind the last.
  template <class Work>
  std::invoke_result_t<Work, Launch> as_a_whole(const Launch& launch, const Member& member,
                                                const Work& work) const noexcept {
    std::array<const std::byte*, kMostOperands> inputs{};
    std::array<std::byte*, kMostOperands> outputs{};
    for (size_t i = 0; i < member.inputs.size(); ++i)
      inputs[i] = place_of(launch, member.inputs[i], 0, 0);
    for (size_t i = 0; i < member.outputs.size(); ++i)
      outputs[i] = place_of(launch, member.outputs[i], 0, 0);
    return work(Launch{.inputs = {inputs.data(), member.inputs.size()},
                       .outputs = {outputs.data(), member.outputs.size()},
                       .scratch = launch.scratch + member.scratch});
  }

  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Member> members_;
  RowGrid grid_;
  int64_t piece_rows_ = 1;
  int64_t grain_ = 1;
  int32_t threads_ = 1;
};

}  // namespace

ErrorCode RowKernel::run(const Launch& launch) const noexcept {
  if (const ErrorCode code = check(launch); code != ErrorCode::ok) return code;
  const RowGrid& grid = form_.grid;
  const int64_t grain = grain_of(grid, sum_of(form_.inputs) + sum_of(form_.outputs));
  const int64_t grains = (grid.rows + grain - 1) / grain;
  parallel_parts_for(form_.threads, grains, 1, [&](int part, int64_t first, int64_t last) {
    const int64_t begin = first * grain;
    std::array<const std::byte*, kMostOperands> inputs{};
    std::array<std::byte*, kMostOperands> outputs{};
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      inputs[i] = launch.inputs[i];
      if (inputs[i] != nullptr) inputs[i] += begin * form_.inputs[i];
    }
    for (size_t i = 0; i < launch.outputs.size(); ++i)
      outputs[i] = launch.outputs[i] + begin * form_.outputs[i];
    run_rows({.begin = begin,
              .end = std::min(grid.rows, last * grain),
              .part = part,
              .inputs = {inputs.data(), launch.inputs.size()},
              .outputs = {outputs.data(), launch.outputs.size()},
              .scratch = launch.scratch});
  });
  finish(launch);
  return ErrorCode::ok;
}

std::unique_ptr<Kernel> make_row_program(std::span<const RowNode> nodes,
                                         std::vector<std::unique_ptr<Kernel>> kernels) {
  return std::make_unique<RowProgramKernel>(nodes, std::move(kernels));
}

}  // namespace snug
