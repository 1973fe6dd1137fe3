// SPDX-License-Identifier: Apache-2.0
// The point-wise part of an LSTM's step; the products with the weights are matmul's. B rows, H
// hidden size.
//
// lstm_cell(gates (B, 4H), c (B, H), h (B, H), mask (B)) -> h_next, c_next (B, H each)
//   gates holds the four pre-activations of a row one after another, in PyTorch's order i, f, g, o:
//   i = sigmoid, f = sigmoid, g = tanh, o = sigmoid of them
//   where mask is true:  c_next = f c + i g, h_next = o tanh(c_next)
//   elsewhere:           c_next = c, h_next = h; a row that has ended keeps its last state, as a
//                        packed sequence does
// lstm_cell_grad(gates, c, mask, dh_next?, dc_next?) -> dgates (B, 4H), dc, dh (B, H each)
//   makes the activations again from gates and c; an absent gradient is zero. With
//   e = dc_next + dh_next o (1 - tanh(c_next)^2), where mask is true
//     dgates = (e g i (1 - i), e c f (1 - f), e i (1 - g^2), dh_next tanh(c_next) o (1 - o)),
//     dc = e f, dh = 0
//   elsewhere dgates = 0, dc = dc_next, dh = dh_next. Not differentiable.
// The gradient keeps gates, c and mask.
//
// Design: the mask is a part of the op, not two `where` around it, because those would make both
// states of every step a second time. The activations are not an output: one hidden size of
// transcendental functions is cheaper than to keep five, and `gates` alone decides what is made
// again.
#pragma once

#include "graph/builder.h"

namespace snug {

struct LstmState {
  ValueId h = kNone;
  ValueId c = kNone;
};
[[nodiscard]] LstmState lstm_cell(GraphBuilder& builder, ValueId gates, LstmState state,
                                  ValueId mask);

}  // namespace snug
