// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/reference/reference.h"
#include "ops/rotary/rotary.h"

namespace snug {
namespace {

// One head of one token: pairs turned by `sign` times their angle.
void turn(const double* x, double* y, int64_t columns, int64_t token, double theta, double sign) {
  const int64_t half = columns / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = sign * rotary_angle(theta, columns, i, token);
    const double a = x[i];
    const double b = x[i + half];
    y[i] = a * std::cos(angle) - b * std::sin(angle);
    y[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
}

// part 0, 1, 2: q, k, v. body(part, offset in the part, offset in the packed row, token)
template <class Body>
void for_each_head(const RefArgs& args, const Shape& part_shape, const Body& body) {
  const int64_t width = part_shape[2];
  const int64_t columns = width / args.attrs.int64("heads");
  for (int64_t row = 0; row < part_shape[0] * part_shape[1]; ++row) {
    for (size_t part = 0; part < 3; ++part) {
      for (int64_t at = 0; at < width; at += columns)
        body(part, row * width + at, (row * 3 + static_cast<int64_t>(part)) * width + at,
             row % part_shape[1], columns);
    }
  }
}

void run_rotary(const RefArgs& args) {
  const double theta = args.attrs.real("theta");
  for_each_head(args, args.outputs[0].type.shape,
                [&](size_t part, int64_t at, int64_t packed, int64_t token, int64_t columns) {
                  const double* x = args.inputs[0].data + packed;
                  double* y = args.outputs[part].data + at;
                  if (part == 2) {
                    std::copy_n(x, columns, y);
                  } else {
                    turn(x, y, columns, token, theta, 1);
                  }
                });
}

void run_rotary_grad(const RefArgs& args) {
  const double theta = args.attrs.real("theta");
  for_each_head(args, args.inputs[0].type.shape,
                [&](size_t part, int64_t at, int64_t packed, int64_t token, int64_t columns) {
                  const double* dy = args.inputs[part].data + at;
                  double* dx = args.outputs[0].data + packed;
                  if (part == 2) {
                    std::copy_n(dy, columns, dx);
                  } else {
                    turn(dy, dx, columns, token, theta, -1);
                  }
                });
}

}  // namespace

std::span<const RefKernelDef> rotary_ref_kernels() {
  static const RefKernelDef kernels[] = {{"rotary_qkv", run_rotary},
                                         {"rotary_qkv_grad", run_rotary_grad}};
  return kernels;
}

}  // namespace snug
