// Renders the plan as a table: what fits where, what moves, what limits the speed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/units.h"
#include "report/carried_text.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

constexpr u32 label_columns = 14;

// Look of a kind: a letter for bars without colour, and one name for similar kinds.
struct Look {
  std::string_view name;
  char letter;
  Ink ink;
};
Look look(const StateSlots& slots, Kind kind) {
  if (is_slot(kind)) {
    constexpr std::array<Ink, 3> inks = {Ink::green, Ink::yellow, Ink::blue};
    const u32 number = slot_of(kind) - (slots.has_master() ? 1 : 0);
    return {slots[kind].name, slots[kind].letter,
            slots.is_master(kind) ? Ink::blue : inks[number % inks.size()]};
  }
  switch (kind) {
    case Kind::param:
      return {"param", 'P', Ink::cyan};
    case Kind::grad:
    case Kind::grad_accum:
    case Kind::grad_part:
      return {"gradients", 'G', Ink::magenta};
    case Kind::activation:
    case Kind::post_attention:
    case Kind::normed:
    case Kind::routes:
    case Kind::expert_sum:
    case Kind::router_sums:
    case Kind::branches:
    case Kind::shared_keys:
    case Kind::layer_inputs:
    case Kind::activation_grad:
    case Kind::normed_grad:
    case Kind::routes_grad:
    case Kind::branches_grad:
    case Kind::shared_keys_grad:
    case Kind::layer_inputs_grad:
    case Kind::kept:
      return {"activations", 'A', Ink::red};
    default:
      return {"workspace", 'W', Ink::plain};
  }
}

// Kinds with the same look are one entry, in order of first appearance.
struct LookUse {
  Look look;
  Bytes bytes;
};
std::vector<LookUse> merged(const StateSlots& slots, const std::vector<KindUse>& uses) {
  std::vector<LookUse> out;
  for (const KindUse& use : uses) {
    if (use.bytes.value == 0) continue;
    const Look l = look(slots, use.kind);
    const auto at =
        std::find_if(out.begin(), out.end(), [&](const LookUse& u) { return u.look.letter == l.letter; });
    if (at == out.end()) {
      out.push_back({l, use.bytes});
    } else {
      at->bytes += use.bytes;
    }
  }
  return out;
}

Bytes total(const std::vector<KindUse>& uses) {
  Bytes sum{};
  for (const KindUse& use : uses) sum += use.bytes;
  return sum;
}

std::vector<KindUse> reserved_use(const TierSummary& t) { return {{Kind::workspace, t.reserved}}; }

// Kinds that pass through a tier share the same space at different times, so they add up to more than the
// plan's share for them. They are scaled down in proportion.
std::vector<LookUse> shares_of(const StateSlots& slots, const TierSummary& t) {
  std::vector<LookUse> uses = merged(slots, t.resting);
  for (const LookUse& use : merged(slots, reserved_use(t))) uses.push_back(use);
  const u64 stays = (total(t.resting) + t.reserved).value, passes = total(t.streaming).value;
  const u64 left = t.planned_peak.value - std::min(t.planned_peak.value, stays);
  for (LookUse use : merged(slots, t.streaming)) {
    use.bytes = Bytes{static_cast<u64>(static_cast<double>(use.bytes.value) / static_cast<double>(passes) *
                                       static_cast<double>(left))};
    uses.push_back(use);
  }
  return uses;
}

