// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/min_cut.h"

#include <algorithm>

namespace snug::plan {

int32_t MinCut::add_arc(int32_t from, int32_t to, double capacity) {
  const auto arc = static_cast<int32_t>(arcs_.size());
  arcs_.push_back({to});
  arcs_.push_back({from});
  capacity_.push_back(capacity);
  capacity_.push_back(0);
  arcs_of_[from].push_back(arc);
  arcs_of_[to].push_back(arc + 1);
  return arc;
}

bool MinCut::build_levels(int32_t source, int32_t sink) {
  stop_point();
  level_.assign(arcs_of_.size(), -1);
  level_[source] = 0;
  std::vector<int32_t> queue{source};
  for (size_t head = 0; head < queue.size(); ++head) {
    const int32_t node = queue[head];
    for (const int32_t arc : arcs_of_[node]) {
      const int32_t to = arcs_[arc].to;
      if (level_[to] >= 0 || residual_[arc] <= epsilon_) continue;
      level_[to] = level_[node] + 1;
      queue.push_back(to);
    }
  }
  return level_[sink] >= 0;
}

double MinCut::push(int32_t node, int32_t sink, double limit) {
  if (node == sink) return limit;
  check_stop_();
  double sent = 0;
  for (size_t& i = next_arc_[node]; i < arcs_of_[node].size(); ++i) {
    const int32_t arc = arcs_of_[node][i];
    const int32_t to = arcs_[arc].to;
    double& left = residual_[arc];
    if (left <= epsilon_ || level_[to] != level_[node] + 1) continue;
    const double got = push(to, sink, std::min(limit - sent, left));
    if (got > 0) {
      left -= got;
      residual_[arc ^ 1] += got;
      sent += got;
    }
    if (limit - sent <= epsilon_) break;  // this arc may carry more next time
  }
  return sent;
}

double MinCut::solve(int32_t source, int32_t sink, double epsilon) {
  residual_ = capacity_;
  epsilon_ = epsilon;
  double flow = 0;
  while (build_levels(source, sink)) {
    next_arc_.assign(arcs_of_.size(), 0);
    const double sent = push(source, sink, kInfinite);
    if (sent <= epsilon_ || sent == kInfinite) return flow + sent;
    flow += sent;
  }
  return flow;
}

}  // namespace snug::plan
