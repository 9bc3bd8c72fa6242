// Renders the report at the end of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/units.h"
#include "report/carried_text.h"
#include "report/drive_life.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

u32 page_columns(const Screen& screen) { return std::min(screen.columns, 80u); }

Bytes per_step(Bytes total, u64 steps) {
  return steps == 0 ? Bytes{} : Bytes{(total.value + steps / 2) / steps};
}

class Report {
 public:
  Report(const RunReport& run, const Screen& screen) : run_(run), screen_(screen) {}

  std::string text() {
    heading();
    losses();
    experts();
    time();
    bytes();
    peaks();
    closing();
    return std::move(out_);
  }
  std::string unfinished_text(const std::string& state) {
    heading();
    words(state);
    losses();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += text + "\n"; }
  void words(const std::string& text) {
    for (const std::string& l : wrap_words(text, page_columns(screen_) - 2, 0)) line(" " + l);
  }
  void section(const std::string& title, const std::string& aside) {
    line("");
    line(" " + paint(screen_, Ink::bold, title) +
         (aside.empty() ? "" : "  " + paint(screen_, Ink::dim, aside)));
  }
  std::string dot() const { return screen_.unicode ? " · " : ", "; }

  void heading() {
    std::string text =
        fmt::format("{} step{} in {}{}{} tokens/s", run_.steps, run_.steps == 1 ? "" : "s",
                    seconds_text(run_.train_seconds), dot(), count_text(run_.tokens_per_second));
    if (const std::string share = share_of_peak_text(run_); !share.empty()) text += dot() + share;
    if (run_.resumed_from_step > 0)
      text += fmt::format("{}resumed from step {}", dot(), run_.resumed_from_step);
    line("");
    line(" " + paint(screen_, Ink::bold, "Tidepool report") + dot() + run_.model + dot() + run_.precision);
    line(" " + paint(screen_, Ink::dim, repeat(screen_.unicode ? "─" : "-", page_columns(screen_) - 2)));
    line(" " + text);
    if (run_.steps_per_epoch > 0) line(" " + epochs());
  }

  // Counted over the whole run, as the losses are.
  std::string epochs() const {
    const u64 done = run_.resumed_from_step + run_.steps;
    return fmt::format(
        "{} epochs of {} step{}{}{} tokens trained on",
        significant_text(static_cast<double>(done) / static_cast<double>(run_.steps_per_epoch)),
        run_.steps_per_epoch, run_.steps_per_epoch == 1 ? "" : "s", dot(),
        count_text(static_cast<double>(run_.tokens)));
  }

  // "perplexity 24.93", "accuracy 0.914".
  std::string figure_beside_loss() const {
    if (run_.eval_figures.empty()) return "perplexity " + perplexity_text(std::exp(run_.eval_losses.back()));
    std::string_view name = run_.eval_figure;
    if (name.starts_with("eval_")) name.remove_prefix(5);
    return fmt::format("{} {}", name, significant_text(run_.eval_figures.back()));
  }

  void losses() {
    std::vector<PlotMark> marks;
    for (std::size_t i = 0; i < std::min(run_.eval_steps.size(), run_.eval_losses.size()); ++i) {
      marks.push_back({run_.eval_steps[i], run_.eval_losses[i]});
    }
    const auto lines =
        render_plot(run_.losses, marks, {.columns = page_columns(screen_) - 2, .rows = 8}, screen_);
    if (lines.empty()) return;
    std::string title = "Loss";
    std::string aside;
    if (!run_.losses.empty()) {
      aside = fmt::format("{:.4f} {} {:.4f}", run_.losses.front(), screen_.unicode ? "→" : "->",
                          run_.losses.back());
    }
    if (!run_.eval_losses.empty()) {
      aside += fmt::format("{}validation {:.4f} ({})", dot(), run_.eval_losses.back(),
                           screen_.unicode ? "◆" : "o");
      if (page_columns(screen_) >= 72) aside += ", " + figure_beside_loss();
    }
    section(title, aside);
    for (const std::string& l : lines) line(l);
    if (run_.loss_scale > 0)
      dim_items(
          {fmt::format("fp16 loss scale {:g} at the end", run_.loss_scale),
           fmt::format("{} of {} steps skipped for an overflow", run_.skipped_steps, run_.losses.size())},
          dot());
  }

  void experts() {
    const std::string text = run_.experts ? expert_use_text(*run_.experts) : "";
    if (!text.empty()) words(text);
  }

