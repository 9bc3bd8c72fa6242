#include "planner/device_chains.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {
namespace {

// Streams of this many micro-batches come up ahead from the device before. More would stand before parameters
// in the lane, and wait for that device.
constexpr i32 passes_ahead = 2;

bool needs_params(const Block& block, OpKind kind) {
  return kind == OpKind::forward || block.kind != BlockKind::embedding;
}

// Connects each touch with those before it on its device, and with the one that made its content.
DeviceChain finish(DeviceChain chain) {
  std::vector<DeviceChain::Touch>& touches = chain.touches;
  for (u32 t = 1; t < touches.size(); ++t) {
    DeviceChain::Touch& touch = touches[t];
    for (u32 u = t; u-- > 0 && touch.before == none;) {
      if (touches[u].device == touch.device) touch.before = u;
      if (touches[u].writes) break;  // a copy from before that is stale
    }
    if (touch.before != none) {
      const Span gap = chain.gap_before(t);
      touch.stays = gap.begin > gap.end;
    }
    if (!chain.produced_here) continue;
    touch.made_by = touches[t - 1].writes ? t - 1 : touches[t - 1].made_by;
    CHECK(touch.made_by != none, t);
    touches[touch.made_by].is_read_elsewhere |= touches[touch.made_by].device != touch.device;
  }
  return chain;
}

}  // namespace

std::vector<ChainRun> runs_of(const DeviceChain& chain) {
  std::vector<ChainRun> runs;
  std::vector<u32> run_of;
  for (u32 t = 0; t < chain.touches.size(); ++t) {
    const DeviceChain::Touch& touch = chain.touches[t];
    if (!touch.stays) runs.push_back({.touches = {}, .span = touch.span, .device = touch.device});
    run_of.push_back(touch.stays ? run_of[touch.before] : static_cast<u32>(runs.size()) - 1);
    ChainRun& run = runs[run_of.back()];
    run.touches.push_back(t);
    run.span.end = touch.span.end;
  }
  if (chain.waits) runs.back().span.end = chain.leaves_by;
  return runs;
}

DeviceChains::DeviceChains(const ModelGraph& graph, const Layout& layout, const Program& program,
                           const std::vector<bool>& home)
    : graph_(graph), layout_(layout), program_(program), home_(home) {
  passes_.assign(2 * graph_.blocks.size() * sweeps(), none);
  param_passes_.resize(graph_.windows.size());
  for (u32 i = 0; i < program_.passes.size(); ++i) {
    const Pass& p = program_.passes[i];
    const Block& block = graph_.blocks[p.block];
    if (needs_params(block, p.kind))
      for (const u32 w : block.windows)
        if (w != layout_.lookup.window && (param_passes_[w].empty() || param_passes_[w].back() != i))
          param_passes_[w].push_back(i);
    if (p.kind == OpKind::recall) continue;
    passes_[(p.sweep * graph_.blocks.size() + p.block) * 2 + (p.kind == OpKind::backward)] = i;
  }
  loads_.resize(program_.options.micro_batches);
  for (i32 p = 0; p < program_.positions(); ++p) {
    const ProgramOp& op = program_.ops[static_cast<u64>(p)];
    if (op.kind == OpKind::load_batch) loads_[op.micro_batch] = p;
  }
  std::vector<bool> seen(graph_.windows.size(), false);
  device_of_.resize(graph_.windows.size());
  for (u32 b = 0; b < graph_.blocks.size(); ++b)
    for (const u32 w : graph_.blocks[b].windows) {
      const u32 device = program_.options.device_of(b);
      device_of_[w] = seen[w] && device_of_[w] != device ? none : device;
      seen[w] = true;
    }
}

