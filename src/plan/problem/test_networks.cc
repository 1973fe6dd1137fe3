// SPDX-License-Identifier: Apache-2.0
// Problems of the sizes of real networks: a Transformer encoder and an unrolled LSTM.
#include <string>
#include <vector>

#include "plan/problem/test_maker.h"
#include "plan/problem/test_problems.h"

namespace snug::plan::testing {

namespace {

// One encoder layer forward and backward; m = matmul flops per second, e = element-wise bytes per
// second.
class EncoderMaker {
 public:
  explicit EncoderMaker(const EncoderShape& shape)
      : s_(shape), unit_(shape.tokens * shape.hidden * 4) {}

  Problem run() {
    maker_.scope = "embeddings";
    const StorageId ids = maker_.storage("input_ids", s_.tokens * 4, true);
    const StorageId mask =
        maker_.make("mask", Phase::forward, elementwise(s_.tokens * 4), {ids}, s_.tokens * 4);
    const StorageId table = maker_.storage("word", 30522 * s_.hidden * 4, true);
    const StorageId word =
        maker_.make("embedding", Phase::forward, elementwise(2 * unit_), {ids, table}, unit_);
    const StorageId position =
        maker_.make("embedding_position", Phase::forward, elementwise(2 * unit_), {ids}, unit_);
    const StorageId sum =
        maker_.make("add", Phase::forward, elementwise(3 * unit_), {word, position}, unit_);
    Norm front = layer_norm(sum);
    StorageId x = front.y;
    std::vector<Layer> layers;
    for (int32_t i = 0; i < s_.layers; ++i) {
      maker_.scope = numbered("layer.", i);
      layers.push_back(layer_forward(x, mask));
      x = layers.back().ff_norm.y;
    }
    maker_.scope = "head";
    const int64_t rows = s_.tokens / 128 * s_.hidden * 4;
    const StorageId pooled =
        maker_.make("pooler", Phase::forward, elementwise(4 * rows), {x}, rows);
    const StorageId logits =
        maker_.make("classifier", Phase::forward, elementwise(rows), {pooled}, s_.tokens);
    const StorageId loss = maker_.make("loss", Phase::forward, 1e-6, {logits, ids}, 64);
    maker_.problem.keep = {loss};
    const StorageId dlogits =
        maker_.make("loss_grad", Phase::backward, 1e-6, {logits, ids}, s_.tokens);
    const StorageId dpooled =
        maker_.make("classifier_grad", Phase::backward, elementwise(rows), {dlogits, pooled}, rows);
    StorageId dx =
        maker_.make("pooler_grad", Phase::backward, elementwise(unit_), {dpooled, x}, unit_);
    for (int32_t i = s_.layers - 1; i >= 0; --i) {
      maker_.scope = numbered("layer.", i);
      dx = layer_backward(layers[static_cast<size_t>(i)], dx, mask);
    }
    maker_.scope = "embeddings";
    const StorageId dsum = layer_norm_grad(front, dx);
    weight_grad("embedding_grad", {dsum, ids}, table, 30522 * s_.hidden * 4,
                elementwise(2 * unit_));
    maker_.scope = "update";
    for (const auto& [w, g] : late_updates_) maker_.op("adamw", Phase::update, 1e-4, {w, g}, {w});
    return std::move(maker_.problem);
  }

 private:
  struct Norm {
    StorageId x, y, mean, rstd;
  };
  struct Layer {
    StorageId x, q, k, v, o, lse, h, g;
    StorageId wq, wk, wv, wo, w1, w2;
    Norm attention_norm, ff_norm;
  };

  [[nodiscard]] double matmul(double factor) const {
    return 2.0 * static_cast<double>(s_.tokens) * static_cast<double>(s_.hidden * s_.hidden) *
           factor / 450e9;
  }
  [[nodiscard]] static double elementwise(int64_t bytes) {
    return static_cast<double>(bytes) / 10e9;
  }

