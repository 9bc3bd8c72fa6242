// Plans the device tier: windows, accumulators, activations and workspace over one turn of the body, and
// which of them stay between uses. With several devices it plans one: the others are alike, with
// micro-batches and shards of their own.
#include <algorithm>

#include "planner/device_chains.h"
#include "planner/residence.h"

namespace tidepool {
namespace {

class DevicePlanner {
 public:
  DevicePlanner(const ResidenceInput& in, const DeviceTierOptions& options)
      : in_(in),
        graph_(in.graph),
        layout_(in.layout),
        program_(in.program),
        micro_batches_(in.program.sweep_micro_batches),
        home_bytes_least_(options.home_bytes_least),
        within_least_(options.within_least),
        touched_(in, out_.home) {
    const Bytes budget = in.options.budgets.device, taken = in.options.device_reserved + options.shrink;
    budget_ = budget > taken ? budget - taken : Bytes{0};
    out_.home.assign(graph_.windows.size(), false);
    out_.keep.assign(graph_.blocks.size() * micro_batches_, false);
  }

  DeviceTier plan() {
    if (in_.options.home != HomePolicy::automatic || !all_resident()) {
      force_homes();
      rest_what_is_trained();
    }
    // Windows that come to rest here need less room to stream, so the budget that is left is divided again.
    while (choose()) {
    }
    build_arcs();
    out_.home_bytes = {};
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      if (touched_.is_home(w)) out_.home_bytes += bytes_at_home(layout_, w);
    out_.peak = place_arcs(out_.arcs, {.positions = program_.positions(),
                                       .capacity = within_least_ ? std::max(budget_, least_) : budget_,
                                       .lookahead = static_cast<i32>(in_.options.lookahead),
                                       .start = program_.first_backward}) +
                in_.options.device_reserved;
    return std::move(out_);
  }

 private:
  // ---- arcs -----------------------------------------------------------------------------------

  Span on_circle(Span span) const {
    const i32 turn = program_.positions();
    if (span.end >= turn) span = {span.begin - turn, span.end - turn};
    return span;
  }

  Arc make_arc(const DeviceChain& chain, Span span) const {
    return {.first = chain.first,
            .count = chain.count,
            .bytes = layout_.bytes(chain.first, chain.count),
            .span = on_circle(span),
            .floor = chain.floor,
            .spread = chain.spread,
            .from_rest = chain.from_rest};
  }

  Arc permanent(ChunkId first, u32 count) const {
    return {.first = first,
            .count = count,
            .bytes = layout_.bytes(first, count),
            .span = {0, program_.positions() - 1},
            .permanent = true};
  }

  Arc resting(u32 w, ChunkId first) const {
    Arc arc = permanent(first, layout_.windows[w].shard_cuts);
    if (touched_.sharded()) arc.spread = Spread::shard;
    if (layout_.params_die(w) && layout_.chunk(first).kind == Kind::param) {
      arc.permanent = false;
      arc.span = touched_.param_span(w);
      arc.from_rest = FromRest::throughout;
    }
    return arc;
  }

  // Arcs that no choice can avoid, with no stays between passes.
  std::vector<Arc> least_arcs() const {
    std::vector<Arc> arcs = fixed_arcs();
    for (const DeviceChain& chain : touched_.all())
      for (u64 t = 0; t < chain.touches.size(); ++t) {
        Span span = chain.touches[t];
        while (t + 1 < chain.touches.size() && chain.gaps[t].stays) span.end = chain.touches[++t].end;
        arcs.push_back(make_arc(chain, span));
      }
    return arcs;
  }

  std::vector<Arc> home_arcs() const {
    std::vector<Arc> arcs;
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!touched_.is_home(w)) continue;
      for (ChunkId first : layout_.state(w, 0)) arcs.push_back(resting(w, first));
    }
    return arcs;
  }

