// SPDX-License-Identifier: Apache-2.0
#include "ops/op_case.h"

namespace snug {
namespace {

Attrs ints(const char* name, std::vector<int64_t> value) { return {{name, std::move(value)}}; }
Attrs part(int64_t axis, int64_t start, int64_t stop) {
  return {{"axis", axis}, {"start", start}, {"stop", stop}};
}
Attrs zeros(int64_t axis, int64_t before, int64_t after) {
  return {{"axis", axis}, {"before", before}, {"after", after}};
}

}  // namespace

std::vector<OpCase> shape_cases() {
  const auto good = [](const char* op, std::string name, Shape x, Attrs attrs) {
    return OpCase{.op = op,
                  .name = std::move(name),
                  .inputs = {f32_normal(std::move(x))},
                  .attrs = std::move(attrs),
                  .is_exact_on_integers = true};
  };
  const auto integral = [](const char* op, std::string name, CaseInput x, Attrs attrs) {
    return OpCase{.op = op,
                  .name = std::move(name),
                  .inputs = {std::move(x)},
                  .attrs = std::move(attrs),
                  .differentiated_outputs = {}};
  };
  const auto bad = [](const char* op, std::string name, Shape x, Attrs attrs, std::string text) {
    return OpCase{.op = op,
                  .name = std::move(name),
                  .inputs = {f32_normal(std::move(x))},
                  .attrs = std::move(attrs),
                  .error = ErrorCode::shape_mismatch,
                  .error_text = std::move(text)};
  };
  const auto join = [](std::string name, std::vector<CaseInput> parts, int64_t axis) {
    return OpCase{.op = "concat",
                  .name = std::move(name),
                  .inputs = std::move(parts),
                  .attrs = {{"axis", axis}},
                  .is_exact_on_integers = true};
  };
  std::vector<OpCase> cases = {
      good("reshape", "flat", {2, 3, 4}, ints("shape", {24})),
      good("reshape", "open", {2, 3, 4}, ints("shape", {4, -1})),
      good("reshape", "scalar", {1, 1}, ints("shape", {})),
      good("reshape", "empty", {0, 4}, ints("shape", {-1, 4})),
      integral("reshape", "i32", i32_between({6}, 0, 9), ints("shape", {2, 3})),
      bad("reshape", "count", {2, 3}, ints("shape", {7}),
          "cannot reshape [2,3] to [7]: 6 and 7 elements"),
      bad("reshape", "two_open", {2, 3}, ints("shape", {-1, -1}), "more than one dim is -1"),
      bad("reshape", "no_size_fits", {2, 3}, ints("shape", {4, -1}),
          "no size fits the dim that is -1"),
      bad("reshape", "open_beside_zero", {0, 3}, ints("shape", {0, -1}),
          "no size fits the dim that is -1"),
      bad("reshape", "negative", {2, 3}, ints("shape", {-2, -3}), "a dim is out of range"),
      bad("reshape", "huge", {2, 3}, ints("shape", {1ll << 40, 1ll << 40}),
          "a dim is out of range"),

      good("transpose", "matrix", {3, 5}, ints("perm", {1, 0})),
      good("transpose", "heads", {2, 3, 4, 5}, ints("perm", {0, 2, 1, 3})),
      good("transpose", "cycle", {2, 3, 4}, ints("perm", {2, 0, 1})),
      good("transpose", "identity", {2, 3}, ints("perm", {0, 1})),
      good("transpose", "scalar", {}, ints("perm", {})),
      good("transpose", "ones", {1, 4, 1}, ints("perm", {2, 1, 0})),
      good("transpose", "large_odd", {67, 131}, ints("perm", {1, 0})),
      good("transpose", "large_heads", {3, 17, 4, 33}, ints("perm", {0, 2, 1, 3})),
      good("transpose", "empty", {0, 3}, ints("perm", {1, 0})),
      integral("transpose", "i32", i32_between({3, 5}, -9, 9), ints("perm", {1, 0})),
      integral("transpose", "bool", bool_random({3, 5}), ints("perm", {1, 0})),
      bad("transpose", "repeated", {2, 3}, ints("perm", {0, 0}),
          "perm [0,0] is not an order of the 2 dims of x [2,3]"),
      bad("transpose", "short", {2, 3}, ints("perm", {0}), "is not an order of the 2 dims"),
      bad("transpose", "out_of_range", {2, 3}, ints("perm", {0, 7}),
          "is not an order of the 2 dims"),

      good("slice", "first_axis", {5, 3}, part(0, 1, 4)),
      good("slice", "last_axis", {5, 3}, part(-1, 1, 3)),
      good("slice", "middle_axis", {2, 5, 3}, part(1, 4, 5)),
      good("slice", "all", {5}, part(0, 0, 5)),
      good("slice", "nothing", {5, 3}, part(0, 2, 2)),
      good("slice", "long", {7, 1000}, part(1, 13, 900)),
      integral("slice", "i32", i32_between({4, 5}, 0, 9), part(1, 1, 3)),
      bad("slice", "beyond", {5, 3}, part(0, 1, 6), "[1, 6) is not a part of axis 0 of x [5,3]"),
      bad("slice", "backward", {5, 3}, part(0, 4, 2), "is not a part of axis 0"),
      bad("slice", "negative", {5, 3}, part(0, -1, 2), "is not a part of axis 0"),
      bad("slice", "axis", {5, 3}, part(2, 0, 1), "axis 2 is out of range for rank 2"),
      bad("slice", "of_a_scalar", {}, part(0, 0, 1), "axis 0 is out of range for rank 0"),

      good("pad", "first_axis", {2, 3}, zeros(0, 1, 2)),
      good("pad", "last_axis", {2, 3}, zeros(-1, 2, 0)),
      good("pad", "middle_axis", {2, 3, 2}, zeros(1, 1, 1)),
      good("pad", "nothing", {2, 3}, zeros(1, 0, 0)),
      good("pad", "of_nothing", {0, 3}, zeros(0, 1, 1)),
      good("pad", "long", {7, 900}, zeros(1, 13, 87)),
      integral("pad", "bool", bool_random({3, 5}), zeros(1, 1, 1)),
      bad("pad", "negative", {2, 3}, zeros(0, -1, 0), "padding of -1 and 0 is out of range"),
      bad("pad", "huge", {2, 3}, zeros(0, INT64_MAX, 1), "is out of range"),

      join("one", {f32_normal({2, 3})}, 0),
      join("two_rows", {f32_normal({2, 3}), f32_normal({1, 3})}, 0),
      join("three_columns", {f32_normal({2, 3}), f32_normal({2, 1}), f32_normal({2, 4})}, -1),
      join("middle", {f32_normal({2, 1, 3}), f32_normal({2, 2, 3})}, 1),
      join("with_nothing", {f32_normal({0, 3}), f32_normal({2, 3})}, 0),
      join("long", {f32_normal({5, 333}), f32_normal({5, 64})}, 1),
      {.op = "concat",
       .name = "i32",
       .inputs = {i32_between({2, 3}, 0, 9), i32_between({1, 3}, 0, 9)},
       .attrs = {{"axis", int64_t{0}}},
       .differentiated_outputs = {}},

      good("broadcast_to", "row", {3}, ints("shape", {4, 3})),
      good("broadcast_to", "column", {4, 1}, ints("shape", {4, 3})),
      good("broadcast_to", "scalar", {}, ints("shape", {2, 3})),
      good("broadcast_to", "middle", {2, 1, 3}, ints("shape", {2, 4, 3})),
      good("broadcast_to", "same", {2, 3}, ints("shape", {2, 3})),
      good("broadcast_to", "long", {1, 1000}, ints("shape", {5, 1000})),
      good("broadcast_to", "empty", {1, 3}, ints("shape", {0, 3})),
      integral("broadcast_to", "bool", bool_random({3, 1}), ints("shape", {2, 3, 4})),
      bad("broadcast_to", "smaller", {4, 3}, ints("shape", {3}), "[4,3] does not broadcast to [3]"),
      bad("broadcast_to", "other", {4, 3}, ints("shape", {4, 1}),
          "[4,3] does not broadcast to [4,1]"),
      bad("broadcast_to", "negative", {1}, ints("shape", {-3}), "[1] does not broadcast to [-3]"),

      good("sum_to", "row", {4, 3}, ints("shape", {3})),
      good("sum_to", "column", {4, 3}, ints("shape", {4, 1})),
      good("sum_to", "scalar", {4, 3}, ints("shape", {})),
      good("sum_to", "middle", {2, 4, 3}, ints("shape", {2, 1, 3})),
      good("sum_to", "ends", {2, 4, 3}, ints("shape", {4, 1})),
      good("sum_to", "same", {2, 3}, ints("shape", {2, 3})),
      good("sum_to", "long_rows", {130, 257}, ints("shape", {257})),
      good("sum_to", "long_scalar", {7, 1000}, ints("shape", {})),
      good("sum_to", "of_nothing", {0, 3}, ints("shape", {3})),
      bad("sum_to", "other", {4, 3}, ints("shape", {2}), "do not broadcast"),
      bad("sum_to", "larger", {3}, ints("shape", {4, 3}), "[4,3] does not broadcast to [3]"),
      bad("sum_to", "negative", {3}, ints("shape", {-1}), "[-1] does not broadcast to [3]"),
  };
  OpCase mixed = join("differ", {f32_normal({2, 3}), f32_normal({2, 4})}, 0);
  mixed.error = ErrorCode::shape_mismatch;
  mixed.error_text = "parts f32[2,3] and f32[2,4] differ in more than axis 0";
  cases.push_back(mixed);
  OpCase types = join("types_differ", {f32_normal({2, 3}), i32_between({2, 3}, 0, 1)}, 0);
  types.error = ErrorCode::shape_mismatch;
  types.error_text = "differ in more than axis 0";
  cases.push_back(types);
  OpCase none = join("no_parts", {}, 0);
  none.error = ErrorCode::invalid_graph;
  none.error_text = "op concat takes 1 or more inputs, not 0";
  cases.push_back(none);
  return cases;
}

}  // namespace snug
