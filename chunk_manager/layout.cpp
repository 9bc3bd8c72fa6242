#include "chunk_manager/layout.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "tidepool/slot_range.h"
#include "tidepool/tensor_matrices.h"
#include "tidepool/update_units.h"

namespace tidepool {
namespace {

ChunkId add(Layout& layout, Chunk chunk) {
  CHECK(chunk.bytes.value % frame_alignment == 0, chunk.bytes.value);
  layout.chunks.push_back(chunk);
  return ChunkId{static_cast<u32>(layout.chunks.size() - 1)};
}

// Adds a chunk per replica or per device, with consecutive ids. Chunk::instance is filled in.
// RETURNS: the id of the first.
ChunkId add_each(Layout& layout, Chunk chunk, u32 m, u32 count) {
  ChunkId first{};
  chunk.bytes = Bytes{std::max(round_up(chunk.bytes.value, frame_alignment), frame_alignment)};
  for (u32 i = 0; i < count; ++i) {
    chunk.instance = m * count + i;
    const ChunkId id = add(layout, chunk);
    if (i == 0) first = id;
  }
  return first;
}
ChunkId add_whole(Layout& layout, const Chunk& chunk, u32 m) {
  return add_each(layout, chunk, m, layout.replicas);
}

ChunkId add_stream(Layout& layout, const ModelGraph& graph, u32 s, u32 u) {
  const Stream& stream = graph.streams[s];
  return add_whole(layout, {.kind = stream.kind, .stream = s, .block = stream.block, .bytes = stream.bytes},
                   u);
}

void add_streams(Layout& layout, const ModelGraph& graph) {
  const u32 streams = static_cast<u32>(graph.streams.size());
  layout.streams.assign(u64{streams} * layout.units, ChunkId{none});
  for (u32 s = 0; s < streams; ++s)
    for (u32 u = 0; u < layout.units && !is_gradient_stream(graph.streams[s].kind); ++u) {
      const bool goes_on = graph.streams[s].whole && u % graph.batch.pieces() != 0;
      layout.streams[u64{s} * layout.units + u] =
          goes_on ? layout.stream(s, u - 1) : add_stream(layout, graph, s, u);
    }
}

void add_gradient_streams(Layout& layout, const ModelGraph& graph, u32 u) {
  for (u32 s = 0; s < graph.streams.size(); ++s)
    if (is_gradient_stream(graph.streams[s].kind))
      layout.streams[u64{s} * layout.units + u] = add_stream(layout, graph, s, u);
}

// Size of equal cuts near the target, on the alignment of cuts. The number of cuts is a multiple of the
// replicas of all nodes, if the unit is large enough. With several nodes a granule of the norm has one owner.
u64 cut_size(u64 elements, const Layout& layout) {
  const StateSlots& slots = layout.state_slots;
  const u64 alignment = layout.nodes > 1 ? slots.unit_alignment() : slots.cut_alignment();
  u64 cuts = std::max<u64>(1, div_up(elements, std::max(layout.target_elements, alignment)));
  cuts = round_up(cuts, layout.replicas * layout.nodes);
  return round_up(div_up(elements, cuts), alignment);
}

// Work of a cut's update, in operations. While a device reads and writes an element's state, it could
// multiply a hundred times or more.
u64 work_of(const ModelGraph& graph, const Chunk& cut) {
  constexpr u64 per_element = 100;
  u64 work = per_element * cut.elements;
  if (!graph.windows[cut.window].trainable || graph.rules[cut.rule].place != UpdatePlace::streamed)
    return work;
  for (const MatrixPlace& matrix :
       matrices_between(graph.windows[cut.window], cut.element_begin, cut.element_begin + cut.elements)) {
    const u64 inner = std::min(matrix.rows, matrix.columns), outer = std::max(matrix.rows, matrix.columns);
    work += graph.rules[cut.rule].orthogonalization.steps * (4 * outer + 2 * inner) * inner * inner;
  }
  return work;
}

// Deals cuts to nodes.
class Owners {
 public:
  Owners(const ModelGraph& graph, u32 nodes) : graph_(graph), work_(nodes, 0) {}

