// The device tier: windows, accumulators, activations and workspace over one turn of the body, and
// which of them stay between uses. Of several devices it plans one: the others do the same with
// micro-batches and shards of their own.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "planner/residence.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

class DevicePlanner {
 public:
  DevicePlanner(const ResidenceInput& in, Bytes shrink)
      : in_(in),
        graph_(in.graph),
        layout_(in.layout),
        program_(in.program),
        micro_batches_(in.program.sweep_micro_batches),
        budget_(in.options.budgets.device > shrink ? in.options.budgets.device - shrink : Bytes{0}) {
    out_.home.assign(graph_.windows.size(), false);
    out_.keep.assign(graph_.blocks.size() * micro_batches_, false);
  }

  DeviceTier plan() {
    force_homes();
    if (in_.options.home == HomePolicy::automatic) try_all_resident();
    // Windows that come to rest here need less to stream, so what is left is divided anew.
    while (choose()) {
    }
    build_arcs();
    out_.peak = place_arcs(out_.arcs, {.positions = program_.positions(),
                                       .capacity = budget_,
                                       .lookahead = static_cast<i32>(in_.options.lookahead),
                                       .start = program_.first_backward});
    return std::move(out_);
  }

 private:
  // ---- what the program touches -------------------------------------------------------------

  struct Gap {
    Span span;            // from the last op of one pass to the first of the next
    bool stays = false;
  };
  // One content that lives through several touches; gaps.size() == touches.size() - 1.
  struct Chain {
    ChunkId first{};
    u32 count = 1;
    std::vector<Span> touches;
    std::vector<Gap> gaps;
    std::vector<const Pass*> passes;   // of parameter chains
    u32 window = none;
    bool produced_here = false;        // made on the device: leaving it costs a move down
    bool leaves = false;               // goes down after the last touch (gradients)
    Spread spread = Spread::each;
    i32 floor = -1'000'000'000;
  };

  const Pass& pass(OpKind kind, u32 block, u32 sweep) const {
    for (const Pass& p : program_.passes)
      if (p.kind == kind && p.block == block && p.sweep == sweep) return p;
    CHECK(false, block, sweep);
    return program_.passes.front();
  }
  u32 sweeps() const { return program_.options.sweeps; }
  u32 head() const { return static_cast<u32>(graph_.blocks.size()) - 1; }
  bool is_home(u32 window) const { return out_.home[window]; }
  bool sharded() const { return layout_.devices > 1; }

  static bool needs_params(const Block& block, OpKind kind) {
    return kind == OpKind::forward || block.kind != BlockKind::embedding;
  }

  Chain finish(Chain chain) const {
    for (u64 i = 0; i + 1 < chain.touches.size(); ++i)
      chain.gaps.push_back({.span = {chain.touches[i].end + 1, chain.touches[i + 1].begin - 1}});
    for (Gap& gap : chain.gaps) gap.stays = gap.span.begin > gap.span.end;
    return chain;
  }

  Chain param_chain(u32 w) const {
    Chain chain{.first = layout_.windows[w].param, .count = layout_.windows[w].cuts};
    chain.window = w;
    chain.spread = sharded() ? Spread::copy : Spread::each;
    for (const Pass& p : program_.passes) {
      const Block& block = graph_.blocks[p.block];
      if (!needs_params(block, p.kind)) continue;
      if (std::find(block.windows.begin(), block.windows.end(), w) == block.windows.end()) continue;
      chain.touches.push_back({p.first, p.last});
      chain.passes.push_back(&p);
    }
    // A copy up cannot start before the update (clipping), nor in the turn before (else).
    chain.floor = program_.options.clipping ? program_.first_update(w) : 0;
    return finish(std::move(chain));
  }

  std::vector<Chain> accumulator_chains(u32 w) const {
    std::vector<Chain> chains;
    const WindowChunks& chunks = layout_.windows[w];
    u32 use = 0;
    for (u32 b = 0; b <= head(); ++b)
      for (u32 window : graph_.blocks[b].windows) {
        if (window != w) continue;
        Chain chain{.first = chunks.local_accum[use], .count = chunks.cuts};
        chain.produced_here = true;
        chain.window = w;
        for (u32 s = 0; s < sweeps(); ++s) {
          const Pass& p = pass(OpKind::backward, b, s);
          chain.touches.push_back({p.first, p.last});
        }
        if (sharded()) {
          const i32 reduce = program_.reduce[w][use];
          chain.touches.push_back({reduce, reduce});
          chains.push_back(finish(std::move(chain)));
          chain = shard_chain(w, chunks.grad_accum[use]);
          chain.touches.push_back({reduce, reduce});
        }
        chain.touches.push_back({program_.gradient[w], program_.gradient[w]});
        const bool is_gradient = chain.first == chunks.grad;
        if (is_gradient && is_home(w)) extend_to_update(chain);
        chain.leaves = is_gradient && !is_home(w);
        chains.push_back(finish(std::move(chain)));
        ++use;
      }
    return chains;
  }