  Norm layer_norm(StorageId x) {
    Norm norm{x, maker_.storage(maker_.scope + "/norm.y", unit_),
              maker_.storage(maker_.scope + "/norm.mean", s_.tokens * 4),
              maker_.storage(maker_.scope + "/norm.rstd", s_.tokens * 4)};
    maker_.op("layer_norm", Phase::forward, elementwise(2 * unit_), {x},
              {norm.y, norm.mean, norm.rstd});
    return norm;
  }
  StorageId layer_norm_grad(const Norm& norm, StorageId dy) {
    return maker_.make("layer_norm_grad", Phase::backward, elementwise(3 * unit_),
                       {norm.x, norm.mean, norm.rstd, dy}, unit_);
  }
  StorageId weight(const char* name, int64_t factor) {
    return maker_.storage(maker_.scope + "/" + name, s_.hidden * s_.hidden * 4 * factor, true);
  }

  void weight_grad(const char* name, std::vector<StorageId> inputs, StorageId w, int64_t bytes,
                   double seconds) {
    const StorageId g = maker_.storage(maker_.scope + "/" + name, bytes, s_.accumulates);
    maker_.op(name, Phase::backward, seconds, std::move(inputs), {g});
    if (s_.accumulates || s_.updates_at_end) {
      late_updates_.emplace_back(w, g);
    } else {
      maker_.op("adamw", Phase::update, 1e-4, {w, g}, {w});
    }
  }

  Layer layer_forward(StorageId x, StorageId mask) {
    Layer l{};
    l.x = x;
    l.wq = weight("wq", 1), l.wk = weight("wk", 1), l.wv = weight("wv", 1), l.wo = weight("wo", 1);
    l.w1 = weight("w1", 4), l.w2 = weight("w2", 4);
    l.q = maker_.make("query", Phase::forward, matmul(1), {x, l.wq}, unit_);
    l.k = maker_.make("key", Phase::forward, matmul(1), {x, l.wk}, unit_);
    l.v = maker_.make("value", Phase::forward, matmul(1), {x, l.wv}, unit_);
    l.o = maker_.storage(maker_.scope + "/attention", unit_);
    l.lse = maker_.storage(maker_.scope + "/attention.lse", s_.tokens * s_.heads * 4);
    maker_.op("attention", Phase::forward, matmul(0.5), {l.q, l.k, l.v, mask}, {l.o, l.lse}, 65536);
    const StorageId p = maker_.make("proj", Phase::forward, matmul(1), {l.o, l.wo}, unit_);
    const StorageId pd = maker_.make("dropout", Phase::forward, elementwise(2 * unit_), {p}, unit_);
    l.attention_norm =
        layer_norm(maker_.make("add", Phase::forward, elementwise(3 * unit_), {x, pd}, unit_));
    l.h = maker_.make("ff1", Phase::forward, matmul(4), {l.attention_norm.y, l.w1}, 4 * unit_);
    l.g = maker_.make("gelu", Phase::forward, elementwise(8 * unit_), {l.h}, 4 * unit_);
    const StorageId f = maker_.make("ff2", Phase::forward, matmul(4), {l.g, l.w2}, unit_);
    const StorageId fd = maker_.make("dropout", Phase::forward, elementwise(2 * unit_), {f}, unit_);
    l.ff_norm = layer_norm(maker_.make("add", Phase::forward, elementwise(3 * unit_),
                                       {l.attention_norm.y, fd}, unit_));
    return l;
  }

