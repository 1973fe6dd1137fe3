// SPDX-License-Identifier: Apache-2.0
// An error as JSON text; a refusal with all that the planner knows.
#pragma once

#include <string>
#include <utility>

#include "snug/does_not_fit.h"
#include "snug/error.h"

namespace snug::c_api {

/// A refusal beside which stands what was found all the same.
class ReportedRefusal : public DoesNotFit {
 public:
  ReportedRefusal(const DoesNotFit& refusal, std::string report)
      : DoesNotFit(refusal), report_(std::move(report)) {}
  [[nodiscard]] const std::string& report() const { return report_; }  // JSON

 private:
  std::string report_;
};

/// {"error": ...} as snug/snug_c.h has it.
[[nodiscard]] std::string error_text(const Error& error);

}  // namespace snug::c_api
