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
  text << kGroups;
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
