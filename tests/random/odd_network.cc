// SPDX-License-Identifier: Apache-2.0
#include "odd_network.h"

#include <cmath>
#include <memory>
#include <utility>

#include "odd_ops.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/recompute.h"

namespace snug::odd {
namespace {

/// Builds one network: the same draws at every call, whatever the rows and the phase are.
class Drawing {
 public:
  Drawing(NetworkBuilder& b, const Traits& traits) : b_(b), traits_(traits), dice_(traits.seed) {}

  void build() {
    ids_ = b_.input("ids", {}, DType::i32);
    Tensor x = traits_.has_length ? pooled(sequence())
                                  : linear(b_, "in", b_.input("x", {width()}), width());
    values_ = {x};
    const int64_t parts = 2 + dice_.below(6);
    for (int64_t i = 0; i < parts; ++i) add(part());
    if (traits_.is_impure) add(b_.op1("counted", {last()}));
    lose();
    b_.output("y", last());
  }

 private:
  [[nodiscard]] int64_t width() const { return traits_.width; }
  [[nodiscard]] int64_t rows() const { return b_.rows(); }
  [[nodiscard]] Shape row_shape() const { return {rows(), width()}; }
  [[nodiscard]] const Tensor& last() const { return values_.back(); }
  void add(const Tensor& value) { values_.push_back(value); }
  Tensor any() {
    return values_[static_cast<size_t>(dice_.below(static_cast<int64_t>(values_.size())))];
  }
  std::string name() { return "part." + std::to_string(names_++); }
  Tensor weight(const Shape& shape) { return b_.parameter(name(), shape, InitRule::normal(0.7)); }
  double rate() { return 0.1 + 0.1 * static_cast<double>(dice_.below(5)); }

  Tensor part() {
    const int64_t kind = dice_.below(20);
    if (kind < 5) return usual();
    if (kind < 9) return without_rows();
    if (kind < 11) return by_phase();
    if (kind < 13) return own();
    if (kind < 16) return shaped();
    if (kind < 18) return shared();
    return coupled();
  }

  Tensor usual() {
    const Tensor x = any();
    switch (dice_.below(10)) {
      case 0:
        return tanh(linear(b_, name(), x, width()));
      case 1:
        return dropout(gelu(linear(b_, name(), x, width())), rate());
      case 2:
        return layer_norm(b_, name(), x + any());
      case 3:
        return tanh(x * any());
      case 4:
        return softmax(x - any());
      case 5:
        return exp(-(x * x));
      case 6:
        return x * rsqrt(x * x + fill(b_, 1, {1}));
      case 7:
        return x + gather_rows(weight({kWords, width()}), ids_);
      case 8:
        return where(less(x, any()), x, sigmoid(x));
      default:
        return x * cast(greater(x, fill(b_, 0.1, {1})), DType::f32);
    }
  }

  // Values that no row is behind, or one mask for all rows.
  Tensor without_rows() {
    const Tensor x = any();
    switch (dice_.below(10)) {
      case 0:
        return x + dropout(weight({1, width()}), rate());
      case 1:
        return x * dropout(b_.parameter(name(), {width()}, InitRule::ones()), rate());
      case 2:
        return x * dropout(fill(b_, 1, {1, width()}), rate());
      case 3:
        return tanh(matmul(x, dropout(weight({width(), width()}), rate())));
      case 4:
        return x + reduce_sum(dropout(weight({4, width()}), rate()), {0}, true);
      case 5:
        return x * dropout(fill(b_, 1, row_shape()), rate());
      case 6:
        return x + dropout(broadcast_to(weight({width()}), row_shape()), rate());
      case 7:
        return x + gather_rows(dropout(weight({kWords, width()}), rate()), ids_);
      case 8: {
        const Tensor product = tanh(matmul(weight({3, 4}), dropout(weight({4, width()}), rate())));
        return x * reduce_mean(dropout(product, rate()), {0}, true);
      }
      default:
        return x * b_.buffer(name(), {width()}, InitRule::ones());
    }
  }

  Tensor by_phase() {
    const Tensor x = any();
    const int64_t kind = dice_.below(6);
    const bool trains = b_.training();
    if (kind == 0) return trains ? 2.0 * dropout(x, 0.5) : 2.0 * x;
    if (kind == 1) return trains ? x : x - reduce_mean(x, {0}, true);
    if (kind == 2) return trains ? x - reduce_mean(x, {0}, true) : x;
    const std::string part_name = name();
    const Tensor y = linear(b_, part_name, x, width());
    if (kind == 3) return trains ? tanh(y) : y * sigmoid(y);
    const Tensor w = weight({1, width()});
    if (kind == 4) return trains ? y + dropout(w, 0.3) : y + w;
    return trains ? tanh(y) + w : tanh(y);
  }

  Tensor own() {
    const Tensor x = any();
    switch (dice_.below(6)) {
      case 0:
      case 1:
        return tanh(b_.op1("own_square", {x}));
      case 2:
      case 3:
        return b_.training() ? b_.op1("own_noise", {x, b_.random_key()}) : x;
      case 4: {
        const Tensor w = weight({1, width()});
        return x + (b_.training() ? b_.op1("own_noise", {w, b_.random_key()}) : w);
      }
      default:
        return x - b_.op1("own_mean", {x});
    }
  }

