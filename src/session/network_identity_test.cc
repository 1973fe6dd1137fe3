// SPDX-License-Identifier: Apache-2.0
// A saved session goes on with its own network, and not with another one whose weights have the
// same names and shapes.
#include <gtest/gtest.h>

#include "io/atomic_folder.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "session/testing.h"
#include "snug/error.h"
#include "snug/layers.h"
#include "snug/recompute.h"
#include "snug/session.h"

namespace snug::session {
namespace {

Network network_with(const std::string& activation, bool is_marked = false, double rate = 0.1) {
  return {"net", [=](NetworkBuilder& b) {
            Tensor x = linear(b, "first", b.input("x", {16}), 64);
            x = b.op1(activation, {x});
            x = dropout(is_marked ? keep(x) : x, rate);
            b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
          }};
}

SessionOptions options_of() {
  return {.batch_rows = 12, .memory = parse_memory("64MiB"), .micro_batch_size = 4, .threads = 1};
}

TEST(Network_identity, is_compared_when_a_session_goes_on) {
  const io::TestFolder folder;
  const std::string saved = folder / "saved";
  Session(network_with("relu"), options_of()).save(saved);
  (void)Session::resume(network_with("relu"), saved, options_of());
  (void)Session::resume(network_with("relu", true), saved, options_of());
  const auto said = [&](const Network& other) {
    return refusal([&] { (void)Session::resume(other, saved, options_of()); },
                   ErrorCode::bad_config);
  };
  EXPECT_NE(said(network_with("tanh")).find("0 x relu where it had 1, 1 x tanh where it had 0"),
            std::string::npos);
  EXPECT_NE(said(network_with("relu", false, 0.2)).find("other attributes"), std::string::npos);
}

TEST(Network_identity, is_not_known_of_a_session_that_was_saved_before_it) {
  const io::TestFolder folder;
  const std::string saved = folder / "saved";
  const std::string older = folder / "older";
  Session(network_with("relu"), options_of()).save(saved);
  std::string state = io::read_all(saved + "/session.json", 1 << 20);
  const size_t place = state.find("\"identity\"");
  ASSERT_NE(place, std::string::npos);
  state.replace(place, 10, "\"unread\"");
  io::AtomicFolder target(older);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    (void)io::copy_file(saved + "/" + name, target.file(name));
  target.write("session.json", state);
  target.commit();
  (void)Session::resume(network_with("tanh"), older, options_of());
}

}  // namespace
}  // namespace snug::session
