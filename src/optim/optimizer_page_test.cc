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
