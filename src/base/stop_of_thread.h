// SPDX-License-Identifier: Apache-2.0
// For who runs one computation in several threads: what stops one of them stops all.
#pragma once

namespace snug {

class StopScope;

/// The innermost scope of this thread (stop.h); null where nothing stops it. May be set to that of
/// a thread which waits for this one.
[[nodiscard]] const StopScope*& stop_of_thread();

}  // namespace snug
