// SPDX-License-Identifier: Apache-2.0
// The whole public interface of Snug.
#pragma once

#include "snug/config.h"           // IWYU pragma: export
#include "snug/custom_op.h"        // IWYU pragma: export
#include "snug/does_not_fit.h"     // IWYU pragma: export
#include "snug/error.h"            // IWYU pragma: export
#include "snug/explain.h"          // IWYU pragma: export
#include "snug/files.h"            // IWYU pragma: export
#include "snug/idioms.h"           // IWYU pragma: export
#include "snug/instruction_set.h"  // IWYU pragma: export
#include "snug/layers.h"           // IWYU pragma: export
#include "snug/lengths.h"          // IWYU pragma: export
#include "snug/levers.h"           // IWYU pragma: export
#include "snug/memory.h"           // IWYU pragma: export
#include "snug/models.h"           // IWYU pragma: export
#include "snug/network.h"          // IWYU pragma: export
#include "snug/ops.h"              // IWYU pragma: export
#include "snug/plan_report.h"      // IWYU pragma: export
#include "snug/recompute.h"        // IWYU pragma: export
#include "snug/run.h"              // IWYU pragma: export
#include "snug/session.h"          // IWYU pragma: export
#include "snug/solve.h"            // IWYU pragma: export
