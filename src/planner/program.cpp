#include "planner/program.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {
namespace {

class Builder {
 public:
  Builder(const ModelGraph& graph, const Layout& layout, const ProgramOptions& options)
      : graph_(graph), layout_(layout) {
    program_.options = options;
    program_.options.pieces = graph.batch.pieces();
    program_.last_backward_block = last_backward_block(graph);
    program_.sweep_micro_batches = options.micro_batches / options.sweeps;
    program_.update.resize(graph.windows.size());
    program_.direction.resize(graph.windows.size());
    program_.orthogonalize.resize(graph.windows.size());
    program_.gradient.resize(graph.windows.size());
    program_.reduce.resize(graph.windows.size());
    program_.combine.resize(graph.windows.size());
    for (u32 w = 0; w < graph.windows.size(); ++w) {
      program_.update[w].resize(layout.windows[w].cuts);
      program_.direction[w].resize(layout.windows[w].cuts);
      program_.orthogonalize[w].resize(layout.windows[w].cuts);
      program_.reduce[w].resize(layout.windows[w].grad_accum.size());
      program_.combine[w].resize(layout.windows[w].cuts);
    }
    find_order();
    program_.readers.resize(graph.windows.size());
    for (u32 b = 0; b < graph.blocks.size(); ++b)
      for (const u32 w : graph.blocks[b].windows) program_.readers[w].push_back(b);
    for (const std::vector<u32>& blocks : program_.readers) CHECK(!blocks.empty(), graph.windows.size());
  }

  Program build() {
    for (u32 sweep = 0; sweep < program_.options.sweeps; ++sweep) add_sweep(sweep);
    if (!program_.options.clipping) finish_updates();
    if (layout_.trains) program_.norm = add({.kind = OpKind::norm});
    add_lives();
    return std::move(program_);
  }

 private:
  i32 add(const ProgramOp& op) {
    program_.ops.push_back(op);
    return program_.positions() - 1;
  }

  void add_sweep(u32 sweep) {
    const u32 begin = sweep * program_.sweep_micro_batches;
    for (u32 m = 0; m < program_.sweep_micro_batches; ++m)
      add({.kind = OpKind::load_batch, .micro_batch = begin + m, .sweep = sweep});
    const u32 head = static_cast<u32>(graph_.blocks.size()) - 1;
    for (u32 b = 0; b <= head; ++b) {
      if (sweep == 0 && program_.options.clipping) add_updates_before(b);
      if (b != head) add_pass(OpKind::forward, b, sweep);
    }
    if (sweep == 0) program_.first_backward = program_.positions();
    for (u32 b = head + 1; b-- > program_.last_backward_block;) {
      add_pass(OpKind::backward, b, sweep);
      if (!layout_.trains) continue;
      if (sweep + 1 != program_.options.sweeps) continue;
      if (program_.options.replicas() > 1) add_reductions(b);
      add_finished_gradients(b);
    }
  }

  // Adds a pass, with recall before backward if the block has a past.
  void add_pass(OpKind kind, u32 block, u32 sweep) {
    const u32 pieces = program_.options.pieces;
    const bool recalls = kind == OpKind::backward && graph_.blocks[block].past.value > 0 && layout_.trains;
    Pass pass{.kind = kind,
              .block = block,
              .sweep = sweep,
              .first = program_.positions(),
              .device = program_.options.device_of(block),
              .stride = static_cast<i32>(recalls ? 2 * pieces : pieces)};
    Pass recall = pass;
    recall.kind = OpKind::recall;
    if (recalls) pass.first += static_cast<i32>(pieces);
    for (u32 m = 0; m < program_.sweep_micro_batches; ++m) {
      for (u32 piece = 0; piece < pieces && recalls; ++piece) recall.last = add_op(recall, m, piece);
      for (u32 i = 0; i < pieces; ++i)
        pass.last = add_op(pass, m, kind == OpKind::backward ? pieces - 1 - i : i);
    }
    if (recalls) program_.passes.push_back(recall);
    program_.passes.push_back(pass);
  }

  i32 add_op(const Pass& pass, u32 m, u32 piece) {
    return add({.kind = pass.kind,
                .block = pass.block,
                .micro_batch = pass.sweep * program_.sweep_micro_batches + m,
                .piece = piece,
                .sweep = pass.sweep,
                .first_accumulation = pass.sweep == 0 && m == 0 && piece + 1 == program_.options.pieces,
                .device = pass.device});
  }

