// Progress prints the lines of logged steps, and on a terminal a live view below them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text/units.h"
#include "report/print_text.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

constexpr double redraw_seconds_min = 0.1;
constexpr u32 bar_columns_min = 8;
constexpr u32 bar_columns_max = 30;
constexpr u32 columns_of_long_names = 50;

std::string item(Metric metric, double value) {
  const MetricInfo& of = info(metric);
  return of.unit.empty() ? fmt::format("{} {}", of.word, of.text(value))
                         : fmt::format("{} {}", of.text(value), of.unit);
}

// Facts beside the bar, the most important first: a narrow screen drops the last ones.
std::vector<std::string> facts(const ProgressState& s, const Screen& screen) {
  const StepLine& l = s.last;
  const double loss = l.metrics[Metric::loss];
  if (!l.metrics.has(Metric::loss)) return {"the first step is under way"};
  std::vector<std::string> out;
  out.push_back(std::isfinite(loss) ? fmt::format("loss {:.3f}", loss) : item(Metric::loss, loss));
  out.push_back(item(Metric::train_tokens_per_second, l.metrics[Metric::train_tokens_per_second]));
  out.push_back(fmt::format("eta {}", seconds_text(s.eta_seconds)));
  if (l.fraction_of_peak > 0) out.push_back(fmt::format("{} peak", percent_text(l.fraction_of_peak)));
  if (!l.binds.empty()) out.push_back(paint(screen, Ink::yellow, l.binds));
  return out;
}

std::string filled_bar(double fraction, u32 width, const Screen& screen) {
  const u32 full = static_cast<u32>(std::floor(fraction * width));
  if (!screen.unicode) return repeat("=", full) + (full < width ? ">" + repeat("-", width - full - 1) : "");
  return paint(screen, Ink::cyan, repeat("━", full)) + paint(screen, Ink::dim, repeat("─", width - full));
}

// Joins the first items, as many as fit.
std::string joined(const std::vector<std::string>& items, u32 columns) {
  std::string out;
  for (const std::string& item : items) {
    const u32 used = out.empty() ? 0 : display_width(out) + 2;
    if (used + display_width(item) > columns) break;
    out.append(out.empty() ? "" : "  ").append(item);
  }
  return out;
}

std::string epoch_text(const ProgressState& s) {
  const double total = s.total_epochs;
  const std::string last =
      total == std::floor(total) ? fmt::format("{:.0f}", total) : significant_text(total);
  return fmt::format("epoch {}{}", significant_text(s.last.metrics[Metric::epoch]),
                     total > 0 ? "/" + last : "");
}

std::vector<std::string> line_items(const ProgressState& s) {
  const StepLine& l = s.last;
  std::vector<std::string> out = {fmt::format("step {}/{}", l.step, s.total_steps)};
  for (u32 place = 1; place <= metric_count; ++place)
    l.metrics.each([&](Metric metric, double value) {
      if (info(metric).place == place) out.push_back(item(metric, value));
    });
  if (l.fraction_of_peak > 0) out.push_back(fmt::format("{} of peak", percent_text(l.fraction_of_peak)));
  out.push_back("eta " + seconds_text(s.eta_seconds));
  return out;
}

}  // namespace

std::string progress_bar(const ProgressState& s, const Screen& screen) {
  const double fraction =
      s.total_steps == 0
          ? 0
          : std::min(1.0, static_cast<double>(s.last.step) / static_cast<double>(s.total_steps));
  const std::string steps = fmt::format(" {}/{}", s.last.step, s.total_steps);
  // One column stays free, because a terminal wraps after writing to its last column.
  const u32 room = screen.columns - 1;
  u32 used = 1 + display_width(steps) + bar_columns_min;
  std::string right;
  for (const std::string& fact : facts(s, screen)) {
    if (used + 2 + display_width(fact) > room) break;
    used += 2 + display_width(fact);
    right.append("  ").append(fact);
  }
  const u32 width = std::min(bar_columns_max, bar_columns_min + (room > used ? room - used : 0));
  return fmt::format(" {}{}{}", filled_bar(fraction, width, screen), steps, right);
}