  Chain shard_chain(u32 w, ChunkId first) const {
    Chain chain{.first = first, .count = layout_.windows[w].shard_cuts};
    chain.produced_here = true;
    chain.window = w;
    if (sharded()) chain.spread = Spread::shard;
    return chain;
  }

  // A gradient that an update on the device reads. With clipping the update runs in the next turn,
  // so the chain's last touch lies there.
  void extend_to_update(Chain& chain) const {
    const i32 turn = program_.options.clipping ? program_.positions() : 0;
    chain.touches.back().end = program_.last_update(chain.window) + turn;
  }

  std::optional<Chain> gradient_chain(u32 w) const {
    if (layout_.precision == Precision::fp32) return std::nullopt;
    Chain chain = shard_chain(w, layout_.windows[w].grad);
    chain.touches.push_back({program_.gradient[w], program_.gradient[w]});
    if (is_home(w)) extend_to_update(chain);
    chain.leaves = !is_home(w);
    return finish(std::move(chain));
  }

  // Input of block b: made by the block before, read by its forward (the head has none) and backward.
  Chain activation_chain(u32 b, u32 sweep, u32 m) const {
    const i32 im = static_cast<i32>(m);
    Chain chain{.first = layout_.activation[b * micro_batches_ + m]};
    chain.produced_here = true;
    const i32 made = pass(OpKind::forward, b - 1, sweep).first + im;
    const i32 last_forward = b == head() ? made : pass(OpKind::forward, b, sweep).first + im;
    chain.touches = {{made, last_forward}};
    if (layout_.trains || b == head()) {
      const i32 used = pass(OpKind::backward, b, sweep).first + im;
      chain.touches.push_back({used, used});
    }
    return finish(std::move(chain));
  }

  Span kept_span(u32 b, u32 sweep, u32 m) const {
    const i32 im = static_cast<i32>(m);
    return {pass(OpKind::forward, b, sweep).first + im, pass(OpKind::backward, b, sweep).first + im};
  }

  Span batch_span(u32 sweep, u32 m) const {
    i32 load = 0;
    const u32 micro_batch = sweep * micro_batches_ + m;
    for (i32 p = 0; p < program_.positions(); ++p) {
      const ProgramOp& op = program_.ops[static_cast<u64>(p)];
      if (op.kind == OpKind::load_batch && op.micro_batch == micro_batch) load = p;
    }
    return {load, pass(OpKind::backward, layout_.trains ? 0 : head(), sweep).first + static_cast<i32>(m)};
  }