  void add_lives() {
    std::vector<std::vector<StreamLife>> lives(u64{program_.options.sweeps} * graph_.streams.size());
    for (u32 i = 0; i < program_.passes.size(); ++i) {
      const Pass& pass = program_.passes[i];
      const Block& block = graph_.blocks[pass.block];
      const auto& uses = pass.kind == OpKind::forward ? block.forward_streams : block.backward_streams;
      for (const StreamUse& use : uses) {
        if (pass.kind == OpKind::recall && is_gradient_stream(graph_.streams[use.stream].kind)) continue;
        if (is_gradient_stream(graph_.streams[use.stream].kind) && !layout_.trains) continue;
        add_use(lives[u64{pass.sweep} * graph_.streams.size() + use.stream], i, use);
      }
    }
    for (std::vector<StreamLife>& of_stream : lives)
      program_.lives.insert(program_.lives.end(), of_stream.begin(), of_stream.end());
  }

  void add_use(std::vector<StreamLife>& lives, u32 i, const StreamUse& use) {
    const Pass& pass = program_.passes[i];
    if (use.access == Access::write)
      lives.push_back({.stream = use.stream, .sweep = pass.sweep, .whole = graph_.streams[use.stream].whole});
    CHECK(!lives.empty(), use.stream, pass.block);
    std::vector<StreamLife::Run>& runs = lives.back().runs;
    // All pieces of a long sequence need not be on the device from one block's pass to the next.
    const bool goes_on = (program_.options.pieces == 1 || lives.back().whole) && !runs.empty() &&
                         runs.back().last + 1 == i && program_.passes[i - 1].kind == pass.kind &&
                         program_.passes[i - 1].device == pass.device;
    if (!goes_on) runs.push_back({.first = i});
    runs.back().last = i;
    runs.back().writes |= writes(use.access);
  }

  // Takes the replicas' shards in turn, so that the ops that follow keep all links busy.
  template <class Fn>
  void for_cuts(u32 window, Fn&& fn) {
    const WindowChunks& chunks = layout_.windows[window];
    for (u32 i = 0; i < chunks.shard_cuts; ++i)
      for (u32 r = 0; r < program_.options.replicas(); ++r)
        if (i < chunks.shard_size(r)) fn(chunks.shard_begin(r) + i);
  }

  // ---- updates --------------------------------------------------------------------------------

  // Windows in the order in which blocks need them updated.
  void find_order() {
    std::vector<bool> seen(graph_.windows.size(), false);
    place_.resize(graph_.windows.size());
    for (u32 b = 0; b < graph_.blocks.size(); ++b)
      for (const u32 window : trained_windows(b))
        if (!seen[window]) {
          seen[window] = true;
          place_[window] = order_.size();
          order_.push_back(window);
        }
  }

  bool streams(u32 window, u32 cut) const {
    const u8 rule = layout_.chunk(offset_id(layout_.windows[window].param, cut)).rule;
    return graph_.rules[rule].place == UpdatePlace::streamed;
  }
  i32 add_of_cut(OpKind kind, u32 window, u32 cut) {
    return add({.kind = kind, .window = window, .cut = cut, .device = device_of(window)});
  }

  void add_directions(u32 window) {
    for_cuts(window, [&](u32 cut) {
      if (streams(window, cut)) program_.direction[window][cut] = add_of_cut(OpKind::direction, window, cut);
    });
  }
  void add_orthogonalizations(u32 window) {
    for_cuts(window, [&](u32 cut) {
      if (streams(window, cut))
        program_.orthogonalize[window][cut] = add_of_cut(OpKind::orthogonalize, window, cut);
    });
  }
  enum class Cuts : u8 { all, streamed, others };  // by the place of their rule's update
  void add_updates(u32 window, Cuts which) {
    for_cuts(window, [&](u32 cut) {
      const bool streams_here = streams(window, cut);
      if (which == (streams_here ? Cuts::others : Cuts::streamed)) return;
      const i32 update = add_of_cut(OpKind::update, window, cut);
      program_.update[window][cut] = program_.last_of_updates = update;
      if (!streams_here) program_.direction[window][cut] = program_.orthogonalize[window][cut] = update;
    });
  }