  void time() {
    if (run_.exposed.empty()) return;
    section("Where the time went", run_.steps == 1 ? "one step" : fmt::format("all {} steps", run_.steps));
    double sum = 0;
    for (const ExposedTime& e : run_.exposed) sum += std::max(0.0, e.seconds);
    std::vector<ExposedTime> causes = run_.exposed;
    std::stable_sort(causes.begin(), causes.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    const u32 width = page_columns(screen_) - 34;
    for (const ExposedTime& e : causes) {
      if (e.cause == "comm" && !run_.comm && e.seconds == 0) continue;  // there are no other devices
      const double share = sum > 0 ? e.seconds / sum : 0;
      line(fmt::format("  {:<12}{} {:>6} {:>10}", cause_label(e.cause),
                       bar(screen_, share, width, e.cause == "compute" ? Ink::green : Ink::yellow),
                       percent_text(share), seconds_text(e.seconds)));
    }
    step_lengths();
    if (!run_.phases.empty()) phases();
  }

  void dim_items(std::vector<std::string> items, std::string_view separator, u32 indent = 2) {
    items[0].insert(0, indent, ' ');
    for (const std::string& l : wrap_items(items, separator, page_columns(screen_) - 1, 4))
      line(paint(screen_, Ink::dim, l));
  }

  void step_lengths() {
    if (run_.steps == 0) return;
    std::vector<std::string> items = {
        fmt::format("median of {} step{} {}", run_.steps, run_.steps == 1 ? "" : "s",
                    seconds_text(run_.step_seconds)),
        fmt::format("mean with the last update {}",
                    seconds_text(run_.train_seconds / static_cast<double>(run_.steps)))};
    if (run_.predicted_step_seconds > 0)
      items.push_back("predicted " +
                      seconds_range_text(run_.predicted_step_seconds, run_.predicted_step_range));
    dim_items(std::move(items), dot());
    for (const std::string& note : measurement_notes(run_))
      for (const std::string& l : wrap_words(note, page_columns(screen_) - 3, 0)) line("  " + l);
  }

  // A bound above the measured time is none: reports of older versions have such.
  static std::string least_text(const PhaseTime& p) {
    const bool bounds = p.bound_seconds > 0 && p.bound_seconds <= p.seconds;
    return bounds ? fmt::format(" (least {})", seconds_text(p.bound_seconds)) : "";
  }

  void phases() {
    double sum = 0;
    for (const PhaseTime& p : run_.phases) sum += p.seconds;
    std::vector<std::string> items;
    for (const PhaseTime& p : run_.phases)
      items.push_back(fmt::format("{} {}{}", p.phase, seconds_text(p.seconds), least_text(p)));
    const std::string of =
        run_.phase_steps > 0 ? fmt::format("median of {} steady steps", run_.phase_steps) : "a steady step";
    dim_items({fmt::format("{} {}", of, seconds_text(sum))}, "");
    dim_items(std::move(items), " + ", 4);
  }

  void bytes() {
    section("Bytes in a step",
            fmt::format("{}mean of {} step{}, first and last too",
                        run_.nodes > 1 ? fmt::format("of the first of {} nodes, ", run_.nodes) : "",
                        run_.steps, run_.steps == 1 ? "" : "s"));
    line(paint(screen_, Ink::dim,
               fmt::format("  {:<12}{:>{}}{:>{}}{:>{}}{:>{}}", "link", "measured", cell_, "planned",
                           cell_ + 2, "least", cell_ + 2, "ratio", cell_ - 3)));
    for (u32 i = 0; i < link_count; ++i) link(name(static_cast<LinkKind>(i)), run_.links[i]);
    if (run_.network) {
      link(name(LaneKind::net_send), (*run_.network)[0]);
      link(name(LaneKind::net_receive), (*run_.network)[1]);
    }
    if (run_.comm) comm(*run_.comm);
    steady_bytes();
  }

  // Bytes of a steady step, as `tidepool plan` states them: the first and the last step move other amounts.
  void steady_bytes() {
    std::vector<std::string> items;
    bool known = false;
    for (u32 i = 0; i < link_count; ++i) {
      const Bytes bytes = run_.links[i].planned_steady;
      known = known || bytes.value > 0;
      items.push_back(fmt::format("{} {}", name(static_cast<LinkKind>(i)), bytes_text(bytes)));
    }
    if (run_.network)
      items.push_back(fmt::format("net_send {}", bytes_text((*run_.network)[0].planned_steady)));
    if (run_.comm) items.push_back(fmt::format("collectives {}", bytes_text(run_.comm->planned_steady)));
    if (!known) return;  // a report of an older version
    items[0] = "a steady step is planned with: " + items[0];
    dim_items(std::move(items), dot());
  }

  std::string verdict(Bytes measured, Bytes planned) const {
    if (measured == planned) return paint(screen_, Ink::green, screen_.unicode ? "✓" : "=");
    return paint(screen_, Ink::red, fmt::format("{:+d} B", static_cast<i64>(measured.value - planned.value)));
  }

  std::string moved(std::string_view what, Bytes measured, Bytes planned, const std::string& least,
                    const std::string& ratio, const std::string& verdict) const {
    return fmt::format(
        "  {:<12}{:>{}}{:>{}}{:>{}}{:>{}}  {}", what, bytes_text(per_step(measured, run_.steps)), cell_,
        bytes_text(per_step(planned, run_.steps)), cell_ + 2, least, cell_ + 2, ratio, cell_ - 3, verdict);
  }

  void comm(const CommUse& use) {
    line(moved("collectives", use.measured, use.planned, "-", "-", verdict(use.measured, use.planned)));
  }

  void link(std::string_view what, const LinkUse& use) {
    const double ratio = use.lower_bound.value == 0 ? (use.measured.value == 0 ? 1.0 : std::nan(""))
                                                    : static_cast<double>(use.measured.value) /
                                                          static_cast<double>(use.lower_bound.value);
    line(moved(what, use.measured, use.planned, bytes_text(per_step(use.lower_bound, run_.steps)),
               ratio_text(ratio), verdict(use.measured, use.planned)));
  }

  void peaks() {
    section("Peaks", "");
    const u32 width = page_columns(screen_) - 40;
    line(paint(screen_, Ink::dim, fmt::format("  {:<12}{:>12}{:>12}", "tier", "measured", "budget")));
    for (u32 i = 0; i < tier_count; ++i) {
      const TierPeak& t = run_.tiers[i];
      const double share = t.budget.value == 0 ? 0
                                               : static_cast<double>(t.measured_peak.value) /
                                                     static_cast<double>(t.budget.value);
      line(fmt::format("  {:<12}{:>12}{:>12}  {}", name(static_cast<Tier>(i)), bytes_text(t.measured_peak),
                       bytes_text(t.budget), bar(screen_, share, width, share > 1 ? Ink::red : Ink::cyan)));
    }
    line(fmt::format("  {:<12}{:>12}   resident, the whole process", "process", bytes_text(run_.rss_peak)));
    for (const GpuUse& g : run_.gpus)
      line(fmt::format("  {:<12}{:>10.0f} W   most {:.0f} W; {:.0f} MHz, least {:.0f}; most {:.0f} C", g.name,
                       g.watts_mean, g.watts_most, g.mhz_mean, g.mhz_least, g.celsius_most));
  }

  void closing() {
    line("");
    const Bytes written = run_.links[static_cast<u32>(LinkKind::disk_write)].measured;
    words(fmt::format("The SSD took {} per step, {} in all, and {} of checkpoints.",
                      bytes_text(per_step(written, run_.steps)), bytes_text(written),
                      bytes_text(run_.checkpoint_written)));
    if (written.value > 0) {
      const double per_day = static_cast<double>(written.value) / run_.train_seconds * 86'400;
      words(fmt::format("At this pace {}.", drive_life_text(drive_life(run_.disk_endurance, per_day))));
    }
    if (run_.speculated)
      words(run_.redos == 0
                ? "Updates did not wait for the gradient norm, and it changed none of them."
                : fmt::format("Updates did not wait for the gradient norm. It changed those of {} step{}: {} "
                              "step{} trained once more.",
                              run_.redos, run_.redos == 1 ? "" : "s", run_.redone_steps,
                              run_.redone_steps == 1 ? " was" : "s were"));
    if (run_.io_retries > 0) words(fmt::format("{} I/O operations needed a second try.", run_.io_retries));
    if (!run_.stopped_early.empty()) words(fmt::format("Stopped early: {}.", run_.stopped_early));
    if (!run_.best_checkpoint.empty()) words(best());
    if (!run_.weights_xxh3.empty()) words(fmt::format("Weights: xxh3 {}", run_.weights_xxh3));
  }

  std::string best() const {
    const std::string loss =
        loss_text(run_.best_eval_loss) +
        (run_.best_ranked_by.empty() ? "" : fmt::format(", chosen by {}", run_.best_ranked_by));
    if (run_.best_eval_step == run_.best_step)
      return fmt::format("Best: {}, eval_loss {} (checkpoint-best)", run_.best_checkpoint, loss);
    if (run_.best_eval_step == 0)
      return fmt::format("Best: eval_loss {}; {} is the first checkpoint from there on (checkpoint-best)",
                         loss, run_.best_checkpoint);
    return fmt::format("Best: eval_loss {} at step {}; the first checkpoint after it is {} (checkpoint-best)",
                       loss, run_.best_eval_step, run_.best_checkpoint);
  }

  const RunReport& run_;
  const Screen& screen_;
  const u32 cell_ = screen_.columns < 72 ? 9 : 12;
  std::string out_;
};

}  // namespace

std::string render_report(const RunReport& run, const Screen& screen) { return Report(run, screen).text(); }

std::string render_unfinished(const RunReport& run, const std::string& state, const Screen& screen) {
  return Report(run, screen).unfinished_text(state);
}

}  // namespace tidepool