  // Arcs of workspace, batches, gradient streams, and windows that rest here.
  std::vector<Arc> fixed_arcs() const {
    std::vector<Arc> arcs = {permanent(layout_.workspace, 1)};
    for (u32 s = 0; s < touched_.sweeps(); ++s)
      for (u32 m = 0; m < micro_batches_; ++m) {
        const Bytes batch = layout_.bytes(layout_.batch[m], 1);
        arcs.push_back({.first = layout_.batch[m], .bytes = batch, .span = touched_.batch_span(s, m)});
        for (u32 stream = 0; layout_.trains && stream < graph_.streams.size(); ++stream)
          if (const std::optional<Span> span = touched_.gradient_stream_span(stream, s, m))
            arcs.push_back({.first = layout_.stream(stream, m),
                            .bytes = layout_.bytes(layout_.stream(stream, m), 1),
                            .span = *span});
      }
    for (const Arc& arc : home_arcs()) arcs.push_back(arc);
    return arcs;
  }

  // ---- choices --------------------------------------------------------------------------------

  // Windows that several nodes train do not rest on devices: their gradients and updated parameters pass
  // through the host in each step anyway.
  bool may_rest(u32 w) const { return layout_.nodes == 1 || !layout_.windows[w].trains; }

  // By window: true if it trains and one of the first blocks reads it. The embedding's window is often the
  // head's too.
  std::vector<bool> early_windows() const {
    std::vector<bool> early(graph_.windows.size(), false);
    const size_t blocks = std::min<size_t>(in_.options.early_blocks, graph_.blocks.size());
    for (size_t b = 0; b < blocks; ++b)
      for (const u32 w : graph_.blocks[b].windows) early[w] = layout_.windows[w].trains;
    return early;
  }