std::string progress_numbers(const ProgressState& s, const Screen& screen) {
  const StepLine& l = s.last;
  const Metrics& m = l.metrics;
  if (!m.has(Metric::loss)) return "";
  const bool narrow = screen.columns < columns_of_long_names;
  const double norm = m[Metric::grad_norm], epoch = m[Metric::epoch];
  std::vector<std::string> items = {item(Metric::learning_rate, m[Metric::learning_rate]),
                                    narrow ? "norm " + norm_text(norm) : item(Metric::grad_norm, norm),
                                    narrow ? item(Metric::epoch, epoch) : epoch_text(s)};
  if (m.has(Metric::loss_scale)) items.push_back(item(Metric::loss_scale, m[Metric::loss_scale]));
  return " " + joined(items, screen.columns - 2);
}

std::string progress_line(const ProgressState& s) { return joined(line_items(s), ~u32{0}); }
std::string progress_line(const ProgressState& s, const Screen& screen) {
  return joined(line_items(s), screen.columns - 1);
}

Progress::Progress(const Screen& screen, std::FILE* out, const Options& options)
    : screen_(screen),
      out_(out),
      options_(options),
      drawn_at_(-std::numeric_limits<double>::infinity()),
      logged_at_(drawn_at_) {
  state_.total_steps = options.total_steps;
  state_.total_epochs = options.total_epochs;
  state_.last.step = options.first_step;
  // Draws at once: the first step may take minutes.
  if (screen_.tty && options_.total_steps > options_.first_step) draw();
}

Progress::~Progress() { close(); }

bool Progress::logged(u64 step) const {
  return step >= options_.total_steps || step % std::max<u64>(1, options_.logging_steps) == 0;
}

void Progress::step(const StepLine& line, double now_seconds) {
  state_.last = line;
  const double done = static_cast<double>(line.step) - static_cast<double>(options_.first_step);
  const double left = static_cast<double>(options_.total_steps) - static_cast<double>(line.step);
  state_.eta_seconds =
      done > 0 ? (now_seconds - options_.now_seconds) / done * std::max(0.0, left) : std::nan("");
  if (!screen_.tty) {
    if (logged(line.step)) put(progress_line(state_) + "\n");
    return;
  }
  // Lines of very short steps wait for the next redraw, because a thousand redraws a second would be too
  // many. Lines of slow steps are printed immediately.
  bool now = line.step >= options_.total_steps || now_seconds - drawn_at_ >= redraw_seconds_min;
  if (logged(line.step)) {
    renew_size(screen_, fileno(out_));
    due_ += progress_line(state_, screen_) + "\n";
    now = now || now_seconds - logged_at_ >= redraw_seconds_min;
    logged_at_ = now_seconds;
  }
  if (!now) return;
  drawn_at_ = now_seconds;
  draw();
}

void Progress::live(const LiveState& live, double now_seconds) {
  if (!screen_.tty || now_seconds - drawn_at_ < redraw_seconds_min) return;
  live_ = live;
  drawn_at_ = now_seconds;
  draw();
}

void Progress::note(const std::string& line) {
  const bool was_visible = visible_;
  clear();
  put(line + "\n");
  if (was_visible) draw();
}

void Progress::close() { clear(); }

void Progress::draw() {
  renew_size(screen_, fileno(out_));
  std::vector<std::string> lines = {progress_bar(state_, screen_)};
  if (std::string numbers = progress_numbers(state_, screen_); !numbers.empty())
    lines.push_back(std::move(numbers));
  for (std::string& line : live_lines(live_, screen_)) lines.push_back(std::move(line));
  // One row stays free: if the view scrolled its first line away, it could not be erased any more.
  lines.resize(std::clamp<std::size_t>(screen_.rows - 1, 1, lines.size()));
  for (std::string& line : lines) line = text_to_show(line);
  if (!due_.empty()) clear();
  draw_picture(out_, rewritable_lines(lines));
  visible_ = true;
}

void Progress::clear() {
  if (visible_) draw_picture(out_, "");
  visible_ = false;
  if (!due_.empty()) put(std::exchange(due_, {}));
}

void Progress::put(const std::string& text) {
  try_print_text(out_, text);
  std::fflush(out_);
}

}  // namespace tidepool
