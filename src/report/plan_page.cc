// SPDX-License-Identifier: Apache-2.0
// A plan as one page of HTML with drawings in SVG: no script, no font, no network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/units.h"
#include "report/percent.h"
#include "snug/plan_report.h"

namespace snug {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 300;
constexpr double kLeft = 84;
constexpr double kRight = 10;  // room for a ring
constexpr double kTop = 14;
constexpr double kBottom = 34;
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

// Where an axis ends: one value alone, as a list of one price has, has room behind it.
double axis_end(double begin, double end) {
  const double size = std::abs(begin);
  return end - begin > 1e-6 * size + 1e-12 ? end : begin + std::max(0.1 * size, 1e-12);
}

// Axes from 0 to (x_end, y_end) and what is drawn between them.
class Chart {
 public:
  using Label = std::function<std::string(double)>;

  Chart(double x_begin, double x_end, double y_begin, double y_end, const Label& x_label,
        const Label& y_label)
      : x_begin_(x_begin),
        x_end_(axis_end(x_begin, x_end)),
        y_begin_(y_begin),
        y_end_(axis_end(y_begin, y_end)) {
    constexpr int kTicks = 5;
    for (int i = 0; i <= kTicks; ++i) {
      const double part = static_cast<double>(i) / kTicks;
      const double y_value = y_begin_ + part * (y_end_ - y_begin_);
      const double x_value = x_begin_ + part * (x_end_ - x_begin_);
      body_ += fmt::format("<line class=grid x1={:.1f} x2={:.1f} y1={:.1f} y2={:.1f} />", kLeft,
                           kWidth - kRight, y(y_value), y(y_value));
      body_ += fmt::format("<text class=ylabel x={:.1f} y={:.1f}>{}</text>", kLeft - 8,
                           y(y_value) + 4, y_label(y_value));
      // The last label ends where the chart ends.
      body_ +=
          fmt::format("<text class={} x={:.1f} y={:.1f}>{}</text>",
                      i == kTicks ? "xlast" : "xlabel", x(x_value), kHeight - 12, x_label(x_value));
    }
  }

  [[nodiscard]] double x(double value) const {
    return kLeft + (value - x_begin_) / (x_end_ - x_begin_) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return kHeight - kBottom -
           (value - y_begin_) / (y_end_ - y_begin_) * (kHeight - kBottom - kTop);
  }
  void add(const std::string& element) { body_ += element; }
  [[nodiscard]] std::string svg(const std::string& title) const {
    return fmt::format("<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">{}</svg>\n", kWidth,
                       kHeight, escaped(title), body_);
  }

 private:
  double x_begin_;
  double x_end_;
  double y_begin_;
  double y_end_;
  std::string body_;
};

std::string seconds_label(double value) { return value <= 0 ? "0" : format_seconds(value); }
std::string bytes_label(double value) { return format_bytes(std::llround(value)); }

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
  Chart chart(0, seconds, 0, bytes * 1.05, seconds_label, bytes_label);
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
  Chart chart(0, seconds, 0, bytes, seconds_label, bytes_label);
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
  double low = 0;
  double high = 0;
  double slow = report.step_seconds;
  double fast = report.step_seconds;
  for (const PriceRow& row : report.prices) {
    const auto bytes = static_cast<double>(row.budget_bytes);
    low = low == 0 ? bytes : std::min(low, bytes);
    high = std::max(high, bytes);
    slow = std::max(slow, row.step_seconds);
    fast = std::min(fast, row.step_seconds);
  }
  Chart chart(low, high, fast * 0.97, slow * 1.02, bytes_label, seconds_label);
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
svg{width:100%;height:auto;display:block}.grid{stroke:#e3e8ef}.ylabel,.xlabel{font-size:11px;fill:#5b6b80}
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
      signed_percent(recompute_overhead), signed_percent(lower_bound_overhead));
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