  StorageId layer_backward(const Layer& l, StorageId dy, StorageId mask) {
    const auto add = [&](StorageId a, StorageId b) {
      return maker_.make("add_grad", Phase::backward, elementwise(3 * unit_), {a, b}, unit_);
    };
    const auto dropout = [&](StorageId a) {
      return maker_.make("dropout_grad", Phase::backward, elementwise(2 * unit_), {a}, unit_);
    };
    const auto linear = [&](const char* name, StorageId d, StorageId w, int64_t units,
                            double factor) {
      return maker_.make(name, Phase::backward, matmul(factor), {d, w}, units * unit_);
    };
    const int64_t square = s_.hidden * s_.hidden * 4;
    const StorageId ds = layer_norm_grad(l.ff_norm, dy);
    const StorageId df = dropout(ds);
    const StorageId dg = linear("ff2.dx", df, l.w2, 4, 4);
    weight_grad("ff2.dw", {df, l.g}, l.w2, 4 * square, matmul(4));
    const StorageId dh =
        maker_.make("gelu_grad", Phase::backward, elementwise(12 * unit_), {dg, l.h}, 4 * unit_);
    const StorageId dy1 = linear("ff1.dx", dh, l.w1, 1, 4);
    weight_grad("ff1.dw", {dh, l.attention_norm.y}, l.w1, 4 * square, matmul(4));
    const StorageId dt = layer_norm_grad(l.attention_norm, add(ds, dy1));
    const StorageId dp = dropout(dt);
    const StorageId d_o = linear("proj.dx", dp, l.wo, 1, 1);
    weight_grad("proj.dw", {dp, l.o}, l.wo, square, matmul(1));
    const StorageId dq = maker_.storage(maker_.scope + "/dq", unit_);
    const StorageId dk = maker_.storage(maker_.scope + "/dk", unit_);
    const StorageId dv = maker_.storage(maker_.scope + "/dv", unit_);
    maker_.op("attention_grad", Phase::backward, matmul(1.25),
              {l.q, l.k, l.v, l.o, l.lse, d_o, mask}, {dq, dk, dv}, 131072);
    StorageId dx = dt;
    const StorageId grads[] = {dq, dk, dv};
    const StorageId weights[] = {l.wq, l.wk, l.wv};
    for (int i = 0; i < 3; ++i) {
      const StorageId part = linear("qkv.dx", grads[i], weights[i], 1, 1);
      weight_grad("qkv.dw", {grads[i], l.x}, weights[i], square, matmul(1));
      dx = add(dx, part);
    }
    return dx;
  }

  EncoderShape s_;
  int64_t unit_;
  Maker maker_;
  std::vector<std::pair<StorageId, StorageId>> late_updates_;
};

}  // namespace

Problem encoder(const EncoderShape& shape) { return EncoderMaker(shape).run(); }

namespace {

constexpr double kFlopsPerSecond = 450e9;
constexpr double kBytesPerSecond = 30e9;  // a step's tensors fit in a cache

class RecurrentMaker {
 public:
  explicit RecurrentMaker(const RecurrentShape& shape)
      : s_(shape),
        unit_(shape.rows * shape.hidden * 4),
        gate_seconds_(8.0 * static_cast<double>(shape.rows * shape.hidden * shape.hidden) /
                      kFlopsPerSecond) {}

  Problem run() {
    ids_ = maker_.storage("input_ids", s_.rows * s_.steps * 4, true);
    maker_.scope = "start";
    std::vector<StorageId> h;
    std::vector<StorageId> c;
    for (int32_t l = 0; l < s_.layers; ++l) {
      input_weights_.push_back(maker_.storage("w_ih", 16 * s_.hidden * s_.hidden, true));
      state_weights_.push_back(maker_.storage("w_hh", 16 * s_.hidden * s_.hidden, true));
      h.push_back(maker_.make("fill", Phase::forward, elementwise(1), {}, unit_));
      c.push_back(maker_.make("fill", Phase::forward, elementwise(1), {}, unit_));
    }
    for (int32_t t = 0; t < s_.steps; ++t) {
      maker_.scope = numbered("step.", t);
      Step& step = steps_.emplace_back();
      step.mask = maker_.make("mask", Phase::forward, 1e-6, {ids_}, s_.rows);
      StorageId x = maker_.make("embedding", Phase::forward, elementwise(2), {ids_}, unit_);
      for (int32_t l = 0; l < s_.layers; ++l) {
        const auto layer = static_cast<size_t>(l);
        step.cells.push_back(forward(layer, x, h[layer], c[layer], step.mask));
        x = h[layer] = step.cells.back().h;
        c[layer] = step.cells.back().c;
      }
    }
    maker_.scope = "head";
    const StorageId loss = maker_.make("loss", Phase::forward, 1e-6, {h.back(), ids_}, 64);
    maker_.problem.keep = {loss};
    std::vector<StorageId> dh(h.size());
    std::vector<StorageId> dc(h.size());
    dh.back() = maker_.make("loss_grad", Phase::backward, 1e-6, {h.back(), ids_}, unit_);
    while (!steps_.empty()) {
      maker_.scope = numbered("step.", static_cast<int32_t>(steps_.size()) - 1);
      StorageId dx;
      for (size_t layer = steps_.back().cells.size(); layer-- > 0;) {
        if (dx != kNone) dh[layer] = sum(dh[layer], dx);
        dx = backward(layer, dh[layer], dc[layer]);
      }
      maker_.op("embedding_grad", Phase::backward, elementwise(2), {dx, ids_}, {gradients()});
      steps_.pop_back();
    }
    return std::move(maker_.problem);
  }

