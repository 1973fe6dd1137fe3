// SPDX-License-Identifier: Apache-2.0
// For the cases of optimizers' steps.
#pragma once

#include "ops/op_case.h"

namespace snug {

/// Learning rate 0.01 in the third update with betas 0.9 and 0.999.
inline CaseInput step_hyper() { return f32_values({4}, {0.01, 0.271, 0.002997001, 0}); }
/// The same, of an update that is skipped.
inline CaseInput skipping_hyper() { return f32_values({4}, {0.01, 0.271, 0.002997001, 1}); }

/// The cases, which name no row_of, and beside each that is no error the same with a row-sparse
/// gradient, with coded states, by both codecs, and with weights in fewer bits.
[[nodiscard]] std::vector<OpCase> with_coded_states(std::vector<OpCase> cases);
/// The cases of steps that have no such forms, and before each that is no error the same with
/// weights in fewer bits.
[[nodiscard]] std::vector<OpCase> with_coded_weights(std::vector<OpCase> cases);

}  // namespace snug