  // The next window's updates, with what the windows after it need by now.
  void add_next_updates() {
    constexpr u64 orthogonalized_ahead = 1, directed_ahead = 2;
    add_updates(order_[updated_], Cuts::all);
    ++updated_;
    const auto catch_up = [&](u64& done, u64 ahead, auto add_stage) {
      for (; done < std::min(updated_ + ahead, order_.size()); ++done) add_stage(order_[done]);
    };
    catch_up(orthogonalized_, orthogonalized_ahead, [&](u32 window) { add_orthogonalizations(window); });
    catch_up(directed_, directed_ahead, [&](u32 window) { add_directions(window); });
  }
  // The first windows' directions, before any update.
  void begin_updates() {
    if (order_.empty() || directed_ > 0) return;
    add_directions(order_[directed_++]);
    if (order_.size() > 1) add_directions(order_[directed_++]);
    add_orthogonalizations(order_[orthogonalized_++]);
  }

  // Without clipping: a window's gradient is finished.
  void add_updates_behind(u32 window) {
    add_updates(window, Cuts::others);
    if (updated_ + 1 < behind_.size()) add_updates(behind_[updated_++], Cuts::streamed);
    if (orthogonalized_ < behind_.size()) add_orthogonalizations(behind_[orthogonalized_++]);
    add_directions(window);
    behind_.push_back(window);
  }
  void finish_updates() {
    while (updated_ < behind_.size()) {
      if (orthogonalized_ < behind_.size()) add_orthogonalizations(behind_[orthogonalized_++]);
      add_updates(behind_[updated_++], Cuts::streamed);
    }
  }

  void add_combines(u32 window) {
    for_cuts(window, [&](u32 cut) {
      program_.combine[window][cut] = add({.kind = OpKind::combine, .window = window, .cut = cut});
    });
  }

  std::vector<u32> trained_windows(u32 block) const {
    std::vector<u32> windows;
    for (u32 window : graph_.blocks[block].windows)
      if (layout_.windows[window].trains) windows.push_back(window);
    return windows;
  }

  void add_reductions(u32 block) {
    for (u32 window : trained_windows(block))
      program_.reduce[window][use_of(graph_, block, window)] =
          add({.kind = OpKind::reduce_scatter, .block = block, .window = window});
  }

  // With layers over devices the next blocks' passes begin while this one's runs: until the device has run
  // this block, their parameters should have come up.
  void add_updates_before(u32 block) {
    const u32 ahead = program_.options.parallel == Parallel::layers ? program_.options.devices : 0;
    const u32 last = std::min(block + ahead, static_cast<u32>(graph_.blocks.size()) - 1);
    for (u32 b = block; b <= last; ++b) add_updates_needed_by(b);
  }

  void add_updates_needed_by(u32 block) {
    begin_updates();
    for (u32 window : trained_windows(block))
      while (updated_ <= place_[window]) add_next_updates();
  }

  // A window's gradient is finished when the first block that reads the window (the last in backward order)
  // has run.
  void add_finished_gradients(u32 block) {
    for (u32 window : trained_windows(block))
      if (program_.first_reader(window) == block) {
        program_.gradient[window] = program_.positions();
        if (program_.options.nodes > 1)
          add_combines(window);
        else
          add({.kind = OpKind::gradient, .window = window, .device = device_of(window)});
        if (!program_.options.clipping) add_updates_behind(window);
      }
  }

  u32 device_of(u32 window) const { return program_.options.device_of(program_.first_reader(window)); }

  const ModelGraph& graph_;
  const Layout& layout_;
  Program program_;
  std::vector<u32> order_;   // trained windows, by the first block that reads them
  std::vector<u64> place_;   // [window], in `order_`
  std::vector<u32> behind_;  // without clipping: windows in the order of their gradients
  // Counts of windows whose ops are added: of `order_` with clipping, of `behind_` without.
  u64 updated_ = 0, orthogonalized_ = 0, directed_ = 0;
};

}  // namespace

u32 use_of(const ModelGraph& graph, u32 block, u32 window) {
  u32 use = 0;
  for (u32 b = 0; b < block; ++b)
    for (u32 w : graph.blocks[b].windows) use += w == window;
  return use;
}

i32 Program::first_direction(u32 window) const {
  return *std::min_element(direction[window].begin(), direction[window].end());
}
i32 Program::first_update(u32 window) const {
  return *std::min_element(update[window].begin(), update[window].end());
}
i32 Program::last_update(u32 window) const {
  return *std::max_element(update[window].begin(), update[window].end());
}

Program make_program(const ModelGraph& graph, const Layout& layout, const ProgramOptions& options) {
  CHECK(options.sweeps > 0 && options.micro_batches % options.sweeps == 0, options.sweeps,
        options.micro_batches);
  CHECK(layout.micro_batches == options.micro_batches / options.sweeps, layout.micro_batches);
  return Builder(graph, layout, options).build();
}

}  // namespace tidepool
