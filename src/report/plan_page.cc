// SPDX-License-Identifier: Apache-2.0
// A plan as one page of HTML with drawings in SVG: no script, no font, no network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/units.h"
#include "report/axis.h"
#include "report/percent.h"
#include "snug/plan_report.h"

namespace snug {
namespace {

using report::make_axis;
using report::Quantity;

constexpr double kWidth = 960;
constexpr double kHeight = 300;
constexpr double kLeft = 84;
constexpr double kRight = 10;  // room for a ring
constexpr double kTop = 14;
constexpr double kBottom = 34;
constexpr double kHalfLabel = 24;  // of a label, from its middle
constexpr size_t kMostRectangles = 4000;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

// Two axes and what is drawn between them.
class Chart {
 public:
  Chart(report::Axis x_axis, report::Axis y_axis)
      : x_axis_(std::move(x_axis)), y_axis_(std::move(y_axis)) {
    for (const report::Tick& tick : y_axis_.ticks) {
      body_ += fmt::format("<line class=grid x1={:.1f} x2={:.1f} y1={:.1f} y2={:.1f} />", kLeft,
                           kWidth - kRight, y(tick.value), y(tick.value));
      body_ += fmt::format("<text class=ylabel x={:.1f} y={:.1f}>{}</text>", kLeft - 8,
                           y(tick.value) + 4, tick.label);
    }
    for (const report::Tick& tick : x_axis_.ticks) {
      const double place = x(tick.value);
      body_ += fmt::format("<line class=tick x1={0:.1f} x2={0:.1f} y1={1:.1f} y2={2:.1f} />", place,
                           kHeight - kBottom, kHeight - kBottom + 4);
      // A label near the right edge ends there.
      const bool is_last = place > kWidth - kRight - kHalfLabel;
      body_ +=
          fmt::format("<text class={} x={:.1f} y={:.1f}>{}</text>", is_last ? "xlast" : "xlabel",
                      is_last ? kWidth - kRight : place, kHeight - 12, tick.label);
    }
  }

  [[nodiscard]] double x(double value) const {
    return kLeft + x_axis_.share(value) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return kHeight - kBottom - y_axis_.share(value) * (kHeight - kBottom - kTop);
  }
  void add(const std::string& element) { body_ += element; }
  [[nodiscard]] std::string svg(const std::string& title) const {
    return fmt::format("<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">{}</svg>\n", kWidth,
                       kHeight, escaped(title), body_);
  }