  // Those of several units go to the node that has least to do so far.
  u16 of(const Chunk& cut, bool several_units) {
    u64 node = (u64{cut.window} + cut.cut) % work_.size();
    if (several_units) node = static_cast<u64>(std::ranges::min_element(work_) - work_.begin());
    work_[node] += work_of(graph_, cut);
    return static_cast<u16>(node);
  }

 private:
  const ModelGraph& graph_;
  std::vector<u64> work_;  // [node]
};

// The fewest shards of consecutive cuts, each of at most `most` work.
std::vector<u32> shards_within(std::span<const u64> work, u64 most) {
  std::vector<u32> shards = {0};
  u64 sum = 0;
  for (u32 cut = 0; cut < work.size(); ++cut) {
    if (sum > 0 && sum + work[cut] > most) shards.push_back(cut), sum = 0;
    sum += work[cut];
  }
  return shards;
}

// [replica + 1] first cuts. Those of one unit are alike; of several units, the most work of a replica is
// least.
std::vector<u32> shards_of(const ModelGraph& graph, const std::vector<Chunk>& cuts, bool several_units,
                           u32 replicas) {
  const u32 count = static_cast<u32>(cuts.size()), together = static_cast<u32>(div_up(count, replicas));
  std::vector<u32> shards;
  if (!several_units) {
    for (u32 replica = 0; replica <= replicas; ++replica)
      shards.push_back(std::min(replica * together, count));
    return shards;
  }
  std::vector<u64> work;
  for (const Chunk& cut : cuts) work.push_back(work_of(graph, cut));
  u64 least = *std::ranges::max_element(work), most = std::reduce(work.begin(), work.end());
  while (least < most) {
    const u64 middle = least + (most - least) / 2;
    shards_within(work, middle).size() <= replicas ? most = middle : least = middle + 1;
  }
  shards = shards_within(work, least);
  shards.resize(replicas + 1, count);
  return shards;
}

// The cuts of a window, as chunks that are still of no kind.
std::vector<Chunk> cuts_of(WindowChunks& window, u32 w, const ModelGraph& graph, const Layout& layout,
                           Owners& owners) {
  std::vector<Chunk> cuts;
  for (const UpdateUnit& unit : update_units(graph, graph.windows[w])) {
    const bool whole = window.trains && graph.rules[unit.rule].unit == UnitKind::tensor;
    const u64 size = whole ? unit.elements : cut_size(unit.elements, layout);
    window.units.push_back(
        {.first_cut = static_cast<u32>(cuts.size()), .cuts = static_cast<u32>(div_up(unit.elements, size))});
    for (u64 begin = unit.begin; begin < unit.end(); begin += size) {
      const u32 cut = static_cast<u32>(cuts.size());
      cuts.push_back({.window = w,
                      .cut = cut,
                      .rule = unit.rule,
                      .element_begin = begin,
                      .elements = std::min(size, unit.end() - begin)});
    }
  }
  for (Chunk& cut : cuts) cut.owner = owners.of(cut, window.units.size() > 1);
  return cuts;
}

ChunkId add_kind(Layout& layout, const Window& window, std::span<const Chunk> cuts, Kind kind, u32 instance) {
  ChunkId first{};
  for (Chunk cut : cuts) {
    const SlotRange range = slot_range(window, layout.state_slots.axis(kind), cut.element_begin,
                                       cut.element_begin + cut.elements);
    cut.kind = kind, cut.instance = instance;
    cut.element_begin = range.begin, cut.elements = range.elements;
    if (layout.state_slots.has(cut.rule, kind))
      cut.bytes = Bytes{layout.state_slots.chunk_bytes(kind, cut.elements)};
    const ChunkId id = add(layout, cut);
    if (cut.cut == 0) first = id;
  }
  return first;
}

u32 count_uses(const ModelGraph& graph, u32 window) {
  u32 uses = 0;
  for (const Block& block : graph.blocks)
    uses += static_cast<u32>(std::count(block.windows.begin(), block.windows.end(), window));
  return uses;
}

void add_window(Layout& layout, const ModelGraph& graph, u32 w, Owners& owners) {
  const Window& window = graph.windows[w];
  CHECK(window.elements > 0 && window.elements % layout.state_slots.cut_alignment() == 0, window.elements);
  WindowChunks chunks{.trains = window.trainable};
  const std::vector<Chunk> cuts = cuts_of(chunks, w, graph, layout, owners);
  chunks.cuts = static_cast<u32>(cuts.size());
  chunks.shards = shards_of(graph, cuts, chunks.units.size() > 1, layout.replicas);
  for (u32 replica = 0; replica < layout.replicas; ++replica)
    chunks.shard_cuts = std::max(chunks.shard_cuts, chunks.shard_size(replica));
  const auto kind = [&](Kind k, u32 instance) { return add_kind(layout, window, cuts, k, instance); };
  chunks.param = kind(Kind::param, 0);
  if (!chunks.trains) {
    layout.windows.push_back(std::move(chunks));
    return;
  }
  layout.state_slots.each([&](Kind slot) {
    const auto has = [&](const Chunk& cut) { return layout.state_slots.has(cut.rule, slot); };
    if (std::ranges::any_of(cuts, has)) chunks.state.push_back(kind(slot, 0));
  });
  const u32 uses = count_uses(graph, w);
  for (u32 use = 0; use < uses; ++use) chunks.grad_accum.push_back(kind(Kind::grad_accum, use));
  chunks.grad = layout.state_slots.has(Kind::grad) ? kind(Kind::grad, 0) : chunks.grad_accum.front();
  if (layout.replicas == 1) chunks.local_accum = chunks.grad_accum;
  for (u32 use = 0; use < uses && layout.replicas > 1; ++use) {
    chunks.local_accum.push_back(kind(Kind::grad_accum, uses + use * layout.replicas));
    for (u32 r = 1; r < layout.replicas; ++r) kind(Kind::grad_accum, uses + use * layout.replicas + r);
  }
  for (u32 part = 0; part < uses * layout.nodes && layout.nodes > 1; ++part) {
    const ChunkId first = kind(Kind::grad_part, part);
    if (part == 0) chunks.parts = first;
  }
  layout.windows.push_back(std::move(chunks));
}

// One page stands for loss, norm and the values that updates take from them. The chunk only orders ops: the
// values, and the partial sums of the norm, belong to the executor (decision 7).
Bytes scalars_bytes() { return Bytes{frame_alignment}; }

// Scalars that nodes exchange: a node's votes, the partial sums of the norm that it made, the
// objective's sums and up to three losses of routers for each of its micro-batches, and its count of tokens
// for each expert. All are as large as the largest.
void add_node_scalars(Layout& layout, const ModelGraph& graph, u32 step_micro_batches) {
  std::vector<u64> partials(layout.nodes, 0);
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    const WindowChunks& chunks = layout.windows[w];
    for (u32 cut = 0; cut < chunks.cuts && chunks.trains; ++cut) {
      const Chunk& chunk = layout.chunk(offset_id(chunks.param, cut));
      partials[chunk.owner] += div_up(chunk.elements, norm_granule_elements);
    }
  }
  const u64 numbers = 1 + *std::ranges::max_element(partials) +
                      u64{step_micro_batches} * (graph.objective.sums() + 3) +
                      u64{graph.config.layers} * graph.config.experts.count;
  const u64 bytes = numbers * sizeof(double);
  for (u32 node = 0; node < layout.nodes; ++node) {
    const ChunkId id = add(layout, {.kind = Kind::scalars,
                                    .instance = layout.devices + node,
                                    .bytes = Bytes{round_up(bytes, frame_alignment)}});
    if (node == 0) layout.node_scalars = id;
  }
}

// RETURNS: how rows of the model's table travel.
Lookup lookup_of(const ModelGraph& graph) {
  const u32 block = lookup_block(graph);
  if (block == none) return {};
  const u32 table = graph.blocks[block].windows[0];
  const std::vector<u64>& shape = graph.windows[table].tensors[0].shape;
  return {.window = table,
          .block = block,
          .row_elements = static_cast<u32>(shape[1]),
          .rows_most = static_cast<u32>(std::min(graph.batch.rows(), shape[0]))};
}

}  // namespace

