// Prints two runs side by side in the terminal.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "base/text/units.h"
#include "report/carried_text.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

constexpr u32 compare_label_columns = 20, setting_columns = 30, compare_columns_max = 80;

// Splits text into lines of at most `width` columns. Breaks behind a blank, '/', ',' or '=' if the second
// half of the line has one.
std::vector<std::string> fold(std::string text, u32 width) {
  std::vector<std::string> lines;
  while (display_width(text) > width) {
    std::size_t end = 0;
    for (u32 columns = 0; columns < width; ++columns) do
        ++end;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
    const std::size_t mark = text.find_last_of(" /,=", end - 1);
    if (mark != std::string::npos && mark >= end / 2) end = mark + 1;
    lines.push_back(text.substr(0, end));
    text.erase(0, end);
  }
  lines.push_back(std::move(text));
  return lines;
}

enum class Better : u8 { more, less, neither };

double last(const std::vector<double>& values) { return values.empty() ? std::nan("") : values.back(); }

class Comparison {
 public:
  Comparison(const NamedReport& a, const NamedReport& b, const Screen& screen)
      : a_(a), b_(b), screen_(screen) {}

  std::string text() {
    line("");
    line(" " + paint(screen_, Ink::bold, "Two runs"));
    folded("  A  ", a_.name);
    folded("  B  ", b_.name);
    speed();
    bytes();
    settings();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += text + "\n"; }
  // Prints `text` beside `label`, on several lines if needed.
  void folded(std::string label, const std::string& text) {
    const u32 indent = display_width(label);
    for (const std::string& l : fold(text, std::min(screen_.columns, compare_columns_max) - indent)) {
      line(label + l);
      label.assign(indent, ' ');
    }
  }
  void head(const char* title) {
    line("");
    line(" " + paint(screen_, Ink::bold, pad_right(title, compare_label_columns + 1)) +
         paint(screen_, Ink::dim,
               fmt::format("{:>{}}{:>{}}   {}", "A", value_columns_, "B", value_columns_, "B against A")));
  }

  // Prints a row of numbers; omits it if neither run has the number.
  void row(const std::string& label, Better better, const std::function<double(const RunReport&)>& of,
           const std::function<std::string(double)>& show) {
    const double a = of(a_.report), b = of(b_.report);
    if (!std::isfinite(a) && !std::isfinite(b)) return;
    const auto shown = [&](double v) { return std::isfinite(v) ? show(v) : std::string("-"); };
    line(fmt::format("  {}{}{}   {}", pad_right(label, compare_label_columns),
                     pad_left(shown(a), value_columns_), pad_left(shown(b), value_columns_),
                     change(a, b, better)));
  }
  std::string change(double a, double b, Better better) const {
    if (a == b) return "=";
    if (!std::isfinite(a) || !std::isfinite(b) || a == 0) return "";
    const double by = b / a - 1;
    const std::string text = fmt::format("{:+.1f}%", 100 * by);
    if (better == Better::neither || std::abs(by) < 0.005) return text;
    return paint(screen_, (by > 0) == (better == Better::more) ? Ink::green : Ink::red, text);
  }

  void speed() {
    const auto known = [](double v) { return v > 0 ? v : std::nan(""); };
    const auto loss = [](double v) { return fmt::format("{:.4f}", v); };
    head("Speed and loss");
    row(
        "steps", Better::neither, [](const RunReport& r) { return static_cast<double>(r.steps); },
        count_text);
    row(
        "tokens/s, mean", Better::more, [](const RunReport& r) { return r.tokens_per_second; }, count_text);
    row(
        "GFLOP/s, mean", Better::more, [](const RunReport& r) { return r.flops_per_second * 1e-9; },
        significant_text);
    row("of peak, mean", Better::more, share_of_peak, percent_text);
    row(
        "step, mean", Better::less,
        [&](const RunReport& r) { return known(r.train_seconds) / static_cast<double>(r.steps); },
        seconds_text);
    row(
        "step, median", Better::less, [](const RunReport& r) { return r.step_seconds; }, seconds_text);
    row(
        "step, predicted", Better::neither,
        [&](const RunReport& r) { return known(r.predicted_step_seconds); }, seconds_text);
    row(
        "last loss", Better::less, [](const RunReport& r) { return last(r.losses); }, loss);
    row(
        "validation loss", Better::less, [](const RunReport& r) { return last(r.eval_losses); }, loss);
    const std::string& figure = (a_.report.eval_figure.empty() ? b_ : a_).report.eval_figure;
    const auto perplexity = [](const RunReport& r) { return std::exp(last(r.eval_losses)); };
    const auto of_figure = [&](const RunReport& r) {
      return r.eval_figure == figure ? last(r.eval_figures) : std::nan("");
    };
    if (figure.empty())
      row("perplexity", Better::less, perplexity, significant_text);
    else
      row(figure, Better::more, of_figure, significant_text);
  }

  void bytes() {
    const auto show = [](double v) { return bytes_text(Bytes{static_cast<u64>(v)}); };
    head("Bytes, mean step");
    for (u32 l = 0; l < link_count; ++l)
      row(
          std::string(name(static_cast<LinkKind>(l))), Better::less,
          [l](const RunReport& r) {
            return r.steps == 0
                       ? std::nan("")
                       : static_cast<double>(r.links[l].measured.value) / static_cast<double>(r.steps);
          },
          show);
    head("Peaks");
    for (u32 t = 0; t < tier_count; ++t)
      row(
          std::string(name(static_cast<Tier>(t))), Better::neither,
          [t](const RunReport& r) { return static_cast<double>(r.tiers[t].measured_peak.value); }, show);
    row(
        "process", Better::neither, [](const RunReport& r) { return static_cast<double>(r.rss_peak.value); },
        show);
  }

  void settings() {
    std::map<std::string, std::string> all = a_.report.config;
    all.insert(b_.report.config.begin(), b_.report.config.end());
    line("");
    line(" " + paint(screen_, Ink::bold, "Settings that differ"));
    bool differ = false;
    const auto value = [](const RunReport& r, const std::string& key) {
      const auto found = r.config.find(key);
      return found == r.config.end() ? std::string("-") : found->second;
    };
    for (const auto& [key, ignored] : all) {
      const std::string a = value(a_.report, key), b = value(b_.report, key);
      // The command repeats overrides that are listed anyway.
      if (a == b || key == "command" || key == "output.dir") continue;
      differ = true;
      const std::string both =
          fmt::format("  {}  {} {} {}", pad_right(key, setting_columns), a, screen_.unicode ? "→" : "->", b);
      if (display_width(both) <= std::min(screen_.columns, compare_columns_max)) {
        line(both);
        continue;
      }
      line("  " + key);
      folded("    A  ", a);
      folded("    B  ", b);
    }
    if (!differ) line("  none");
  }

  const NamedReport& a_;
  const NamedReport& b_;
  const Screen& screen_;
  const u32 value_columns_ = screen_.columns < compare_columns_max ? 11 : 18;
  std::string out_;
};

}  // namespace

std::string render_comparison(const NamedReport& a, const NamedReport& b, const Screen& screen) {
  return Comparison(a, b, screen).text();
}

}  // namespace tidepool