 private:
  report::Axis x_axis_;
  report::Axis y_axis_;
  std::string body_;
};

// One column of pixels needs one point: the highest of those that fall into it.
std::string steps_path(const Chart& chart, const MemoryCurve& curve) {
  std::string points = fmt::format("M{:.1f} {:.1f}", chart.x(0), chart.y(0));
  double column = -1;
  int64_t highest = 0;
  for (size_t i = 0; i < curve.seconds.size(); ++i) {
    const double at = std::round(chart.x(curve.seconds[i]) * 2) / 2;
    if (at == column) {
      highest = std::max(highest, curve.bytes[i]);
    } else {
      if (column >= 0)
        points += fmt::format("L{:.1f} {:.1f}", column, chart.y(static_cast<double>(highest)));
      column = at;
      highest = curve.bytes[i];
    }
  }
  if (column >= 0)
    points += fmt::format("L{:.1f} {:.1f}", column, chart.y(static_cast<double>(highest)));
  return points;
}

std::string curves_chart(const PlanReport& report) {
  double seconds = 0;
  double bytes = 0;
  for (const MemoryCurve& curve : report.curves) {
    if (!curve.seconds.empty()) seconds = std::max(seconds, curve.seconds.back());
    for (const int64_t each : curve.bytes) bytes = std::max(bytes, static_cast<double>(each));
  }
  Chart chart(make_axis(0, seconds, Quantity::seconds),
              make_axis(0, bytes * 1.05, Quantity::bytes));
  // The plan is drawn last: where it keeps everything, it covers the other curve.
  for (size_t i = 0; i < report.curves.size(); ++i) {
    chart.add(
        fmt::format("<path class=curve{} d=\"{}\"/>", i, steps_path(chart, report.curves[i])));
  }
  return chart.svg("memory over time");
}

int hue_of(const std::string& name) {
  uint32_t hash = 2166136261U;
  for (const char c : name.substr(0, name.rfind('/')))
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<int>(hash % 360);
}

std::string map_chart(const PlanReport& report, size_t* left_out) {
  std::vector<const PlacedTensor*> sorted;
  double seconds = 0;
  double bytes = 0;
  for (const PlacedTensor& tensor : report.placed) {
    sorted.push_back(&tensor);
    seconds = std::max(seconds, tensor.end_seconds);
    bytes = std::max(bytes, static_cast<double>(tensor.offset + tensor.bytes));
  }
  const auto area = [](const PlacedTensor* tensor) {
    return static_cast<double>(tensor->bytes) * (tensor->end_seconds - tensor->begin_seconds);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto* a, const auto* b) { return area(a) > area(b); });
  *left_out = sorted.size() > kMostRectangles ? sorted.size() - kMostRectangles : 0;
  if (*left_out > 0) sorted.resize(kMostRectangles);
  Chart chart(make_axis(0, seconds, Quantity::seconds), make_axis(0, bytes, Quantity::bytes));
  for (const PlacedTensor* tensor : sorted) {
    const double left = chart.x(tensor->begin_seconds);
    const double top = chart.y(static_cast<double>(tensor->offset + tensor->bytes));
    chart.add(fmt::format(
        "<rect x={:.1f} y={:.1f} width={:.1f} height={:.1f} fill=\"hsl({} {}% {}%)\"><title>{}{}, "
        "{}</title></rect>",
        left, top, std::max(0.3, chart.x(tensor->end_seconds) - left),
        std::max(0.3, chart.y(static_cast<double>(tensor->offset)) - top), hue_of(tensor->name),
        tensor->is_again ? 75 : 40, tensor->is_again ? 45 : 68, escaped(tensor->name),
        tensor->is_again ? " (made again)" : "", format_bytes(tensor->bytes)));
  }
  return chart.svg("the arena over time");
}

std::string prices_chart(const PlanReport& report) {
  std::vector<double> budgets;
  std::vector<double> times = {report.step_seconds};
  for (const PriceRow& row : report.prices) {
    budgets.push_back(static_cast<double>(row.budget_bytes));
    times.push_back(row.step_seconds);
  }
  const auto [low, high] = std::minmax_element(budgets.begin(), budgets.end());
  const auto [fast, slow] = std::minmax_element(times.begin(), times.end());
  Chart chart(make_axis(*low, *high, Quantity::bytes, report::scale_for(budgets)),
              make_axis(*fast * 0.97, *slow * 1.02, Quantity::seconds, report::scale_for(times)));
  std::string path;
  for (const PriceRow& row : report.prices) {
    const double at = chart.x(static_cast<double>(row.budget_bytes));
    // The time holds until the next price.
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", at, chart.y(row.step_seconds))
                         : fmt::format("H{:.1f}V{:.1f}", at, chart.y(row.step_seconds));
  }
  chart.add(fmt::format("<path class=curve1 d=\"{}\"/>", path));
  for (const PriceRow& row : report.prices) {
    chart.add(fmt::format(
        "<circle class={} cx={:.1f} cy={:.1f} r={}><title>{}: {} a step, micro-batch {}, "
        "{}</title></circle>",
        row.is_chosen ? "chosen" : "price", chart.x(static_cast<double>(row.budget_bytes)),
        chart.y(row.step_seconds), row.is_chosen ? 6 : 2.5, format_bytes_up(row.budget_bytes),
        format_seconds(row.step_seconds), row.micro_batch, escaped(row.strategy)));
  }
  return chart.svg("step time over budget");
}

bool keeps_everything(const PlanReport& report) {
  return report.curves.size() == 2 && report.curves[0].bytes == report.curves[1].bytes;
}

std::string components_table(const PlanReport& report) {
  std::string out = "<table><tr><th>part<th class=number>bytes</tr>\n";
  for (const MemoryComponent& part : report.components) {
    out += fmt::format("<tr><td>{}<td class=number>{}</tr>\n", escaped(part.name),
                       format_bytes(part.bytes));
  }
  return out + fmt::format("<tr class=total><td>planned peak<td class=number>{}</tr>\n</table>\n",
                           format_bytes_up(report.planned_peak_bytes));
}

// The largest by name, the others as one row, and what they come to.
std::string peak_table(const PlanReport& report) {
  constexpr size_t kMost = 12;
  std::string out = "<table><tr><th>tensors<th class=number>bytes</tr>\n";
  const auto row = [](const std::string& name, int64_t bytes) {
    return fmt::format("<tr><td>{}<td class=number>{}</tr>\n", name, format_bytes(bytes));
  };
  int64_t whole = 0;
  for (const PeakTensor& tensor : report.peak_tensors) whole += tensor.bytes;
  int64_t shown = 0;
  for (size_t i = 0; i < report.peak_tensors.size() && i < kMost; ++i) {
    out += row(escaped(report.peak_tensors[i].name), report.peak_tensors[i].bytes);
    shown += report.peak_tensors[i].bytes;
  }
  if (report.peak_tensors.size() > kMost)
    out += row(fmt::format("{} others", report.peak_tensors.size() - kMost), whole - shown);
  return out + fmt::format("<tr class=total><td>together<td class=number>{}</tr>\n</table>\n",
                           format_bytes(whole));
}

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 6; ++i)
    text += (i > 0 ? ", " : "") + escaped(names[i]);
  return names.size() > 6 ? text + ", ..." : text;
}