// A bar for the tier's budget, in which each kind has glyphs in proportion, with its colour or letter.
std::string stacked_bar(const std::vector<LookUse>& uses, Bytes whole, u32 width, const Screen& screen) {
  std::string out;
  u64 bytes = 0;
  u32 drawn = 0;
  for (const LookUse& use : uses) {
    bytes += use.bytes.value;
    // Cumulative, so that rounding never makes the bar too long.
    const u32 end =
        whole.value == 0
            ? 0
            : std::min(width, static_cast<u32>(std::llround(static_cast<double>(bytes) /
                                                            static_cast<double>(whole.value) * width)));
    if (end <= drawn) continue;
    const bool block = screen.unicode && screen.color;
    const std::string glyph = block ? "█" : std::string(1, use.look.letter);
    out += paint(screen, use.look.ink, repeat(glyph, end - drawn));
    drawn = end;
  }
  return out + paint(screen, Ink::dim, repeat(screen.unicode ? "·" : ".", width - drawn));
}

std::string legend_item(const LookUse& use, const Screen& screen) {
  const std::string key = screen.unicode && screen.color ? "■" : std::string(1, use.look.letter);
  return fmt::format("{} {} {}", paint(screen, use.look.ink, key), use.look.name, bytes_text(use.bytes));
}

class Table {
 public:
  Table(const PlanSummary& plan, const Screen& screen) : plan_(plan), screen_(screen) {}

  std::string text() {
    heading();
    model();
    cost();
    tiers();
    links();
    verdict();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += text + "\n"; }
  void row(const std::string& label, const std::string& text) {
    const auto lines = wrap_words(text, std::min(screen_.columns, 80u) - 2 - label_columns, 0);
    for (const std::string& l : lines)
      line(" " + paint(screen_, Ink::bold, pad_right(&l == &lines.front() ? label : "", label_columns)) + l);
  }
  void section(const std::string& title, const std::string& aside) {
    line("");
    line(" " + paint(screen_, Ink::bold, title) + "  " + paint(screen_, Ink::dim, aside));
  }
  std::string dot() const { return screen_.unicode ? " · " : ", "; }
  std::string times() const { return screen_.unicode ? " × " : " x "; }

  void heading() {
    const std::string precision(name(plan_.precision));
    std::vector<std::string> items = {paint(screen_, Ink::bold, "Tidepool plan"), plan_.model, precision,
                                      plan_.executor};
    for (const std::string& l : wrap_items(items, dot(), std::min(screen_.columns, 80u) - 2, 0))
      line(" " + l);
    line(" " +
         paint(screen_, Ink::dim, repeat(screen_.unicode ? "─" : "-", std::min(screen_.columns, 80u) - 2)));
  }

  void model() {
    const std::string active =
        plan_.active_parameters == 0
            ? ""
            : fmt::format(" ({} active)", count_text(static_cast<double>(plan_.active_parameters)));
    row("Model", fmt::format("{} parameters{}{}{} layers{}{} wide{}{} heads{}vocab {}",
                             count_text(static_cast<double>(plan_.parameters)), active, dot(), plan_.layers,
                             times(), plan_.width, dot(), plan_.heads, dot(), plan_.vocabulary) +
                     (plan_.labels > 0 ? fmt::format("{}{} labels", dot(), plan_.labels) : ""));
    const u64 tokens = plan_.sequences * plan_.tokens_per_sequence * plan_.micro_batches;
    row("Step", fmt::format("{} tokens = {} micro-batch{}{}{}{}{}{}{}", tokens, plan_.micro_batches,
                            plan_.micro_batches == 1 ? "" : "es", times(), plan_.sequences, times(),
                            plan_.tokens_per_sequence,
                            plan_.sweeps > 1 ? fmt::format(", {} sweeps", plan_.sweeps) : "",
                            plan_.clipping ? ", clipped" : ""));
    if (plan_.experts_per_group < plan_.experts)
      row("", fmt::format("a layer: {} experts in groups of {}", plan_.experts, plan_.experts_per_group));
    if (plan_.tiles > 1)
      row("", fmt::format("a micro-batch: {} tiles of {} tokens{}", plan_.tiles, plan_.tile_tokens,
                          plan_.pieces > 1 ? fmt::format(", in {} pieces", plan_.pieces) : ""));
  }