  Tensor shaped() {
    const Tensor x = any();
    const int64_t half = width() / 2;
    switch (dice_.below(11)) {
      case 0:
        return transpose(dropout(transpose(x, {1, 0}), rate()), {1, 0});
      case 1:
        return reshape(dropout(reshape(x, {rows() * width()}), rate()), row_shape());
      case 2:
        return reshape(tanh(linear(b_, name(), reshape(x, {rows() * 2, half}), half)), row_shape());
      case 3:
        return reshape(dropout(reshape(x, {rows() * 2, half}), rate()), row_shape());
      case 4:
        return linear(b_, name(), reduce_max(reshape(x, {rows(), 2, half}), {1}), width());
      case 5:
        return linear(b_, name(), concat({x, any()}, 1), width());
      case 6:
        return x + pad(slice(x, 1, 1, width()), 1, 0, 1);
      case 7: {
        const Tensor q = reshape(linear(b_, name(), x, width()), {rows(), 2, half});
        return reshape(attention(q, q, q, {}, {.heads = 1, .dropout = dice_.once_in(2) ? 0.2 : 0}),
                       row_shape());
      }
      case 8: {
        const LstmTensors state{.h = x, .c = tanh(any())};
        return lstm_cell(linear(b_, name(), x, 4 * width()), state).h;
      }
      case 9: {
        const Tensor image = reshape(x, {rows(), 2, 2, width() / 4});
        return reshape(relu(conv2d(b_, name(), image, width() / 4)), row_shape());
      }
      default: {
        const CheckpointedPart again(b_);
        return dropout(tanh(linear(b_, name(), x, width())), rate());
      }
    }
  }

  Tensor shared() {
    const Tensor x = any();
    const auto layer = [&](const Tensor& of) {
      const Scope scope(b_, "shared", Weights::shared);
      return linear(b_, "map", of, width());
    };
    if (dice_.once_in(2)) return tanh(layer(x));
    return layer(tanh(layer(x))) + x;
  }

  // Parts in which a row's result follows the other rows, or their number.
  Tensor coupled() {
    const Tensor x = any();
    switch (dice_.below(15)) {
      case 0:
        return x - reduce_mean(x, {0}, true);
      case 1:
        return softmax(x, 0);
      case 2:
        return matmul(softmax(matmul(x, x, {.transpose_b = true})), x);
      case 3:
        return x + slice(x, 0, 0, 1);
      case 4:
        return (1.0 / static_cast<double>(rows())) * x;
      case 5:
        return reshape(transpose(x, {1, 0}), row_shape());
      case 6:
        return batch_norm(b_, name(), x);
      case 7:
        return x + fill(b_, static_cast<double>(rows()), {1, width()});
      case 8:
        return x + pad(slice(x, 0, 0, rows() - 1), 0, 1, 0);
      case 9:
        return dropout(x, 0.05 * static_cast<double>(rows()));
      case 10:
        return layer_norm(b_, name(), x, 1e-2 * static_cast<double>(rows()));
      case 11:
        return slice(concat({fill(b_, 1, {1, width()}), x}, 0), 0, 0, rows());
      case 12: {
        const Tensor image = reshape(x, {1, rows(), width(), 1});
        return reshape(max_pool2d(upsample_nearest(image, 2)), row_shape());
      }
      case 13: {
        const Tensor q = reshape(x, {rows(), 2, width() / 2});
        return reshape(attention(q, q, q, {}, {.heads = rows() > 2 ? 1 : 2}), row_shape());
      }
      default:
        return x * reduce_max(tanh(x), {0}, true);
    }
  }

  // (rows, length, width), of what is there and what is filled up.
  Tensor sequence() {
    mask_ = b_.input("mask", {b_.length()}, DType::boolean);
    Tensor x = linear(b_, "in", b_.input("x", {b_.length(), width()}), width());
    const int64_t length = b_.length();
    if (dice_.once_in(2))
      x = x +
          dropout(slice(reshape(weight({kLong, width()}), {1, kLong, width()}), 1, 0, length), 0.2);
    const int64_t layers = dice_.below(3);
    for (int64_t i = 0; i < layers; ++i) {
      switch (dice_.below(4)) {
        case 0:
          x = x + attention(x, x, x, mask_, {.heads = 2, .dropout = dice_.once_in(2) ? 0.2 : 0});
          break;
        case 1:
          x = dropout(gelu(linear(b_, name(), x, width())), rate());
          break;
        case 2:
          x = layer_norm(b_, name(), x);
          break;
        default:
          x = x * reshape(cast(mask_, DType::f32), {rows(), length, 1});
          break;
      }
    }
    if (dice_.once_in(3))
      of_places_ = 0.5 * b_.cross_entropy(linear(b_, "tags", x, kClasses),
                                          b_.input("tags", {b_.length()}, DType::i32));
    return x;
  }