Layout make_layout(const ModelGraph& graph, const LayoutOptions& options) {
  Layout layout{.precision = graph.precision,
                .state_slots = graph.state_slots,
                .target_elements = options.target_elements,
                .micro_batches = options.micro_batches,
                .units = options.micro_batches * graph.batch.pieces(),
                .devices = options.devices,
                .replicas = replicas_of(options.parallel, options.devices),
                .nodes = options.nodes,
                .node = options.node,
                .updates_wait = options.updates_wait,
                .trains = trains(graph),
                .lookup = options.looks_up ? lookup_of(graph) : Lookup{}};
  Owners owners(graph, layout.nodes);
  for (u32 w = 0; w < graph.windows.size(); ++w) add_window(layout, graph, w, owners);
  add_streams(layout, graph);
  for (u32 b = 0; b < graph.blocks.size() && layout.trains; ++b)
    for (u32 u = 0; u < layout.units; ++u) {
      const Bytes kept = graph.blocks[b].kept;
      layout.kept.push_back(kept.value == 0
                                ? ChunkId{none}
                                : add_whole(layout, {.kind = Kind::kept, .block = b, .bytes = kept}, u));
    }
  for (u32 m = 0; m < options.micro_batches; ++m) {
    for (u32 piece = 0; piece < graph.batch.pieces() && layout.trains; ++piece)
      add_gradient_streams(layout, graph, m * graph.batch.pieces() + piece);
    layout.batch.push_back(add_whole(layout, {.kind = Kind::batch, .bytes = graph.batch_bytes}, m));
  }
  const Bytes rows = lookup_bytes(layout.lookup, layout.precision);
  for (u32 m = 0; m < options.micro_batches && layout.lookup.on(); ++m)
    layout.rows.push_back(add_whole(layout, {.kind = Kind::rows, .bytes = rows}, m));
  const u32 devices = layout.devices;
  if (const Bytes past = largest_past(graph); past.value > 0)
    layout.past = add_each(layout, {.kind = Kind::past, .bytes = past}, 0, devices);
  layout.workspace =
      add_each(layout, {.kind = Kind::workspace, .bytes = largest_workspace(graph)}, 0, devices);
  layout.scalars = add_each(layout, {.kind = Kind::scalars, .bytes = scalars_bytes()}, 0, devices);
  if (layout.nodes > 1 && layout.trains) add_node_scalars(layout, graph, options.step_micro_batches);
  return layout;
}