  std::string costs(const std::vector<KindCost>& kinds) const {
    std::string out;
    for (const KindCost& k : kinds) {
      if (!out.empty()) out += " + ";
      out += fmt::format("{} {:.3g}", plan_.state_slots.name(k.kind), k.bytes_per_parameter);
    }
    return out;
  }
  void cost() {
    double sum = 0;
    for (const KindCost& k : plan_.kept) sum += k.bytes_per_parameter;
    const Bytes fast = plan_.tiers[0].budget * plan_.devices + plan_.tiers[1].budget;
    std::string size = bytes_text(plan_.state);
    if (fast.value > 0) {
      const double share = static_cast<double>(plan_.state.value) / static_cast<double>(fast.value);
      const std::string devices = plan_.devices > 1 ? fmt::format("{} devices'", plan_.devices) : "device";
      size += fmt::format(", {}{}{} + host budget", significant_text(share), times(), devices);
    }
    row("State", size);
    row("Per parameter", fmt::format("{:.3g} bytes = {}", sum, costs(plan_.kept)));
    for (const RuleCost& other : plan_.other_rules)
      row("", fmt::format("{:.3g} for the {} that take {}", other.bytes_per_parameter,
                          count_text(static_cast<double>(other.parameters)), other.optim));
    if (plan_.orthogonalized.matrices > 0)
      row("", fmt::format("{} matrices are orthogonalized, in {:.0f}% of a step's products",
                          plan_.orthogonalized.matrices, 100 * plan_.orthogonalized.share));
    if (plan_.trained_parameters < plan_.parameters)
      row("", fmt::format("of the {} that are trained; of the others param alone{}",
                          count_text(static_cast<double>(plan_.trained_parameters)),
                          plan_.quantization.empty() ? "" : ", matrices in " + plan_.quantization));
    if (!plan_.waiting.empty())
      row("", fmt::format("+ {} while {}", costs(plan_.waiting),
                          plan_.clipping && !plan_.speculates ? "gradients wait for the norm"
                                                              : "a gradient waits for its update"));
  }

  void tiers() {
    section("Where it lies", placement_note());
    for (u32 i = 0; i < tier_count; ++i) tier(static_cast<Tier>(i), plan_.tiers[i]);
  }

  std::string placement_note() const {
    if (plan_.devices == 1) return "kinds that pass take turns in the same space";
    if (plan_.layers_over_devices)
      return fmt::format("device: the fullest of {}, each with its layers", plan_.devices);
    return fmt::format("device: each of {}; what rests is a shard", plan_.devices);
  }

  void tier(Tier which, const TierSummary& t) {
    const Bytes whole = std::max(t.budget, t.planned_peak);
    const std::string free = bytes_text(whole - t.planned_peak) + " free";
    const u32 bar_width = std::min(screen_.columns, 80u) - 8 - 12 - 18;
    line(fmt::format(
        "  {}{}  {}  {}", pad_right(std::string(name(which)), 7), pad_left(bytes_text(t.budget), 10),
        stacked_bar(shares_of(plan_.state_slots, t), whole, bar_width, screen_), pad_left(free, 14)));
    legend("rests", t.resting);
    legend("holds", reserved_use(t));
    legend("passes", t.streaming);
  }

  void legend(const char* what, const std::vector<KindUse>& uses) {
    std::vector<std::string> items;
    for (const LookUse& use : merged(plan_.state_slots, uses)) items.push_back(legend_item(use, screen_));
    if (items.empty()) return;
    constexpr u32 indent = 21;
    items[0] = std::string(indent - 7, ' ') + paint(screen_, Ink::dim, pad_right(what, 7)) + items[0];
    for (const std::string& l : wrap_items(items, "  ", std::min(screen_.columns, 80u) - 1, indent)) line(l);
  }

