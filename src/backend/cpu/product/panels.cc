// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/panels.h"

#include "backend/cpu/product/product_kernels.h"
#include "base/threads.h"

namespace snug {

int64_t panel_columns() { return 2 * product_tile_shape().lanes; }

std::string reason_against_panels(int64_t columns) {
  if (columns > 0 && columns % panel_columns() == 0) return {};
  return "panels of " + std::to_string(columns) + " columns are no multiple of the " +
         std::to_string(panel_columns()) + " of a tile here";
}

int64_t panel_count(int64_t n, int64_t columns) { return (n + columns - 1) / columns; }

void pack_panels(const PanelShape& shape, int threads, const float* b, float* panels) noexcept {
  const FillPanels fill = panel_kernel();
  parallel_for(threads, panel_count(shape.n, shape.columns), 1, [&](int64_t begin, int64_t end) {
    fill(shape, b, {begin, end}, panels);
  });
}

}  // namespace snug