  std::vector<Chain> all_chains() const {
    std::vector<Chain> chains;
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (streams(w)) chains.push_back(param_chain(w));
      if (!layout_.trains) continue;
      for (Chain& c : accumulator_chains(w)) chains.push_back(std::move(c));
      if (auto c = gradient_chain(w)) chains.push_back(std::move(*c));
    }
    for (u32 s = 0; s < sweeps(); ++s)
      for (u32 b = 1; b <= head(); ++b)
        for (u32 m = 0; m < micro_batches_; ++m) chains.push_back(activation_chain(b, s, m));
    return chains;
  }

  // A window that rests on one device is used where it rests; of several, each has a shard of it, and
  // all gather it before use.
  bool streams(u32 w) const { return !is_home(w) || sharded(); }

  // Of each device.
  Bytes state_bytes(u32 w) const {
    Bytes sum{};
    for (u32 cut = 0; cut < layout_.windows[w].shard_cuts; ++cut)
      for (ChunkId id : layout_.state(w, cut)) sum += layout_.chunk(id).bytes;
    return sum;
  }

  // ---- arcs -----------------------------------------------------------------------------------

  Span on_circle(Span span) const {
    const i32 turn = program_.positions();
    if (span.end >= turn) span = {span.begin - turn, span.end - turn};
    return span;
  }

  Arc make_arc(const Chain& chain, Span span) const {
    return {.first = chain.first,
            .count = chain.count,
            .bytes = layout_.bytes(chain.first, chain.count),
            .span = on_circle(span),
            .floor = chain.floor,
            .spread = chain.spread};
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
    if (sharded()) arc.spread = Spread::shard;
    return arc;
  }

  // Arcs that no choice can avoid: nothing stays between passes.
  std::vector<Arc> least_arcs() const {
    std::vector<Arc> arcs = fixed_arcs();
    for (const Chain& chain : all_chains())
      for (u64 t = 0; t < chain.touches.size(); ++t) {
        Span span = chain.touches[t];
        while (t + 1 < chain.touches.size() && chain.gaps[t].stays) span.end = chain.touches[++t].end;
        arcs.push_back(make_arc(chain, span));
      }
    return arcs;
  }

  // Workspace, batches, gradients of the residual stream, and windows that rest here.
  std::vector<Arc> fixed_arcs() const {
    std::vector<Arc> arcs = {permanent(layout_.workspace, 1)};
    for (u32 s = 0; s < sweeps(); ++s)
      for (u32 m = 0; m < micro_batches_; ++m) {
        const Bytes batch = layout_.bytes(layout_.batch[m], 1);
        arcs.push_back({.first = layout_.batch[m], .bytes = batch, .span = batch_span(s, m)});
        if (!layout_.trains) continue;
        const i32 im = static_cast<i32>(m);
        arcs.push_back({.first = layout_.activation_grad[m],
                        .bytes = layout_.bytes(layout_.activation_grad[m], 1),
                        .span = {pass(OpKind::backward, head(), s).first + im,
                                 pass(OpKind::backward, 0, s).first + im}});
      }
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      if (!is_home(w)) continue;
      for (ChunkId first : layout_.state(w, 0)) arcs.push_back(resting(w, first));
    }
    return arcs;
  }

  // ---- choices --------------------------------------------------------------------------------

  void force_homes() {
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      out_.home[w] = in_.options.home == HomePolicy::device ||
                     (in_.options.home == HomePolicy::mixed && w % 3 == 0);
  }

  // A model that fits the device runs resident, with no detour.
  void try_all_resident() {
    out_.home.assign(graph_.windows.size(), true);
    if (resident_peak() > budget_) out_.home.assign(graph_.windows.size(), false);
  }

  Bytes resident_peak() const {
    Profile profile(program_.positions());
    for (const Arc& arc : fixed_arcs()) profile.add(arc.span, arc.bytes);
    for (const Chain& chain : all_chains())
      profile.add(on_circle({chain.touches.front().begin, chain.touches.back().end}),
                  layout_.bytes(chain.first, chain.count));
    return profile.peak();
  }

  // Room for the next window to come up and the last gradient to go down while a block computes.
  Bytes streaming_reserve() const {
    Bytes window{}, gradient{};
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      const WindowChunks& chunks = layout_.windows[w];
      if (streams(w)) window = std::max(window, layout_.bytes(chunks.param, chunks.cuts));
      if (!is_home(w) && layout_.trains) gradient = std::max(gradient, layout_.bytes(chunks.grad, chunks.shard_cuts));
    }
    return window + gradient;
  }

  // Fills in the working set, and what stays. True: more windows rest here now, and nothing else is chosen.
  bool choose() {
    const bool all_home = std::find(out_.home.begin(), out_.home.end(), false) == out_.home.end();
    Profile used(program_.positions());
    for (const Arc& arc : least_arcs()) used.add(arc.span, arc.bytes);
    const bool resident = all_home && (!sharded() || resident_peak() <= budget_);
    const Bytes reserve = resident ? Bytes{0} : streaming_reserve();
    // What rests here is a choice, not a need of streaming.
    Bytes at_home{};
    for (u32 w = 0; w < graph_.windows.size(); ++w)
      if (is_home(w)) at_home += state_bytes(w);
    out_.working_set.clear();
    for (i32 p = 0; p < program_.positions(); ++p)
      out_.working_set.push_back((used.at(p) + reserve - at_home).value);
    const Bytes room = budget_ > reserve ? budget_ - reserve : Bytes{0};
    if (choose_stays_of_chains(room, used)) return true;
    choose_keep(room, used);
    return false;
  }

  bool choose_stays_of_chains(Bytes room, Profile& used) {
    chains_ = all_chains();
    std::vector<Stay> stays;
    struct Choice {
      u32 chain = none, gap = none;  // or a window that rests here
      u32 window = none;
    };
    std::vector<Choice> choices;
    for (u32 c = 0; c < chains_.size(); ++c)
      for (u32 g = 0; g < chains_[c].gaps.size(); ++g) {
        const Chain& chain = chains_[c];
        if (chain.gaps[g].stays) continue;
        const Bytes bytes = layout_.bytes(chain.first, chain.count);
        // Of a window each device fetches its shard only.
        const u64 moved = chain.spread == Spread::copy ? bytes.value / layout_.devices : bytes.value;
        stays.push_back({.span = chain.gaps[g].span,
                         .bytes = bytes,
                         .saved_bytes = moved * (chain.produced_here ? 2 : 1)});
        choices.push_back({.chain = c, .gap = g});
      }
    if (in_.options.home == HomePolicy::automatic)
      for (u32 w = 0; w < graph_.windows.size(); ++w) {
        if (is_home(w)) continue;
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

  // All state of a window, and its gradient while it waits: saves every copy and, where the state
  // would rest on disk, its reads and writes.
  Stay home_stay(u32 w) const {
    const WindowChunks& chunks = layout_.windows[w];
    const u64 param = layout_.bytes(chunks.param, chunks.shard_cuts).value;
    const u64 grad = layout_.trains ? layout_.bytes(chunks.grad, chunks.shard_cuts).value : 0;
    const u64 state = state_bytes(w).value;
    return {.span = {0, program_.positions() - 1},
            .bytes = state_bytes(w) + Bytes{grad},
            .saved_bytes = 2 * param + grad + 2 * state};
  }

  // Keeps insides from the last block backwards: backward then starts without recompute.
  // Forced keeping that does not fit shows as a peak above the budget.
  void choose_keep(Bytes room, Profile& used) {
    if (in_.options.recompute == RecomputePolicy::recompute || !layout_.trains) return;
    const bool forced = in_.options.recompute == RecomputePolicy::keep;
    for (u32 b = head(); b-- > 0;)
      for (u32 m = 0; m < micro_batches_; ++m) {
        const Bytes bytes = graph_.blocks[b].kept;
        if (bytes.value == 0) continue;
        const Bytes frame = layout_.bytes(layout_.kept[b * micro_batches_ + m], 1);
        Bytes peak{};
        for (u32 s = 0; s < sweeps(); ++s) peak = std::max(peak, used.peak(kept_span(b, s, m)));
        if (!forced && peak + frame > room) return;
        for (u32 s = 0; s < sweeps(); ++s) used.add(kept_span(b, s, m), frame);
        out_.keep[b * micro_batches_ + m] = true;
      }
  }

  // ---- result ---------------------------------------------------------------------------------

  void build_arcs() {
    out_.arcs = fixed_arcs();
    for (u32 s = 0; s < sweeps(); ++s)
      for (u32 b = 0; b <= head(); ++b)
        for (u32 m = 0; m < micro_batches_; ++m)
          if (out_.keep[b * micro_batches_ + m]) {
            const ChunkId id = layout_.kept[b * micro_batches_ + m];
            out_.arcs.push_back({.first = id, .bytes = layout_.bytes(id, 1), .span = kept_span(b, s, m)});
          }
    for (const Chain& chain : chains_) build_chain(chain);
  }

  void build_chain(const Chain& chain) {
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
        out_.arrivals.push_back(
            {.window = chain.window, .arc = a, .segments = segments_of(*chain.passes[begin])});
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
                                   .out = span.end});
      }
      out_.arcs.push_back(arc);
      previous = a;
    }
  }

  u8 segments_of(const Pass& pass) const {
    const bool evaluated = pass.sweep == 0 && (pass.kind == OpKind::forward || pass.block == head());
    return in_first | in_body | (evaluated ? in_evaluation : 0);
  }

  // The copy out of a frame should be hidden by the next block's pass over its micro-batches.
  i32 tail_positions() const { return static_cast<i32>(micro_batches_) + 1; }

  const ResidenceInput& in_;
  const ModelGraph& graph_;
  const Layout& layout_;
  const Program& program_;
  u32 micro_batches_;
  Bytes budget_;
  std::vector<Chain> chains_;
  DeviceTier out_;
};

}  // namespace

DeviceTier plan_device_tier(const ResidenceInput& in, Bytes shrink) {
  return DevicePlanner(in, shrink).plan();
}

}  // namespace tidepool
