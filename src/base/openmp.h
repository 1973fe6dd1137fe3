// SPDX-License-Identifier: Apache-2.0
// What is known of the process's OpenMP runtime.
#pragma once

namespace snug {

/// Whether threads that wait spin for milliseconds: OpenMP's own runtime does, unless the
/// environment says passive. The program `snug` brings threads of its own, which do not.
[[nodiscard]] bool openmp_spins();

}  // namespace snug