std::vector<DeviceChain> DeviceChains::all() const {
  std::vector<DeviceChain> chains;
  for (u32 w = 0; w < graph_.windows.size(); ++w) {
    for (u32 d = 0; d < arenas() && streams(w); ++d)
      if (DeviceChain chain = params(w, d); !chain.touches.empty()) chains.push_back(std::move(chain));
    if (!layout_.windows[w].trains) continue;
    for (DeviceChain& c : accumulators(w)) chains.push_back(std::move(c));
    if (auto c = gradient(w)) chains.push_back(std::move(*c));
    for (u32 cut = 0; cut < layout_.windows[w].cuts && !is_home(w); ++cut)
      if (program_.streams(w, cut) && layout_.owns(w, cut)) chains.push_back(visit(w, cut));
  }
  for (const StreamLife& life : program_.lives) {
    if (is_gradient_stream(graph_.streams[life.stream].kind) && !gradients_leave()) continue;
    for (u32 u = 0; u < program_.sweep_units(); u += program_.units_of(life))
      chains.push_back(stream(life, u));
  }
  return chains;
}

const Pass& DeviceChains::pass(OpKind kind, u32 block, u32 sweep) const {
  const u32 i = passes_[(sweep * graph_.blocks.size() + block) * 2 + (kind == OpKind::backward)];
  CHECK(i != none, block, sweep);
  return program_.passes[i];
}

DeviceChain DeviceChains::params(u32 w, u32 device) const {
  DeviceChain chain{.first = layout_.windows[w].param, .count = layout_.windows[w].cuts};
  chain.window = w;
  chain.spread = sharded() ? Spread::copy : Spread::each;
  for (const u32 i : param_passes_[w]) {
    const Pass& p = program_.passes[i];
    if (p.device == device)
      chain.touches.push_back(
          {.span = {p.first, p.last}, .device = device, .writes = false, .segments = segments_of(p, head())});
  }
  // With clipping, a copy up cannot start before the update; without, it cannot start in the turn before.
  chain.floor = program_.options.clipping && layout_.windows[w].trains ? program_.first_update(w) : 0;
  return finish(std::move(chain));
}

std::vector<DeviceChain> DeviceChains::accumulators(u32 w) const {
  std::vector<DeviceChain> chains;
  const WindowChunks& chunks = layout_.windows[w];
  for (u32 use = 0; use < program_.readers[w].size(); ++use) {
    const u32 b = program_.readers[w][use];
    DeviceChain chain{.first = chunks.local_accum[use], .count = chunks.cuts};
    chain.produced_here = true;
    chain.window = w;
    for (u32 s = 0; s < sweeps(); ++s) {
      const Pass& p = pass(OpKind::backward, b, s);
      chain.touches.push_back({.span = {p.first, p.last}, .device = p.device});
    }
    if (sharded()) {
      const Span reduce{program_.reduce[w][use], program_.reduce[w][use]};
      chain.touches.push_back({.span = reduce});
      chains.push_back(finish(std::move(chain)));
      chain = shard(w, chunks.grad_accum[use]);
      chain.touches.push_back({.span = reduce});
    }
    if (passes_parts()) {  // nodes sum their parts of a gradient in the host
      chain.leaves = true;
    } else {
      chain.touches.push_back(at_gradient(w));
      const bool is_gradient = chain.first == chunks.grad;
      if (is_gradient) is_home(w) ? extend_to_update(chain) : let_leave(chain);
    }
    chains.push_back(finish(std::move(chain)));
  }
  return chains;
}

DeviceChain::Touch DeviceChains::at_gradient(u32 w) const {
  const i32 position = program_.gradient[w];
  return {.span = {position, position}, .device = program_.options.device_of(program_.first_reader(w))};
}

DeviceChain DeviceChains::shard(u32 w, ChunkId first) const {
  DeviceChain chain{.first = first, .count = layout_.windows[w].shard_cuts};
  chain.produced_here = true;
  chain.window = w;
  if (sharded()) chain.spread = Spread::shard;
  return chain;
}

// Extends the chain of a gradient that an update on the device reads. With clipping the update runs in the
// next turn, so the chain's last touch lies there.
void DeviceChains::extend_to_update(DeviceChain& chain) const {
  const i32 turn = program_.options.clipping ? program_.positions() : 0;
  chain.touches.back().span.end = program_.last_update(chain.window) + turn;
  if (turn != 0) chain.from_rest = FromRest::absent;
}

