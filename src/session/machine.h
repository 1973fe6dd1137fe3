// SPDX-License-Identifier: Apache-2.0
// The backend that work is done on, made by name in one place.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/machine_limits.h"
#include "snug/session.h"

namespace snug {

struct Machine::Impl {
  int threads = 1;
  std::string name;
  std::unique_ptr<Backend> backend;
  MachineLimits limits = {};  // of its processor
};

}  // namespace snug