  Tensor pooled(const Tensor& x) {
    const int64_t length = b_.length();
    const Tensor real = reshape(cast(mask_, DType::f32), {rows(), length, 1});
    const Tensor scores = reshape(linear(b_, name(), x, 1), {rows(), 1, length});
    const int64_t kind = dice_.below(traits_.may_count_padding ? 14 : 7);
    switch (kind) {
      case 0:
        return reduce_sum(x * real, {1}) / reduce_sum(real, {1});
      case 1:
        return reshape(slice(x, 1, 0, 1), row_shape());
      case 2:
        return reshape(matmul(masked_softmax(scores, reshape(mask_, {rows(), 1, length})), x),
                       row_shape());
      case 3:
        return tanh(
            reduce_sum(where(reshape(mask_, {rows(), length, 1}), x, fill(b_, 0, {1})), {1}));
      case 4: {
        const Tensor far = 1e9 * (reshape(real, {rows(), 1, length}) - fill(b_, 1, {1}));
        return reshape(matmul(softmax(scores + far), x), row_shape());
      }
      case 5:
        return reduce_max(x + 1e9 * (real - fill(b_, 1, {1})), {1});
      case 6:
        return tanh(reshape(matmul(reshape(real, {rows(), 1, length}), x), row_shape()));
      case 7:
        return tanh(reduce_sum(x, {1}));
      case 8:
        return reduce_mean(x, {1});
      case 9:
        return reshape(matmul(softmax(scores), x), row_shape());
      case 10:
        return reduce_max(x, {1});
      case 11:
        return reshape(slice(x, 1, length - 1, length), row_shape());
      case 12:
        return tanh(reshape(matmul(scores, x), row_shape()));
      default: {
        const Tensor next = pad(slice(x, 1, 1, length), 1, 0, 1);
        return reduce_sum(next * real, {1}) / reduce_sum(real, {1});
      }
    }
  }

  void lose() {
    const Tensor y = last();
    Tensor loss = 0.1 * b_.weighted_mean(y * y);
    if (of_places_) loss = loss + of_places_;
    if (dice_.once_in(2))
      loss = loss + cross_entropy(b_, linear(b_, "classes", y, kClasses),
                                  b_.input("label", {}, DType::i32));
    if (dice_.once_in(2))
      loss = loss + 0.5 * mean_squared_error(b_, any(), b_.input("target", {width()}));
    if (dice_.once_in(2)) loss = loss + b_.weighted_mean(tanh(any()), b_.input("weight", {}));
    b_.minimize(dice_.once_in(20) ? static_cast<double>(rows()) * loss : loss);
  }

  NetworkBuilder& b_;
  const Traits& traits_;
  Dice dice_;
  int64_t names_ = 0;
  std::vector<Tensor> values_;
  Tensor ids_, mask_, of_places_;
};

}  // namespace

int64_t Dice::below(int64_t count) {
  state_ += 0x9E3779B97F4A7C15U;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(count));
}

Traits traits_of(uint64_t seed) {
  Dice dice(seed + 1000003);
  Traits traits{.seed = seed};
  traits.width = dice.once_in(3) ? 4 : 8;
  traits.has_length = dice.once_in(3);
  traits.is_impure = dice.once_in(20);
  traits.may_count_padding = traits.has_length && dice.once_in(3);
  return traits;
}

Network network_of(const Traits& traits) {
  Network network("odd " + std::to_string(traits.seed),
                  [traits](NetworkBuilder& b) { Drawing(b, traits).build(); });
  for (const auto& op : own_ops()) network.add(op);
  return network;
}

Batch::Batch(const Traits& traits, int64_t rows, int64_t length, uint64_t seed)
    : count_(rows), length_(traits.has_length ? length : 0) {
  Dice dice(seed);
  const auto real = [&] { return 0.01F * static_cast<float>(dice.below(401)) - 2; };
  const int64_t places = traits.has_length ? length : 1;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t there = row == 0 ? places : 1 + dice.below(places);
    for (int64_t place = 0; place < places; ++place) {
      const bool is_there = place < there;
      for (int64_t i = 0; i < traits.width; ++i) x_.push_back(is_there ? real() : 0);
      mask_.push_back(is_there ? 1 : 0);
      tags_.push_back(is_there ? static_cast<int32_t>(dice.below(kClasses)) : -100);
    }
    for (int64_t i = 0; i < traits.width; ++i) target_.push_back(real());
    ids_.push_back(static_cast<int32_t>(dice.below(kWords)));
    label_.push_back(row > 0 && dice.once_in(6) ? -100
                                                : static_cast<int32_t>(dice.below(kClasses)));
    weight_.push_back(row > 0 && dice.once_in(4) ? 0
                                                 : 0.25F * static_cast<float>(1 + dice.below(8)));
  }
}

Rows Batch::rows(const Session& session) const {
  Rows rows(count_, length_ > 0 ? Lengths(length_) : Lengths());
  const auto add = [&](const char* name, const auto& values) {
    if (session.has_input(name)) rows.add(name, std::span(values));
  };
  add("x", x_);
  add("weight", weight_);
  add("target", target_);
  add("ids", ids_);
  add("label", label_);
  add("tags", tags_);
  add("mask", mask_);
  return rows;
}

}  // namespace snug::odd