// A gradient that leaves the device may wait there first. It comes down while the updates before its own run.
void DeviceChains::let_leave(DeviceChain& chain) const {
  chain.leaves = true;
  const i32 ahead = static_cast<i32>(layout_.windows[chain.window].cuts) + 1;
  if (program_.options.clipping)
    chain.leaves_by = std::max(program_.first_direction(chain.window) - ahead, 0) + program_.positions();
}

std::optional<DeviceChain> DeviceChains::gradient(u32 w) const {
  if (!layout_.state_slots.has(Kind::grad) || passes_parts()) return std::nullopt;
  DeviceChain chain = shard(w, layout_.windows[w].grad);
  chain.touches.push_back(at_gradient(w));
  is_home(w) ? extend_to_update(chain) : let_leave(chain);
  return finish(std::move(chain));
}

// With several replicas only the cut's owner has it, at a place that the others have too.
DeviceChain DeviceChains::visit(u32 w, u32 cut) const {
  const i32 position = program_.orthogonalize[w][cut];
  DeviceChain chain{.first = layout_.gradient(w, cut)};
  chain.visits = true;
  chain.spread = sharded() ? Spread::copy : Spread::each;
  chain.floor = program_.direction[w][cut] + 1;
  chain.touches.push_back(
      {.span = {position, position}, .device = program_.options.device_of(program_.first_reader(w))});
  return chain;
}

DeviceChain DeviceChains::stream(const StreamLife& life, u32 unit) const {
  DeviceChain chain{.first = layout_.stream(life.stream, unit)};
  chain.produced_here = true;
  for (const StreamLife::Run& run : life.runs) {
    const Pass& first = program_.passes[run.first];
    const Span span = program_.touch(life, run, unit);
    chain.touches.push_back({.span = span,
                             .device = first.device,
                             .writes = run.writes,
                             .segments = segments_of(first, head()),
                             .earliest = std::max(first.first, span.begin - passes_ahead)});
  }
  return finish(std::move(chain));
}

Span DeviceChains::kept_span(u32 b, u32 sweep, u32 unit) const {
  return {program_.position(pass(OpKind::forward, b, sweep), unit),
          program_.position(pass(OpKind::backward, b, sweep), unit)};
}

std::vector<std::pair<u32, Span>> DeviceChains::batch_spans(u32 sweep, u32 m) const {
  std::vector<std::pair<u32, Span>> spans;
  for (u32 d = 0; d < arenas(); ++d) {
    Span span{loads_[sweep * micro_batches() + m], -1};
    for (const Pass& p : program_.passes)
      if (p.sweep == sweep && p.device == d && reads_batch(graph_, graph_.blocks[p.block]))
        for (const u32 unit : {m * program_.options.pieces, (m + 1) * program_.options.pieces - 1})
          span.end = std::max(span.end, program_.position(p, unit));
    if (span.end >= 0) spans.emplace_back(d, span);
  }
  return spans;
}

Span DeviceChains::rows_span(u32 sweep, u32 m) const {
  CHECK(program_.options.pieces == 1, program_.options.pieces);
  const i32 position = program_.position(pass(OpKind::forward, layout_.lookup.block, sweep), m);
  return {position, position};
}

Span DeviceChains::param_span(u32 w) const {
  i32 last = program_.last_of_updates;
  for (const u32 i : param_passes_[w]) last = std::max(last, program_.passes[i].last);
  return {program_.first_update(w), last};
}

std::optional<Span> DeviceChains::gradient_stream_span(u32 stream, u32 sweep, u32 unit) const {
  std::optional<Span> span;
  if (!is_gradient_stream(graph_.streams[stream].kind) || gradients_leave()) return span;
  for (const StreamLife& life : program_.lives) {
    if (life.stream != stream || life.sweep != sweep) continue;
    if (!span) span = program_.touch(life, life.runs.front(), unit);
    span->end = program_.touch(life, life.runs.back(), unit).end;
  }
  return span;
}

}  // namespace tidepool
