// SPDX-License-Identifier: Apache-2.0
// docs/optimizers.md is made from the list of optimizers; SNUG_UPDATE_DOCS=1 renews it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ops/optimizer/optimizers.h"
#include "optim/optimizer.h"

namespace snug::optim {
namespace {

constexpr const char* kIntroduction = R"(# Optimizers

<!-- This file is generated. To renew it: SNUG_UPDATE_DOCS=1 build/release/src/optim/optim_test -->

`optim` names one. A hyper-parameter is set by its key (docs/configuration.md), or by `optim_args: name=value` where it has none; left alone it has the
default below. A key that the optimizer has no use for is refused. Formulas stand at the head of `src/ops/NAME/NAME.cc`; every one is compared with
PyTorch, transformers' Adafactor or its paper's formulas over 20 updates (`tests/nn/optimizer_parity_test.cc`).

Biases, other vectors and the weights of norms do not decay, and have no rate of their own by norms in lamb and lars. The decay is a part of the gradient in sgd, adam,
rmsprop, adagrad and lars; it is apart from it in adamw, lamb, lion and adafactor.

States are listed for a weight of 512 x 256, in elements, with the hyper-parameters at their defaults; sgd and rmsprop keep a `momentum` more where
that is above 0.

| optimizer | states | hyper-parameters |
|---|---|---|
)";

constexpr const char* kGroups = R"(
## Groups of weights

`param_groups` gives weights a learning rate or a decay of their own. In YAML:

```yaml
param_groups:
  - {match: "classifier.*", learning_rate: 1.0e-3}
  - {match: "*.bias", weight_decay: 0}
```

and on the command line as JSON: `--param_groups '[{"match": "classifier.*", "learning_rate": 1e-3}]'`. `match` is a pattern of weight names (`snug inspect
--weights` lists them), in which * stands for any text; the first group that matches a weight counts; a field that is left out is the run's. A pattern that
matches no weight is refused, as is one whose weights all belong to groups before it. `lr` in the log is the run's rate, not a group's.

`layerwise_lr_decay: 0.9` multiplies the rate by 0.9 for each layer below the topmost, embeddings last; a rate of a group is taken as it stands. Frozen
weights count as layers. Both may change on resume, and the change is logged.

## Gradients of tables of embeddings

A batch names few rows of a large table. Where at most half of its rows can occur, its gradient holds only those that do, and which row each of them is (PyTorch
calls such a gradient sparse). The update is that of the whole gradient, to the bit: moments decay in every row. Of a table of 128,100 x 768 and a batch of 8 x 256
tokens 6 MiB are made and not 375, also where the batch is split into micro-batches, whose gradients are summed up in those rows. This needs no key. Whole are the
gradients of a table that another layer shares, and with adafactor, which sums over rows and columns.
)";

constexpr const char* kBits = R"(
## States in 8 bits

`optim_bits: 8` stores every state that has its weight's size as a code of 8 bits an element and a scale (f32) a block of 256: 25.4 % of the bytes. It changes
results, so nothing takes it unasked. The step decodes a block, updates it in f32 and codes it again in one pass; there is no copy in 32 bits. States of fewer
than 4096 elements and of tables of embeddings stay in 32 bits; `optim_bits_overrides` decides otherwise by name pattern, the first match wins:

```yaml
optim_bits: 8
optim_bits_overrides:
  - {match: "*embeddings.word*", bits: 8}
  - {match: "classifier.*", bits: 32}
```

`optim_codec: default` is Snug's own: a code is a floating-point number whose exponent has as many bits as the spread of its block asks for, so small numbers beside
large ones keep their relative precision; rounding is dithered by a sequence over elements and updates, so a state that moves by
less than a step an update moves on the average by what it should. `bnb` is bitsandbytes' dynamic map, code for code what its package computes on a CPU (but for blocks of zeros only, which decode to zeros from either code).
`src/ops/optimizer/optimizer_codec.h` defines both; docs/results.md compares them.

sgd without momentum and adafactor have no such states: there `optim_bits: 8` is refused. The three keys stay as a run began with them. A plan lists every
state with its codec and bytes (`states` of `snug plan --json`); a checkpoint holds `ROLE.WEIGHT.codes` (u8) and `ROLE.WEIGHT.scales`.
)";

constexpr const char* kScaling = R"(
## Loss scaling

`loss_scale` is what the backward pass begins with instead of 1, so that the gradients of types with few exponents keep clear of their smallest numbers. It is taken out again before
gradients are measured, clipped and used: the logged loss and norm are without it, and a power of two changes no bit of a weight as long as no gradient is
subnormal. The kinds:

| `loss_scale` | begins with | grows | falls | no lower than |
|---|---|---|---|---|
| `none` | 1 | | | |
| a number | itself | | | |
| `dynamic` (torch.amp.GradScaler) | 65536 | x 2 behind 2000 updates in a row | x 0.5 behind each overflow | 2^-126 |
| `dynamic_paddle` (Paddle's AMP) | 32768 | x 2 behind 1000 updates in a row | x 0.8 behind two overflows in a row | 1 |

`loss_scale_min` is another floor. Under a dynamic scale an update with a gradient that is infinite or NaN, in any of its micro-batches, is skipped: weights,
states, counts of the schedule and of the corrections, decay and running statistics are bit for bit as before, and only the scale moves. It is said, and counted in
`metrics.jsonl`. An overflow at the floor, under a number or under `none` ends the run with exit code 3. Since an overflow that is found late must not have
moved anything, gradients under a dynamic scale wait for each other as they do for `max_grad_norm`, also without it; what running statistics were before an update
is kept beside them. The scale and its counts are a part of a checkpoint. Both keys may change on resume: a run that changes to a dynamic scale begins
with its first, one that changes from one kind to the other keeps what it had, and a floor that was raised lifts a scale that lies below it.
)";

std::string page() {
  std::ostringstream text;
  text << kIntroduction;
  for (const Optimizer* each : optimizers()) {
    text << "| `" << *each->name << "` | ";
    std::string separator;
    for (const NamedState& state : states_of(make_options(*each->name), "P", {512, 256})) {
      text << separator << "`" << state.name.substr(0, state.name.find('.')) << "` "
           << element_count(state.type);
      separator = ", ";
    }
    text << (separator.empty() ? "none" : "") << " | ";
    separator.clear();
    for (const HyperParameter& parameter : *each->parameters) {
      text << separator << parameter.name << " " << parameter.default_value << " ("
           << (parameter.key.empty() ? "`optim_args`" : "`" + parameter.key + "`") << ")";
      separator = ", ";
    }
    text << (separator.empty() ? "none" : "") << " |\n";
  }
  text << kGroups << kBits << kScaling;
  return text.str();
}

TEST(Optimizers, the_page_is_that_of_the_list) {
  const std::string path = std::string(SNUG_SOURCE_DIR) + "/docs/optimizers.md";
  if (std::getenv("SNUG_UPDATE_DOCS") != nullptr) std::ofstream(path) << page();
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  EXPECT_EQ(found.str(), page()) << "renew it: SNUG_UPDATE_DOCS=1 optim_test";
}

}  // namespace
}  // namespace snug::optim
