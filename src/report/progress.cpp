// The bar of a terminal and the lines of a pipe.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/terminal.h"
#include "report/units.h"

namespace tidepool {
namespace {

constexpr double redraw_seconds_min = 0.1;
constexpr u32 bar_columns_min = 8;
constexpr u32 bar_columns_max = 30;

// What stands right of the bar, most wanted first: on a narrow screen the last ones are left out.
std::vector<std::string> facts(const ProgressState& s, const Screen& screen) {
  const StepLine& l = s.last;
  if (l.tokens_per_second <= 0) return {"the first step is under way"};
  std::vector<std::string> out;
  out.push_back(std::isfinite(l.loss) ? fmt::format("loss {:.3f}", l.loss)
                                      : fmt::format("loss {}", loss_text(l.loss)));
  out.push_back(fmt::format("{} tok/s", count_text(l.tokens_per_second)));
  out.push_back(fmt::format("eta {}", seconds_text(s.eta_seconds)));
  if (l.loss_scale > 0) out.push_back(fmt::format("scale {:g}", l.loss_scale));
  if (l.fraction_of_peak > 0) out.push_back(fmt::format("{} peak", percent_text(l.fraction_of_peak)));
  if (!l.binds.empty()) out.push_back(paint(screen, Ink::yellow, l.binds));
  return out;
}

std::string filled_bar(double fraction, u32 width, const Screen& screen) {
  const u32 full = static_cast<u32>(std::floor(fraction * width));
  if (!screen.unicode) return repeat("=", full) + (full < width ? ">" + repeat("-", width - full - 1) : "");
  return paint(screen, Ink::cyan, repeat("━", full)) + paint(screen, Ink::dim, repeat("─", width - full));
}

}  // namespace

std::string progress_bar(const ProgressState& s, const Screen& screen) {
  const double fraction =
      s.total_steps == 0
          ? 0
          : std::min(1.0, static_cast<double>(s.last.step) / static_cast<double>(s.total_steps));
  const std::string steps = fmt::format(" {}/{}", s.last.step, s.total_steps);
  // One column stays free: a terminal that is written to its last one wraps.
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

std::string progress_line(const ProgressState& s) {
  const StepLine& l = s.last;
  std::string out = fmt::format("step {}/{}  loss {}  lr {:.3g}  grad_norm {}  {} tok/s", l.step,
                                s.total_steps, loss_text(l.loss), l.learning_rate, norm_text(l.grad_norm),
                                count_text(l.tokens_per_second));
  if (l.loss_scale > 0) out += fmt::format("  loss_scale {:g}", l.loss_scale);
  if (l.fraction_of_peak > 0) out += fmt::format("  {} of peak", percent_text(l.fraction_of_peak));
  return out + "  eta " + seconds_text(s.eta_seconds);
}

Progress::Progress(const Screen& screen, std::FILE* out, const Options& options)
    : screen_(screen), out_(out), options_(options), drawn_at_(-std::numeric_limits<double>::infinity()) {
  state_.total_steps = options.total_steps;
  state_.last.step = options.first_step;
  // A step may take minutes: say at once that something happens.
  if (screen_.tty && options_.total_steps > options_.first_step) draw();
}

Progress::~Progress() { close(); }

void Progress::step(const StepLine& line, double now_seconds) {
  state_.last = line;
  const double done = static_cast<double>(line.step) - static_cast<double>(options_.first_step);
  const double left = static_cast<double>(options_.total_steps) - static_cast<double>(line.step);
  state_.eta_seconds =
      done > 0 ? (now_seconds - options_.now_seconds) / done * std::max(0.0, left) : std::nan("");
  const bool last = line.step >= options_.total_steps;
  if (!screen_.tty) {
    const bool logged = last || line.step % std::max<u64>(1, options_.logging_steps) == 0;
    if (!logged) return;
    std::fprintf(out_, "%s\n", progress_line(state_).c_str());
    std::fflush(out_);
    return;
  }
  // Steps of a millisecond must not turn into a thousand lines a second.
  if (!last && now_seconds - drawn_at_ < redraw_seconds_min) return;
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
  std::fprintf(out_, "%s\n", line.c_str());
  if (was_visible) draw();
  std::fflush(out_);
}

void Progress::close() { clear(); }

void Progress::draw() {
  // In one piece: half a picture would flicker. The cursor goes back to the bar, where the next one begins.
  std::string picture = "\r\x1b[K" + progress_bar(state_, screen_);
  const std::vector<std::string> lines = live_lines(live_, screen_);
  for (const std::string& line : lines) picture += "\n\x1b[K" + line;
  lines_below_ = std::max(lines_below_, static_cast<u32>(lines.size()));
  if (!lines.empty()) picture += fmt::format("\r\x1b[{}A", lines.size());
  std::fputs(picture.c_str(), out_);
  std::fflush(out_);
  visible_ = true;
}

void Progress::clear() {
  if (!visible_) return;
  // The bar and everything below it.
  std::fputs(lines_below_ > 0 ? "\r\x1b[J" : "\r\x1b[K", out_);
  lines_below_ = 0;
  std::fflush(out_);
  visible_ = false;
}

}  // namespace tidepool
