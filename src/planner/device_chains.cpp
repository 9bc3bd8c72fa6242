#include "planner/device_chains.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {
namespace {

bool needs_params(const Block& block, OpKind kind) {
  return kind == OpKind::forward || block.kind != BlockKind::embedding;
}

DeviceChain finish(DeviceChain chain) {
  for (u64 i = 0; i + 1 < chain.touches.size(); ++i)
    chain.gaps.push_back({.span = {chain.touches[i].end + 1, chain.touches[i + 1].begin - 1}});
  for (DeviceChain::Gap& gap : chain.gaps) gap.stays = gap.span.begin > gap.span.end;
  return chain;
}

}  // namespace

DeviceChains::DeviceChains(const ResidenceInput& in, const std::vector<bool>& home)
    : graph_(in.graph), layout_(in.layout), program_(in.program), home_(home) {
  passes_.assign(2 * graph_.blocks.size() * sweeps(), none);
  for (u32 i = 0; i < program_.passes.size(); ++i) {
    const Pass& p = program_.passes[i];
    passes_[(p.sweep * graph_.blocks.size() + p.block) * 2 + (p.kind == OpKind::backward)] = i;
  }
  loads_.resize(program_.options.micro_batches);
  for (i32 p = 0; p < program_.positions(); ++p) {
    const ProgramOp& op = program_.ops[static_cast<u64>(p)];
    if (op.kind == OpKind::load_batch) loads_[op.micro_batch] = p;
  }
}

std::vector<DeviceChain> DeviceChains::all() const {
  std::vector<DeviceChain> chains;
  for (u32 w = 0; w < graph_.windows.size(); ++w) {
    if (streams(w)) chains.push_back(params(w));
    if (!layout_.windows[w].trains) continue;
    for (DeviceChain& c : accumulators(w)) chains.push_back(std::move(c));
    if (auto c = gradient(w)) chains.push_back(std::move(*c));
  }
  for (const StreamLife& life : program_.lives) {
    if (is_gradient_stream(graph_.streams[life.stream].kind)) continue;
    for (u32 m = 0; m < micro_batches(); ++m) chains.push_back(stream(life, m));
  }
  return chains;
}

const Pass& DeviceChains::pass(OpKind kind, u32 block, u32 sweep) const {
  const u32 i = passes_[(sweep * graph_.blocks.size() + block) * 2 + (kind == OpKind::backward)];
  CHECK(i != none, block, sweep);
  return program_.passes[i];
}

DeviceChain DeviceChains::params(u32 w) const {
  DeviceChain chain{.first = layout_.windows[w].param, .count = layout_.windows[w].cuts};
  chain.window = w;
  chain.spread = sharded() ? Spread::copy : Spread::each;
  for (const Pass& p : program_.passes) {
    const Block& block = graph_.blocks[p.block];
    if (!needs_params(block, p.kind)) continue;
    if (std::find(block.windows.begin(), block.windows.end(), w) == block.windows.end()) continue;
    chain.touches.push_back({p.first, p.last});
    chain.passes.push_back(&p);
  }
  // With clipping, a copy up cannot start before the update; without, it cannot start in the turn before.
  chain.floor = program_.options.clipping && layout_.windows[w].trains ? program_.first_update(w) : 0;
  return finish(std::move(chain));
}

std::vector<DeviceChain> DeviceChains::accumulators(u32 w) const {
  std::vector<DeviceChain> chains;
  const WindowChunks& chunks = layout_.windows[w];
  u32 use = 0;
  for (u32 b = 0; b <= head(); ++b)
    for (u32 window : graph_.blocks[b].windows) {
      if (window != w) continue;
      DeviceChain chain{.first = chunks.local_accum[use], .count = chunks.cuts};
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
        chain = shard(w, chunks.grad_accum[use]);
        chain.touches.push_back({reduce, reduce});
      }
      if (passes_parts()) {  // nodes sum their parts of a gradient in the host
        chain.leaves = true;
      } else {
        chain.touches.push_back({program_.gradient[w], program_.gradient[w]});
        const bool is_gradient = chain.first == chunks.grad;
        if (is_gradient && is_home(w)) extend_to_update(chain);
        chain.leaves = is_gradient && !is_home(w);
      }
      chains.push_back(finish(std::move(chain)));
      ++use;
    }
  return chains;
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
  chain.touches.back().end = program_.last_update(chain.window) + turn;
  if (turn != 0) chain.from_rest = FromRest::absent;
}

std::optional<DeviceChain> DeviceChains::gradient(u32 w) const {
  if (!has_kind(layout_.precision, Kind::grad) || passes_parts()) return std::nullopt;
  DeviceChain chain = shard(w, layout_.windows[w].grad);
  chain.touches.push_back({program_.gradient[w], program_.gradient[w]});
  if (is_home(w)) extend_to_update(chain);
  chain.leaves = !is_home(w);
  return finish(std::move(chain));
}

DeviceChain DeviceChains::stream(const StreamLife& life, u32 m) const {
  DeviceChain chain{.first = layout_.stream(life.stream, m)};
  chain.produced_here = true;
  for (const StreamLife::Run& run : life.runs) {
    chain.touches.push_back(program_.touch(run, m));
    chain.segments.push_back(segments_of(program_.passes[run.first], head()));
  }
  return finish(std::move(chain));
}

Span DeviceChains::kept_span(u32 b, u32 sweep, u32 m) const {
  const i32 im = static_cast<i32>(m);
  return {pass(OpKind::forward, b, sweep).first + im, pass(OpKind::backward, b, sweep).first + im};
}

Span DeviceChains::batch_span(u32 sweep, u32 m) const {
  u32 last = program_.last_backward_block;
  while (!reads_batch(graph_, graph_.blocks[last])) ++last;
  return {loads_[sweep * micro_batches() + m],
          pass(OpKind::backward, last, sweep).first + static_cast<i32>(m)};
}

Span DeviceChains::param_span(u32 w) const {
  return {program_.first_update(w), std::max(params(w).touches.back().end, program_.last_of_updates)};
}

std::optional<Span> DeviceChains::gradient_stream_span(u32 stream, u32 sweep, u32 m) const {
  std::optional<Span> span;
  if (!is_gradient_stream(graph_.streams[stream].kind)) return span;
  for (const StreamLife& life : program_.lives) {
    if (life.stream != stream || life.sweep != sweep) continue;
    if (!span) span = program_.touch(life.runs.front(), m);
    span->end = program_.touch(life.runs.back(), m).end;
  }
  return span;
}

}  // namespace tidepool
