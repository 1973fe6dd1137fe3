// SPDX-License-Identifier: Apache-2.0
// A network whose rows depend on each other is found out, and one whose rows do not is left alone.
#include <gtest/gtest.h>

#include "network/facts.h"
#include "snug/custom_op.h"
#include "snug/error.h"
#include "snug/layers.h"

namespace snug::network {
namespace {

constexpr int64_t kLength = 6;
constexpr int64_t kWidth = 8;

/// The coupling of a network that takes the mean of what `part` makes of (rows, length, width).
std::string coupling_of(const std::function<Tensor(NetworkBuilder&, const Tensor&)>& part) {
  const Network network("part", [&](NetworkBuilder& b) {
    const Tensor x = linear(b, "in", b.input("x", {kLength, kWidth}), kWidth);
    b.minimize(b.weighted_mean(part(b, x)));
  });
  return describe_network(network, {}).def.coupling;
}

TEST(RowCoupling, what_works_row_by_row_couples_nothing) {
  using B = NetworkBuilder;
  const std::vector<std::function<Tensor(B&, const Tensor&)>> parts = {
      [](B&, const Tensor& x) { return gelu(x) + x * x; },
      [](B& b, const Tensor& x) { return layer_norm(b, "norm", x); },
      [](B&, const Tensor& x) { return softmax(x, 1); },
      [](B&, const Tensor& x) { return dropout(x, 0.5); },
      [](B&, const Tensor& x) { return reduce_mean(x, {1}); },
      [](B&, const Tensor& x) { return attention(x, x, x, {}, {.heads = 2, .dropout = 0.1}); },
      [](B& b, const Tensor& x) {
        const Tensor flat = linear(b, "flat", reshape(x, {b.rows() * kLength, kWidth}), 4);
        return reshape(flat, {b.rows(), kLength, 4});
      },
      [](B&, const Tensor& x) {
        const Tensor scores = matmul(x, x, {.transpose_b = true});
        return matmul(masked_softmax(scores, greater(scores, scores)), x);
      },
      [](B& b, const Tensor& x) {  // time first, as recurrent nets like it
        const Tensor turned = transpose(x, {1, 0, 2});
        const Tensor first = reshape(slice(turned, 0, 0, 1), {b.rows(), kWidth});
        return concat({first, first}, 1);
      },
      [](B& b, const Tensor& x) {
        const Tensor places = b.parameter("places", {1, kLength, kWidth}, InitRule::ones());
        return x + broadcast_to(places, {b.rows(), kLength, kWidth});
      },
      [](B& b, const Tensor& x) {
        const Tensor image = reshape(x, {b.rows(), kLength, kWidth, 1});
        return max_pool2d(conv2d(b, "conv", image, 3));
      },
      [](B& b, const Tensor& x) {
        const Tensor h = slice(x, 1, 0, 1);
        const Tensor state = reshape(slice(h, 2, 0, 2), {b.rows(), 2});
        return lstm_cell(reshape(h, {b.rows(), kWidth}), {state, state}).h;
      },
      [](B& b, const Tensor& x) {  // one mask for all rows, and one for each
        const Tensor places = b.parameter("places", {1, kLength, kWidth}, InitRule::ones());
        return x + dropout(places, 0.5) * dropout(fill(b, 1, {b.rows(), 1, 1}), 0.5);
      },
      [](B& b, const Tensor& x) {  // rows of a table, with weights of their own
        const Tensor ids = b.input("ids", {kLength}, DType::i32);
        return embedding_sum(b, "words", ids, reduce_mean(x, {2}), 9, kWidth);
      },
      [](B& b, const Tensor& x) {  // as many of the same number as there are rows
        return x + fill(b, 1, {b.rows(), 1, 1}) +
               reshape(fill(b, 2, {b.rows() * kLength}), {b.rows(), kLength, 1});
      },
  };
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(coupling_of(parts[i]), "") << i;
}

TEST(RowCoupling, what_mixes_rows_is_named) {
  using B = NetworkBuilder;
  const std::vector<std::pair<std::string, std::function<Tensor(B&, const Tensor&)>>> parts = {
      {"reduce_mean", [](B&, const Tensor& x) { return x - reduce_mean(x, {0}, true); }},
      {"softmax", [](B&, const Tensor& x) { return softmax(x, 0); }},
      {"embedding_sum",
       [](B& b, const Tensor& x) {
         const Tensor ids = b.input("ids", {kLength}, DType::i32);
         const Shape all = {1, b.rows() * kLength};
         const Tensor weights = reshape(reduce_mean(x, {2}), all);
         return x + embedding_sum(b, "words", reshape(ids, all), weights, 9, kWidth);
       }},
      {"matmul",
       [](B& b, const Tensor& x) {
         const Tensor flat = reshape(x, {b.rows(), kLength * kWidth});
         return matmul(flat, flat, {.transpose_b = true});
       }},
      {"slice",
       [](B& b, const Tensor& x) {
         const Tensor first = slice(x, 0, 0, 1);
         return x + broadcast_to(first, {b.rows(), kLength, kWidth});
       }},
      {"reshape",
       [](B& b, const Tensor& x) {
         const Tensor turned = transpose(x, {1, 0, 2});
         return reshape(turned, {b.rows(), kLength, kWidth});
       }},
      {"matmul",
       [](B& b, const Tensor& x) {
         const Tensor flat = reshape(x, {b.rows(), kLength * kWidth});
         const Tensor table = matmul(flat, flat, {.transpose_a = true});
         return matmul(flat, table);
       }},
      {"normalises", [](B& b, const Tensor& x) { return batch_norm(b, "norm", x); }},
      // What follows the number of rows without coming from them.
      {"slice",
       [](B& b, const Tensor& x) {
         const Tensor places = b.parameter("places", {64, 1, 1}, InitRule::ones());
         return x * slice(places, 0, 0, b.rows());
       }},
      {"reduce_sum",
       [](B& b, const Tensor& x) {
         return x + reduce_sum(fill(b, 1, {b.rows(), 1, 1}), {0}, true);
       }},
      {"computes with the number of its rows: value of",
       [](B& b, const Tensor& x) {
         return x * fill(b, 1.0 / static_cast<double>(b.rows()), {1, 1, 1});
       }},
      {"is built of other ops for another number of rows",
       [](B& b, const Tensor& x) { return b.rows() > 4 ? x * x : x; }},
      {"computes with the number of its rows: heads of",
       [](B& b, const Tensor& x) {
         return attention(x, x, x, {}, {.heads = b.rows() > 4 ? 2 : 4});
       }},
      {"computes with the number of its rows: axis of",
       [](B& b, const Tensor& x) {
         return softmax(reshape(x, {b.rows(), kLength, kWidth}), b.rows() > 4 ? 1 : 2);
       }},
      {"computes with the number of its rows: start of",
       [](B& b, const Tensor& x) {
         const int64_t first = b.rows() > 4 ? 0 : 1;
         return x * slice(x, 1, first, first + 1);
       }},
      {"computes with the number of its rows: start of",  // of a table
       [](B& b, const Tensor& x) {
         const Tensor places = b.parameter("places", {64, 1, 1}, InitRule::ones());
         return x * slice(places, 0, b.rows(), b.rows() + 1);
       }},
      {"broadcast_to",  // an axis beside that of the rows
       [](B& b, const Tensor& x) {
         const Tensor wide = broadcast_to(reshape(x, {b.rows(), 1, kLength * kWidth}),
                                          {b.rows(), b.rows(), kLength * kWidth});
         return reduce_sum(wide, {1});
       }},
      {"attention, which draws anew for each micro-batch",  // of what is the same for all rows
       [](B& b, const Tensor& x) {
         const Tensor queries = b.parameter("queries", {1, kLength, kWidth}, InitRule::ones());
         return x + attention(queries, queries, queries, {}, {.heads = 2, .dropout = 0.1});
       }},
  };
  for (const auto& [name, part] : parts) {
    const std::string coupling = coupling_of(part);
    EXPECT_NE(coupling.find(name), std::string::npos) << name << ": '" << coupling << "'";
  }
}

std::string coupling_of_gradient(bool mixes_rows) {
  const auto op = std::make_shared<CustomOp>();
  op->name = "passed";
  op->inputs = {"x"};
  op->infer = [](std::span<const TensorType> inputs, const Attrs&) {
    return std::vector<TensorType>{inputs[0]};
  };
  op->run = [](const OpCall&) {};
  op->gradient = [=](const GradientCall& call) {
    const Tensor& g = call.gradients[0];
    return std::vector<Tensor>{mixes_rows ? g - reduce_mean(g, {0}, true) : g + g};
  };
  Network network("part", [](NetworkBuilder& b) {
    const Tensor x = linear(b, "in", b.input("x", {kLength, kWidth}), kWidth);
    b.minimize(b.weighted_mean(b.op1("passed", {x})));
  });
  network.add(op);
  return describe_network(network, {}).def.coupling;
}

TEST(RowCoupling, the_gradient_of_a_program_s_own_op_is_followed) {
  EXPECT_EQ(coupling_of_gradient(false), "");
  const std::string coupling = coupling_of_gradient(true);
  EXPECT_NE(coupling.find("in the gradient of"), std::string::npos) << coupling;
}

TEST(RowCoupling, what_the_caller_says_stands) {
  EXPECT_EQ(coupling_of([](NetworkBuilder& b, const Tensor& x) {
              b.couples_rows("sorts its rows");
              return x;
            }),
            "sorts its rows");
}

}  // namespace
}  // namespace snug::network