  // Homes that were asked for, and homes of state that host and disk have no room for. Chosen before any stay
  // that saves a copy, and even if they leave no room to stream ahead.
  void force_homes() {
    const std::vector<bool> early = early_windows();
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!may_rest(w)) continue;
      out_.home[w] = in_.options.home == HomePolicy::device ||
                     (in_.options.home == HomePolicy::mixed && w % 3 == 0) || early[w] ||
                     out_.home_bytes < home_bytes_least_;
      if (out_.home[w]) out_.home_bytes += bytes_at_home(layout_, w);
    }
  }

  // The trained windows beside a frozen model are small: at home here they need neither copies nor Adam on
  // the CPU.
  void rest_what_is_trained() {
    const auto trained = [&](u32 w) { return layout_.windows[w].trains; };
    bool all = true;
    for (u32 w = 0; w < graph_.windows.size(); ++w) all &= trained(w);
    if (in_.options.home != HomePolicy::automatic || all || layout_.nodes > 1) return;
    const std::vector<bool> before = out_.home;
    const Bytes bytes_before = out_.home_bytes;
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!trained(w) || out_.home[w]) continue;
      out_.home[w] = true;
      out_.home_bytes += bytes_at_home(layout_, w);
    }
    Profile used(program_.positions(), layout_.params_die());
    for (const Arc& arc : least_arcs()) used.add(arc.span, arc.bytes, arc.from_rest);
    if (used.peak() + streaming_reserve() <= budget_) return;
    out_.home = before;
    out_.home_bytes = bytes_before;
  }

  // A model that fits the device is planned as resident, without any choice of stays.
  bool all_resident() {
    bool all = true;
    for (u32 w = 0; w < graph_.windows.size(); ++w) all &= out_.home[w] = may_rest(w);
    const Bytes resident = resident_peak();
    out_.resident = resident + in_.options.device_reserved;
    if (all && resident <= budget_) return true;
    out_.home.assign(graph_.windows.size(), false);
    return false;
  }

  Bytes resident_peak() const {
    Profile profile(program_.positions(), layout_.params_die());
    for (const Arc& arc : fixed_arcs()) profile.add(arc.span, arc.bytes, arc.from_rest);
    for (const DeviceChain& chain : touched_.all())
      profile.add(on_circle({chain.touches.front().begin, chain.touches.back().end}),
                  layout_.bytes(chain.first, chain.count), chain.from_rest);
    return profile.peak();
  }

  // Room for the next window to come up and for the last gradient to go down while a block computes.
  Bytes streaming_reserve() const {
    Bytes window{}, gradient{};
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      const WindowChunks& chunks = layout_.windows[w];
      if (touched_.streams(w)) window = std::max(window, layout_.bytes(chunks.param, chunks.cuts));
      if (!touched_.is_home(w)) gradient = std::max(gradient, gradient_bytes(layout_, w));
    }
    return window + gradient;
  }

  // Chooses the working set and the stays.
  // RETURNS: true if it only made more windows rest here, and chose no stays.
  bool choose() {
    const bool all_home = std::find(out_.home.begin(), out_.home.end(), false) == out_.home.end();
    Profile used(program_.positions(), layout_.params_die());
    for (const Arc& arc : least_arcs()) used.add(arc.span, arc.bytes, arc.from_rest);
    least_ = used.peak();
    if (out_.needs_least.value == 0) out_.needs_least = least_;  // before more windows rest here
    const bool resident = all_home && (!touched_.sharded() || resident_peak() <= budget_);
    const Bytes reserve = resident ? Bytes{0} : streaming_reserve();
    // State that rests here is a choice, not a need of streaming.
    Profile at_home(program_.positions());
    for (const Arc& arc : home_arcs()) at_home.add(arc.span, arc.bytes);
    out_.working_set.clear(), out_.least_set.clear();
    for (i32 p = 0; p < program_.positions(); ++p) {
      out_.least_set.push_back((used.at(p) + in_.options.device_reserved - at_home.at(p)).value);
      out_.working_set.push_back(out_.least_set.back() + reserve.value);
    }
    const Bytes room = budget_ > reserve ? budget_ - reserve : Bytes{0};
    if (choose_stays_of_chains(room, used)) return true;
    choose_keep(room, used);
    return false;
  }

  bool choose_stays_of_chains(Bytes room, Profile& used) {
    chains_ = touched_.all();
    std::vector<Stay> stays;
    struct Choice {
      u32 chain = none, gap = none;  // a gap of a chain, or else `window`, which then rests here
      u32 window = none;
    };
    std::vector<Choice> choices;
    for (u32 c = 0; c < chains_.size(); ++c)
      for (u32 g = 0; g < chains_[c].gaps.size(); ++g) {
        const DeviceChain& chain = chains_[c];
        if (chain.gaps[g].stays) continue;
        const Bytes bytes = layout_.bytes(chain.first, chain.count);
        // Each device fetches only its shard of a window.
        const u64 moved = chain.spread == Spread::copy ? bytes.value / layout_.devices : bytes.value;
        stays.push_back({.span = chain.gaps[g].span,
                         .bytes = bytes,
                         .saved_bytes = moved * (chain.produced_here ? 2 : 1),
                         .from_rest = chain.from_rest});
        choices.push_back({.chain = c, .gap = g});
      }
    if (in_.options.home == HomePolicy::automatic)
      for (u32 w = 0; w < graph_.windows.size(); ++w) {
        if (touched_.is_home(w) || !may_rest(w)) continue;
        stays.push_back(home_stay(w));
        choices.push_back({.window = w});
      }
    bool homes_changed = false;
    for (u32 i : choose_stays(stays, room, used)) {
      const Choice& choice = choices[i];
      if (choice.window == none) chains_[choice.chain].gaps[choice.gap].stays = true;
      if (choice.window != none) homes_changed = out_.home[choice.window] = true;
    }
    return homes_changed;
  }

  // Stay of a window's whole state, and of its gradient while it waits. It saves every copy, and the reads
  // and writes if the state would rest on disk.
  Stay home_stay(u32 w) const {
    const WindowChunks& chunks = layout_.windows[w];
    const u64 param = layout_.bytes(chunks.param, chunks.shard_cuts).value;
    const u64 grad = gradient_bytes(layout_, w).value;
    const u64 state = state_bytes(layout_, w).value;
    return {.span = {0, program_.positions() - 1},
            .bytes = bytes_at_home(layout_, w),
            .saved_bytes = 2 * param + grad + 2 * state};
  }

  // Keeps the insides of blocks, from the last block backwards: backward then starts without recompute. If
  // keeping is forced but does not fit, the peak exceeds the budget.
  void choose_keep(Bytes room, Profile& used) {
    if (in_.options.recompute == RecomputePolicy::recompute || !layout_.trains) return;
    const bool forced = in_.options.recompute == RecomputePolicy::keep;
    for (u32 b = touched_.head(); b-- > program_.last_backward_block;)
      for (u32 m = 0; m < micro_batches_; ++m) {
        const Bytes bytes = graph_.blocks[b].kept;
        if (bytes.value == 0) continue;
        const Bytes frame = layout_.bytes(layout_.kept[b * micro_batches_ + m], 1);
        Bytes peak{};
        for (u32 s = 0; s < touched_.sweeps(); ++s)
          peak = std::max(peak, used.peak(touched_.kept_span(b, s, m)));
        if (!forced && peak + frame > room) return;
        for (u32 s = 0; s < touched_.sweeps(); ++s) used.add(touched_.kept_span(b, s, m), frame);
        out_.keep[b * micro_batches_ + m] = true;
      }
  }

  // ---- result ---------------------------------------------------------------------------------

  void build_arcs() {
    out_.arcs = fixed_arcs();
    for (u32 s = 0; s < touched_.sweeps(); ++s)
      for (u32 b = 0; b <= touched_.head(); ++b)
        for (u32 m = 0; m < micro_batches_; ++m)
          if (out_.keep[b * micro_batches_ + m]) {
            const ChunkId id = layout_.kept[b * micro_batches_ + m];
            out_.arcs.push_back(
                {.first = id, .bytes = layout_.bytes(id, 1), .span = touched_.kept_span(b, s, m)});
          }
    for (const DeviceChain& chain : chains_) build_chain(chain);
  }

  void build_chain(const DeviceChain& chain) {
    u32 previous = none;
    for (u64 t = 0; t < chain.touches.size(); ++t) {
      const u64 begin = t;
      Span span = chain.touches[t];
      while (t + 1 < chain.touches.size() && chain.gaps[t].stays) span.end = chain.touches[++t].end;
      Arc arc = make_arc(chain, span);
      const u32 a = static_cast<u32>(out_.arcs.size());
      if (!chain.produced_here) {
        arc.filled = true;
        if (begin > 0) arc.floor = std::max(arc.floor, chain.touches[begin - 1].end + 1);
        out_.arrivals.push_back({.window = chain.window,
                                 .arc = a,
                                 .segments = segments_of(*chain.passes[begin], touched_.head())});
      } else if (previous != none) {
        arc.filled = true;
        const i32 turn = span.begin - arc.span.begin;
        arc.floor = chain.touches[begin - 1].end + 1 - turn;
        out_.departures.back().back_arc = a;
        out_.departures.back().back_turn = turn;
      }
      const bool last = t + 1 == chain.touches.size();
      if (chain.produced_here && (!last || chain.leaves)) {
        arc.tail = tail_positions();
        out_.departures.push_back({.first = chain.first,
                                   .count = chain.count,
                                   .spread = chain.spread,
                                   .from_arc = a,
                                   .out = span.end,
                                   .segments = last || chain.segments.empty()
                                                   ? static_cast<u8>(in_first | in_body)
                                                   : chain.segments[t + 1]});
      }
      out_.arcs.push_back(arc);
      previous = a;
    }
  }

  // The next block's pass over its micro-batches should hide the copy out of a frame.
  i32 tail_positions() const { return static_cast<i32>(micro_batches_) + 1; }

  const ResidenceInput& in_;
  const ModelGraph& graph_;
  const Layout& layout_;
  const Program& program_;
  u32 micro_batches_;
  Bytes home_bytes_least_;
  bool within_least_;
  Bytes budget_;
  Bytes least_{};  // needs of the arcs that no choice can avoid, with the windows that rest here
  DeviceTier out_;
  DeviceChains touched_;
  std::vector<DeviceChain> chains_;
};

}  // namespace

DeviceTier plan_device_tier(const ResidenceInput& in, const DeviceTierOptions& options) {
  return DevicePlanner(in, options).plan();
}

}  // namespace tidepool