 private:
  struct Cell {
    StorageId x, h_before, c_before, gates, h, c;
  };
  struct Step {
    StorageId mask;
    std::vector<Cell> cells;
  };

  [[nodiscard]] double elementwise(int64_t units) const {
    return static_cast<double>(units * unit_) / kBytesPerSecond;
  }
  StorageId gradients() {
    if (gradients_ == kNone) gradients_ = maker_.storage("gradients", 64, true);
    return gradients_;
  }
  StorageId sum(StorageId a, StorageId b) {
    if (a == kNone) return b;
    return maker_.make("add", Phase::backward, elementwise(3), {a, b}, unit_);
  }

  Cell forward(size_t layer, StorageId x, StorageId h, StorageId c, StorageId mask) {
    Cell cell{x, h, c, kNone, kNone, kNone};
    const StorageId from_x = maker_.make("gates_x", Phase::forward, gate_seconds_,
                                         {x, input_weights_[layer]}, 4 * unit_);
    const StorageId from_h = maker_.make("gates_h", Phase::forward, gate_seconds_,
                                         {h, state_weights_[layer]}, 4 * unit_);
    cell.gates = maker_.make("gates", Phase::forward, elementwise(12), {from_x, from_h}, 4 * unit_);
    const StorageId h_new = maker_.storage(maker_.scope + "/h", unit_);
    const StorageId c_new = maker_.storage(maker_.scope + "/c", unit_);
    maker_.op("cell", Phase::forward, elementwise(7), {cell.gates, c}, {h_new, c_new});
    cell.h = maker_.make("where", Phase::forward, elementwise(3), {mask, h_new, h}, unit_);
    cell.c = maker_.make("where", Phase::forward, elementwise(3), {mask, c_new, c}, unit_);
    return cell;
  }

  // Gives the gradient of x; dh and dc become those of the step before.
  StorageId backward(size_t layer, StorageId& dh, StorageId& dc) {
    const StorageId mask = steps_.back().mask;
    const Cell& cell = steps_.back().cells[layer];
    const auto part = [&](StorageId d) {
      return maker_.make("where_grad", Phase::backward, elementwise(2), {d, mask}, unit_);
    };
    std::vector<StorageId> operands{cell.gates, cell.c_before};
    StorageId dh_past;
    StorageId dc_past;
    for (const auto& [d, past] : {std::pair{dh, &dh_past}, std::pair{dc, &dc_past}}) {
      if (d == kNone) continue;
      *past = part(d);
      operands.push_back(part(d));
    }
    const StorageId dgates = maker_.storage(maker_.scope + "/dgates", 4 * unit_);
    const StorageId dc_new = maker_.storage(maker_.scope + "/dc", unit_);
    maker_.op("cell_grad", Phase::backward, elementwise(13), operands, {dgates, dc_new});
    const auto weight_grad = [&](StorageId input) {
      maker_.op("weight_grad", Phase::backward, gate_seconds_, {dgates, input}, {gradients()});
    };
    const auto input_grad = [&](StorageId weights) {
      return maker_.make("input_grad", Phase::backward, gate_seconds_, {dgates, weights}, unit_);
    };
    weight_grad(cell.x);
    weight_grad(cell.h_before);
    dc = sum(dc_past, dc_new);
    dh = sum(dh_past, input_grad(state_weights_[layer]));
    return input_grad(input_weights_[layer]);
  }

  RecurrentShape s_;
  int64_t unit_;
  double gate_seconds_;
  Maker maker_;
  StorageId ids_;
  StorageId gradients_;
  std::vector<StorageId> input_weights_, state_weights_;
  std::vector<Step> steps_;
};

}  // namespace

Problem recurrent_net(const RecurrentShape& shape) { return RecurrentMaker(shape).run(); }

}  // namespace snug::plan::testing
