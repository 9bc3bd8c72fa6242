// Plans the device tier: windows, accumulators, activations and workspace over one turn of the body, and
// which of them stay between uses. With data over devices it plans one: the others are alike, with
// micro-batches and shards of their own. With layers over devices each is planned by itself.
#include <algorithm>

#include "planner/device_chains.h"
#include "planner/device_stays.h"
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
        units_(in.program.sweep_units()),
        home_bytes_least_(options.home_bytes_least),
        shortage_(options.shortage != nullptr ? *options.shortage : HostShortage{}),
        within_least_(options.within_least),
        touched_(in.graph, in.layout, in.program, out_.home) {
    const Bytes budget = in.options.budgets.device, taken = in.options.device_reserved + options.shrink;
    budget_ = budget > taken ? budget - taken : Bytes{0};
    out_.home.assign(graph_.windows.size(), false);
    out_.keep.assign(graph_.blocks.size() * units_, false);
  }

  DeviceTier plan() {
    if (in_.options.home != HomePolicy::automatic || !all_resident()) {
      force_homes();
      rest_what_is_trained();
    }
    // Windows that come to rest here need less room to stream, so the budget that is left is divided again.
    while (choose()) {
    }
    if (shortage_.most.value > 0 && in_.options.home == HomePolicy::automatic) rest_more();
    build_arcs();
    out_.home_bytes = std::ranges::max(home_bytes());
    for (u32 d = 0; d < touched_.arenas(); ++d) out_.peak = std::max(out_.peak, place(d));
    out_.peak += in_.options.device_reserved;
    return std::move(out_);
  }

 private:
  // Bytes of the windows at home, by arena.
  std::vector<Bytes> home_bytes() const {
    std::vector<Bytes> bytes(touched_.arenas());
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      if (touched_.is_home(w)) bytes[touched_.device_of(w)] += bytes_at_home(layout_, w);
    return bytes;
  }

  // RETURNS: the highest end of the arena's arcs.
  Bytes place(u32 device) {
    std::vector<u32> own;
    for (u32 a = 0; a < out_.arcs.size(); ++a)
      if (out_.arcs[a].device == device) own.push_back(a);
    std::vector<Arc> arcs;
    for (const u32 a : own) arcs.push_back(out_.arcs[a]);
    const Bytes end = place_arcs(arcs, {.positions = program_.positions(),
                                        .capacity = within_least_ ? std::max(budget_, least_) : budget_,
                                        .lookahead = static_cast<i32>(in_.options.lookahead),
                                        .start = program_.first_backward});
    for (u32 i = 0; i < own.size(); ++i) out_.arcs[own[i]] = arcs[i];
    return end;
  }

  // ---- arcs -----------------------------------------------------------------------------------

  Arc make_arc(const DeviceChain& chain, const ChainRun& run) const {
    return arc_of(layout_, program_, chain, run);
  }

  Arc permanent(ChunkId first, u32 count, u32 device) const {
    return {.first = first,
            .count = count,
            .bytes = layout_.bytes(first, count),
            .span = {0, program_.positions() - 1},
            .permanent = true,
            .device = device};
  }

  Arc resting(u32 w, ChunkId first) const {
    Arc arc = permanent(first, layout_.windows[w].shard_cuts, touched_.device_of(w));
    arc.bytes = layout_.shard_bytes(first);
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
      for (const ChainRun& run : runs_of(chain)) arcs.push_back(make_arc(chain, run));
    return arcs;
  }

  std::vector<Arc> home_arcs() const {
    std::vector<Arc> arcs;
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!touched_.is_home(w)) continue;
      for (ChunkId first : layout_.state(w)) arcs.push_back(resting(w, first));
    }
    return arcs;
  }

  // Arcs of workspace, batches, gradient streams, and windows that rest here.
  std::vector<Arc> fixed_arcs() const {
    std::vector<Arc> arcs;
    for (u32 d = 0; d < touched_.arenas(); ++d) {
      arcs.push_back(permanent(offset_id(layout_.workspace, d), 1, d));
      if (layout_.past != ChunkId{none}) arcs.push_back(permanent(offset_id(layout_.past, d), 1, d));
    }
    for (u32 s = 0; s < touched_.sweeps(); ++s)
      for (u32 m = 0; m < micro_batches_; ++m) {
        const Bytes batch = layout_.bytes(layout_.batch[m], 1);
        for (const auto& [device, span] : touched_.batch_spans(s, m))
          arcs.push_back({.first = layout_.batch[m], .bytes = batch, .span = span, .device = device});
        if (layout_.lookup.on()) arcs.push_back(rows_arc(s, m));
        for (u32 piece = 0; piece < program_.options.pieces; ++piece)
          add_gradient_streams(s, m * program_.options.pieces + piece, arcs);
      }
    for (const Arc& arc : home_arcs()) arcs.push_back(arc);
    return arcs;
  }

  void add_gradient_streams(u32 sweep, u32 unit, std::vector<Arc>& arcs) const {
    for (u32 stream = 0; layout_.trains && stream < graph_.streams.size(); ++stream)
      if (const std::optional<Span> span = touched_.gradient_stream_span(stream, sweep, unit))
        arcs.push_back({.first = layout_.stream(stream, unit),
                        .bytes = layout_.bytes(layout_.stream(stream, unit), 1),
                        .span = *span});
  }

  // A sweep's rows come after those of the sweep before were read.
  Arc rows_arc(u32 sweep, u32 m) const {
    return {.first = layout_.rows[m],
            .bytes = layout_.bytes(layout_.rows[m], 1),
            .span = touched_.rows_span(sweep, m),
            .floor = sweep == 0 ? 0 : touched_.rows_span(sweep - 1, m).end + 1,
            .filled = true,
            .device = program_.options.device_of(layout_.lookup.block)};
  }

  // ---- choices --------------------------------------------------------------------------------

  // Windows that several nodes train do not rest on devices: their gradients and updated parameters pass
  // through the host in each step anyway. So do those of a window that blocks on several devices read.
  bool may_rest(u32 w) const {
    return (layout_.nodes == 1 || !layout_.windows[w].trains) && touched_.device_of(w) != none &&
           w != layout_.lookup.window;
  }

  // By arena: bytes in use.
  std::vector<Profile> profiles(const std::vector<Arc>& arcs) const {
    std::vector<Profile> used(touched_.arenas(), Profile(program_.positions(), layout_.params_die()));
    for (const Arc& arc : arcs) used[arc.device].add(arc.span, arc.bytes, arc.from_rest);
    return used;
  }
  static Bytes peak(const std::vector<Profile>& used) {
    Bytes most{};
    for (const Profile& of_arena : used) most = std::max(most, of_arena.peak());
    return most;
  }

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
    std::vector<Bytes> bytes(touched_.arenas());
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!may_rest(w)) continue;
      Bytes& here = bytes[touched_.device_of(w)];
      out_.home[w] = in_.options.home == HomePolicy::device ||
                     (in_.options.home == HomePolicy::mixed && w % 3 == 0) || early[w] ||
                     here < home_bytes_least_;
      if (out_.home[w]) here += bytes_at_home(layout_, w);
    }
  }

  // The trained windows beside a frozen model are small: at home here they need neither copies nor updates on
  // the CPU.
  void rest_what_is_trained() {
    const auto trained = [&](u32 w) { return layout_.windows[w].trains; };
    bool all = true;
    for (u32 w = 0; w < graph_.windows.size(); ++w) all &= trained(w);
    if (in_.options.home != HomePolicy::automatic || all || layout_.nodes > 1) return;
    const std::vector<bool> before = out_.home;
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      out_.home[w] = out_.home[w] || (trained(w) && may_rest(w));
    if (peak(profiles(least_arcs())) + streaming_reserve() <= budget_) return;
    out_.home = before;
  }

  // A model that fits the device is planned as resident, without any choice of stays.
  bool all_resident() {
    bool all = true;
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      all &= (out_.home[w] = may_rest(w)) || w == layout_.lookup.window;
    const Bytes resident = resident_peak();
    out_.resident = resident + in_.options.device_reserved;
    if (all && resident <= budget_) return true;
    out_.home.assign(graph_.windows.size(), false);
    return false;
  }

  Bytes resident_peak() const {
    std::vector<Profile> used = profiles(fixed_arcs());
    for (DeviceChain& chain : touched_.all()) {
      for (DeviceChain::Touch& touch : chain.touches) touch.stays = touch.before != none;
      for (const ChainRun& run : runs_of(chain)) {
        const Arc arc = make_arc(chain, run);
        used[arc.device].add(arc.span, arc.bytes, arc.from_rest);
      }
    }
    return peak(used);
  }

  // With layers over devices: room for the streams of the next micro-batch to come up, and for those of the
  // last one to go down.
  Bytes passing_reserve() const {
    Bytes most{};
    for (u32 b = 0; b < graph_.blocks.size() && touched_.layers(); ++b)
      for (const auto* uses : {&graph_.blocks[b].forward_streams, &graph_.blocks[b].backward_streams}) {
        Bytes sum{};
        for (const StreamUse& use : *uses) sum += graph_.streams[use.stream].bytes;
        most = std::max(most, sum);
      }
    return most * 2;
  }

  // Room for the next window to come up and for the last gradient to go down while a block computes.
  Bytes streaming_reserve() const {
    Bytes window{}, gradient{};
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      const WindowChunks& chunks = layout_.windows[w];
      if (touched_.streams(w)) window = std::max(window, layout_.bytes(chunks.param, chunks.cuts));
      if (!touched_.is_home(w)) gradient = std::max(gradient, gradient_bytes(layout_, w));
    }
    return window + gradient + passing_reserve();
  }

  // Chooses the working set and the stays.
  // RETURNS: true if it only made more windows rest here, and chose no stays.
  bool choose() {
    const bool all_home = std::find(out_.home.begin(), out_.home.end(), false) == out_.home.end();
    std::vector<Profile> used = profiles(least_arcs());
    least_ = peak(used);
    if (out_.needs_least.value == 0) out_.needs_least = least_;  // before more windows rest here
    const bool resident = all_home && (!touched_.sharded() || resident_peak() <= budget_);
    const Bytes reserve = resident ? passing_reserve() : streaming_reserve();
    declare(used, reserve);
    const Bytes room = budget_ > reserve ? budget_ - reserve : Bytes{0};
    chains_ = touched_.all();
    worth_ = {};
    bool homes_changed = false;
    for (u32 d = 0; d < touched_.arenas(); ++d) homes_changed |= choose_stays_of_chains(d, room, used[d]);
    if (homes_changed) return true;
    choose_keep(room, used);
    return false;
  }

  // By arena: bytes of windows that rest here, with their gradients that wait for updates.
  std::vector<Profile> at_home() const {
    std::vector<Profile> used(touched_.arenas(), Profile(program_.positions()));
    for (const Arc& arc : home_arcs()) used[arc.device].add(arc.span, arc.bytes);
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!touched_.is_home(w) || !layout_.windows[w].trains) continue;
      const i32 turn = program_.options.clipping ? program_.positions() : 0;
      Span waits{program_.gradient[w] + 1, program_.last_update(w) + turn};
      if (turn > 0) waits = {waits.begin - turn, waits.end - turn};
      used[touched_.device_of(w)].add(waits, gradient_bytes(layout_, w));
    }
    return used;
  }

  // Fills in the working sets. State that rests here is a choice, not a need of streaming. Of several devices
  // none counts more than its budget: what is free on the others is free all the same.
  void declare(const std::vector<Profile>& used, Bytes reserve) {
    const std::vector<Profile> rests = at_home();
    const u64 most = used.size() > 1 ? in_.options.budgets.device.value : ~u64{0};
    out_.working_set.clear(), out_.least_set.clear();
    for (i32 p = 0; p < program_.positions(); ++p) {
      u64 least = 0, working = 0;
      for (u32 d = 0; d < used.size(); ++d) {
        const Bytes need = used[d].at(p) - rests[d].at(p) + in_.options.device_reserved;
        least += std::min(need.value, most);
        working += std::min((need + reserve).value, most);
      }
      out_.least_set.push_back(least / used.size());
      out_.working_set.push_back(working / used.size());
    }
  }

  // Bytes that the host is short of, for each device that could hold them.
  Bytes shortage_of_each() const { return Bytes{div_up(shortage_.most.value, layout_.devices)}; }
  Bytes shortage_beside_homes(u32 device) const {
    Bytes here{};
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      if (touched_.is_home(w) && touched_.device_of(w) == device) here += bytes_at_home(layout_, w);
    return shortage_of_each() > here ? shortage_of_each() - here : Bytes{0};
  }

  // RETURNS: true if more windows rest on the device.
  bool choose_stays_of_chains(u32 device, Bytes room, Profile& used) {
    DeviceStays stays(layout_, program_, shortage_, chains_);
    for (u32 c = 0; c < chains_.size(); ++c) {
      const DeviceChain& chain = chains_[c];
      for (u32 t = 0; t < chain.touches.size(); ++t) {
        const DeviceChain::Touch& touch = chain.touches[t];
        if (touch.device == device && touch.before != none && !touch.stays) stays.add_touch(c, t);
      }
      if (chain.leaves_by != 0 && chain.touches.back().device == device) stays.add_wait(c);
    }
    if (in_.options.home == HomePolicy::automatic && !are_homes_fixed_)
      for (u32 w = 0; w < graph_.windows.size(); ++w)
        if (!touched_.is_home(w) && may_rest(w) && touched_.device_of(w) == device) stays.add_home(w);
    bool homes_changed = false;
    const DeviceStays::Chosen chosen = stays.choose(room, shortage_beside_homes(device), used);
    worth_ += chosen.worth;
    for (const DeviceStays::Choice& choice : chosen.all) {
      if (choice.window != none)
        homes_changed = out_.home[choice.window] = true;
      else if (choice.touch != none)
        chains_[choice.chain].touches[choice.touch].stays = true;
      else
        wait(chains_[choice.chain]);
    }
    return homes_changed;
  }

  // Worth of all that stays, over all devices whose arcs differ.
  u64 worth() const {
    DeviceStays::Worth worth = worth_;
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      if (touched_.is_home(w)) worth += DeviceStays::worth_of_home(layout_, program_, w);
    return worth.total(shortage_of_each() * touched_.arenas());
  }

  // Stays were chosen one by one, by what they save per byte and position. What they leave free may be nearly
  // enough for one more window: lets it rest here in place of some of them, as long as that saves more.
  void rest_more() {
    are_homes_fixed_ = true;
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (touched_.is_home(w) || !may_rest(w)) continue;
      const DeviceTier before = out_;
      const std::vector<DeviceChain> chains = chains_;
      const u64 worth_before = worth();
      out_.home[w] = true;
      if (peak(profiles(least_arcs())) + streaming_reserve() <= budget_) {
        out_.keep.assign(out_.keep.size(), false);
        choose();
        if (worth() > worth_before) continue;
      }
      out_ = before, chains_ = chains;
      return;
    }
  }

  static void wait(DeviceChain& chain) {
    chain.waits = true;
    chain.from_rest = FromRest::absent;
  }

  // Keeps the insides of blocks, from the last block backwards: backward then starts without recompute. If
  // keeping is forced but does not fit, the peak exceeds the budget.
  void choose_keep(Bytes room, std::vector<Profile>& all_used) {
    if (in_.options.recompute == RecomputePolicy::recompute || !layout_.trains) return;
    const bool forced = in_.options.recompute == RecomputePolicy::keep;
    std::vector<bool> is_full(all_used.size(), false);
    for (u32 b = touched_.head(); b-- > program_.last_backward_block;) {
      const u32 device = program_.options.device_of(b);
      Profile& used = all_used[device];
      for (u32 u = 0; u < units_; ++u) {
        const Bytes bytes = graph_.blocks[b].kept;
        if (bytes.value == 0 || is_full[device]) continue;
        const Bytes frame = layout_.bytes(layout_.kept[b * units_ + u], 1);
        Bytes peak{};
        for (u32 s = 0; s < touched_.sweeps(); ++s)
          peak = std::max(peak, used.peak(touched_.kept_span(b, s, u)));
        is_full[device] = !forced && peak + frame > room;
        if (is_full[device]) continue;
        for (u32 s = 0; s < touched_.sweeps(); ++s) used.add(touched_.kept_span(b, s, u), frame);
        out_.keep[b * units_ + u] = true;
      }
    }
  }

  // ---- result ---------------------------------------------------------------------------------

  void build_arcs() {
    out_.arcs = fixed_arcs();
    for (u32 s = 0; s < touched_.sweeps(); ++s)
      for (u32 b = 0; b <= touched_.head(); ++b)
        for (u32 u = 0; u < units_; ++u)
          if (out_.keep[b * units_ + u]) {
            const ChunkId id = layout_.kept[b * units_ + u];
            out_.arcs.push_back({.first = id,
                                 .bytes = layout_.bytes(id, 1),
                                 .span = touched_.kept_span(b, s, u),
                                 .device = program_.options.device_of(b)});
          }
    for (const DeviceChain& chain : chains_) add_arcs(layout_, program_, chain, out_);
  }

  const ResidenceInput& in_;
  const ModelGraph& graph_;
  const Layout& layout_;
  const Program& program_;
  u32 micro_batches_, units_;
  Bytes home_bytes_least_;
  const HostShortage shortage_;
  bool are_homes_fixed_ = false;
  DeviceStays::Worth worth_;  // of the stays chosen last
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