Bytes Layout::bytes(ChunkId first, u32 count) const {
  Bytes sum{};
  for (u32 i = 0; i < count; ++i) sum += chunk(offset_id(first, i)).bytes;
  return sum;
}

Bytes Layout::shard_bytes(ChunkId first) const {
  const WindowChunks& window = windows[chunk(first).window];
  Bytes most{};
  for (u32 replica = 0; replica < replicas; ++replica)
    most = std::max(most, bytes(offset_id(first, window.shard_begin(replica)), window.shard_size(replica)));
  return most;
}

std::vector<ChunkId> Layout::state(u32 window, u32 cut) const {
  const WindowChunks& w = windows[window];
  std::vector<ChunkId> ids = {offset_id(w.param, cut)};
  if (!w.trains || !owns(window, cut)) return ids;
  for (const ChunkId slot : w.state)
    if (is_persistent(chunk(offset_id(slot, cut)))) ids.push_back(offset_id(slot, cut));
  return ids;
}

std::vector<ChunkId> Layout::state(u32 window) const {
  CHECK(nodes == 1 || !windows[window].trains, nodes, window);
  std::vector<ChunkId> ids = {windows[window].param};
  if (windows[window].trains)
    ids.insert(ids.end(), windows[window].state.begin(), windows[window].state.end());
  return ids;
}

ChunkId Layout::gradient(u32 window, u32 cut) const { return offset_id(windows[window].grad, cut); }

}  // namespace tidepool