  void links() {
    const bool timed = std::any_of(plan_.links.begin(), plan_.links.end(),
                                   [](const LinkSummary& l) { return l.seconds > 0; });
    section("What moves in a step", plan_.devices > 1
                                        ? fmt::format("a steady one, all {} devices together", plan_.devices)
                                        : "a steady one; the first moves more");
    line(paint(screen_, Ink::dim,
               fmt::format("  {:<11}{:>{}}{:>{}}{:>{}}{}", "link", "bytes", cell_ + 1, "least", cell_ + 2,
                           "ratio", cell_ - 3, timed ? fmt::format("{:>{}}", "busy", cell_) : "")));
    for (u32 i = 0; i < link_count; ++i) link(name(static_cast<LinkKind>(i)), plan_.links[i], timed);
    if (plan_.disk_weight > 0) together();
    if (plan_.nodes > 1) {
      link(name(LaneKind::net_send), plan_.network[0], timed);
      link(name(LaneKind::net_receive), plan_.network[1], timed);
    }
    if (plan_.compute_seconds > 0 && timed) {
      std::string text =
          fmt::format("  {:<11}{:>{}}", "compute", seconds_text(plan_.compute_seconds), 4 * cell_);
      if (is_bound_by(plan_.binds, "compute"))
        text += "  " + paint(screen_, Ink::yellow, screen_.unicode ? "◀ binds" : "< binds");
      line(text);
    }
  }

  std::string cells(std::string_view link, const LinkSummary& l) const {
    const double ratio = l.lower_bound.value == 0 ? (l.per_step.value == 0 ? 1.0 : std::nan(""))
                                                  : static_cast<double>(l.per_step.value) /
                                                        static_cast<double>(l.lower_bound.value);
    return fmt::format("  {:<11}{:>{}}{:>{}}{:>{}}", link, bytes_text(l.per_step), cell_ + 1,
                       bytes_text(l.lower_bound), cell_ + 2, ratio_text(ratio), cell_ - 3);
  }

  // Each link's least takes all memory for that link; this one shares it out.
  void together() {
    line(cells("together", plan_.together) +
         paint(screen_, Ink::dim, fmt::format("  disk bytes count {}-fold", plan_.disk_weight)));
  }

  void link(std::string_view link, const LinkSummary& l, bool timed) {
    std::string text = cells(link, l);
    if (timed) text += fmt::format("{:>{}}", seconds_text(l.seconds), cell_);
    const bool binds = is_bound_by(plan_.binds, link) ||
                       (is_bound_by(plan_.binds, "disk") && link.starts_with("disk_")) ||
                       (is_bound_by(plan_.binds, "net") && link.starts_with("net_"));
    if (binds) text += "  " + paint(screen_, Ink::yellow, screen_.unicode ? "◀ binds" : "< binds");
    line(text);
  }

  void verdict() {
    line("");
    if (plan_.predicted_step_seconds > 0) {
      const double tokens =
          static_cast<double>(plan_.sequences * plan_.tokens_per_sequence * plan_.micro_batches);
      const Spread& range = plan_.predicted_step_range;
      std::string text = fmt::format(
          "{} per step, {} tokens/s", seconds_range_text(plan_.predicted_step_seconds, range),
          range.wide()
              ? fmt::format("{} to {}", count_text(tokens / range.most), count_text(tokens / range.least))
              : count_text(tokens / plan_.predicted_step_seconds));
      if (!plan_.binds.empty()) text += "; " + binds_text(plan_.binds);
      row("Expect", text);
    } else if (!plan_.binds.empty()) {
      row("Binds", plan_.binds);
    }
    for (const std::string& note : plan_.notes) row(&note == &plan_.notes.front() ? "Notes" : "", note);
  }

  const PlanSummary& plan_;
  const Screen& screen_;
  const u32 cell_ = screen_.columns < 72 ? 9 : 12;
  std::string out_;
};

}  // namespace

std::string render_plan(const PlanSummary& plan, const Screen& screen) { return Table(plan, screen).text(); }

}  // namespace tidepool