std::string blocks_table(const PlanReport& report) {
  std::string out =
      "<table><tr><th>part of the model<th class=number>kept at the loss<th class=number>without "
      "recomputation<th class=number>run again<th>what is run again<th>what is kept</tr>\n";
  const auto share = [](double again, double forward) {
    return forward > 0 ? 100 * again / forward : 0.0;
  };
  constexpr const char* kNumbers =
      "<td class=number>{}<td class=number>{}<td class=number>{:.0f} %";
  BlockTreatment whole;
  for (const BlockTreatment& block : report.blocks) {
    const std::string name =
        block.count == 1 ? escaped(block.first)
                         : fmt::format("{} to {} ({} equal, figures of one)", escaped(block.first),
                                       escaped(block.last), block.count);
    out += fmt::format("<tr><td>{}", name) +
           fmt::format(kNumbers, format_bytes(block.kept_bytes), format_bytes(block.keep_all_bytes),
                       share(block.recompute_seconds, block.forward_seconds)) +
           fmt::format("<td>{}<td>{}</tr>\n", names_of(block.recomputed), names_of(block.kept));
    const auto count = static_cast<double>(block.count);
    whole.kept_bytes += block.count * block.kept_bytes;
    whole.keep_all_bytes += block.count * block.keep_all_bytes;
    whole.forward_seconds += count * block.forward_seconds;
    whole.recompute_seconds += count * block.recompute_seconds;
  }
  return out + "<tr class=total><td>all" +
         fmt::format(kNumbers, format_bytes(whole.kept_bytes), format_bytes(whole.keep_all_bytes),
                     share(whole.recompute_seconds, whole.forward_seconds)) +
         "<td><td></tr>\n</table>\n";
}

constexpr const char* kStyle = R"(
body{font:15px/1.5 system-ui,sans-serif;max-width:980px;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0 .8rem;color:#465468}
svg{width:100%;height:auto;display:block}.grid{stroke:#e3e8ef}.tick{stroke:#5b6b80}.ylabel,.xlabel{font-size:11px;fill:#5b6b80}
.xlast{font-size:11px;fill:#5b6b80;text-anchor:end}.ylabel{text-anchor:end}.xlabel{text-anchor:middle}path{fill:none;stroke-width:1.6}.curve0{stroke:#c2410c}
.curve1{stroke:#1d4ed8}.price{fill:#1d4ed8}.chosen{fill:#fff;stroke:#1d4ed8;stroke-width:3}
table{border-collapse:collapse;width:100%;font-size:13px}td,th{text-align:left;padding:.25rem .6rem .25rem 0;
border-bottom:1px solid #e3e8ef;vertical-align:top}.number{text-align:right;white-space:nowrap}.total td{font-weight:600}.k0{color:#c2410c}.k1{color:#1d4ed8}
)";

}  // namespace

std::string PlanReport::to_html() const {
  std::string out = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>Plan of {0}</title><style>{1}</style>\n<h1>{0} in "
      "{2}</h1>\n",
      escaped(model), kStyle, format_bytes_up(budget_bytes));
  out += fmt::format(
      "<p>Batch {}, {} micro-batch{} of {}; planned peak {}; a step takes {} ({} against "
      "keeping everything; no schedule in these bytes has less than {}).</p>\n",
      train_batch_size, accumulation_steps, accumulation_steps == 1 ? "" : "es", micro_batch,
      format_bytes_up(planned_peak_bytes), format_seconds(step_seconds),
      report::signed_percent(recompute_overhead), report::signed_percent(lower_bound_overhead));
  out += components_table(*this) + "<h2>Memory over time</h2>\n";
  out += keeps_everything(*this)
             ? "<p>Bytes in use in the arena over one micro-batch. <b class=k1>This plan</b> keeps "
               "everything, so it is the curve of keeping everything as well."
             : "<p>Bytes in use in the arena over one micro-batch: <b class=k0>everything kept</b> "
               "and "
               "<b class=k1>this plan</b>.";
  out += " Gradients that wait for the global clip are included.</p>\n";
  out += curves_chart(*this);
  size_t left_out = 0;
  const std::string map = map_chart(*this, &left_out);
  out +=
      "<h2>The arena</h2>\n<p>Every tensor's place (up) over its life (right); strong colours "
      "are made again. Point at one for its name.";
  if (left_out > 0) out += fmt::format(" The {} smallest are not drawn.", left_out);
  out += "</p>\n" + map;
  if (!prices.empty()) {
    out += "<h2>Price list</h2>\n<p>Step time for every budget; the ring is this plan.</p>\n";
    out += prices_chart(*this);
  }
  out += fmt::format("<h2>The peak</h2>\n<p>The arena is fullest at {}. It holds:</p>\n",
                     escaped(peak_op)) +
         peak_table(*this);
  out += "<h2>How each part is treated</h2>\n" + blocks_table(*this) + "</html>\n";
  return out;
}

}  // namespace snug
