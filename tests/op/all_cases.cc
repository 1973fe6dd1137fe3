// SPDX-License-Identifier: Apache-2.0
#include "op/all_cases.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <ostream>

namespace snug {

#define SNUG_OP_FAMILY(family) std::vector<OpCase> family##_cases();
#include "op_families_test.inc"
#undef SNUG_OP_FAMILY

const std::vector<OpCase>& all_op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    const auto append = [&all](std::vector<OpCase> family) {
      std::move(family.begin(), family.end(), std::back_inserter(all));
    };
#define SNUG_OP_FAMILY(family) append(family##_cases());
#include "op_families_test.inc"
#undef SNUG_OP_FAMILY
    return all;
  }();
  return cases;
}

std::vector<OpCase> good_op_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : all_op_cases()) {
    if (c.error == ErrorCode::ok) cases.push_back(c);
  }
  return cases;
}

std::vector<OpCase> bad_op_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : all_op_cases()) {
    if (c.error != ErrorCode::ok) cases.push_back(c);
  }
  return cases;
}

std::string test_name(const OpCase& op_case) {
  std::string name = op_case.op + "_" + op_case.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

void PrintTo(const OpCase& op_case, std::ostream* out) {
  *out << op_case.op << " " << op_case.name;
}

}  // namespace snug
