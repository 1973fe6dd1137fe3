// SPDX-License-Identifier: Apache-2.0
// What the tests of sessions share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "snug/error.h"

namespace snug {

/// The text of the error that the call ends with; a failure where it is of another code, or none.
inline std::string refusal(const std::function<void()>& call,
                           ErrorCode code = ErrorCode::bad_config) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

}  // namespace snug
