// lower_bound() finds the fewest bytes that any plan moves over each link: all that moves without memory,
// less the most that memory could save.
#include "planner/bound/lower_bound.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "planner/device_chains.h"
#include "planner/program.h"

namespace tidepool {
namespace {

// ---- savings on each link -----------------------------------------------------------------------------

using Sets = std::array<std::vector<u64>, 2>;  // by tier: bytes by position

class Savings {
 public:
  Savings(const Plan& plan, const ModelGraph& graph, const Sets& working)
      : graph_(graph),
        devices_(plan.devices),
        replicas_(plan.replicas()),
        together_(units_together(plan, graph)),
        layout_(make_layout(graph, {.target_elements = plan.chunk_elements,
                                    .micro_batches = plan.micro_batches_per_replica() / plan.sweeps,
                                    .devices = plan.devices,
                                    .parallel = plan.parallel,
                                    .nodes = plan.nodes,
                                    .step_micro_batches = plan.micro_batches_per_replica() * plan.replicas(),
                                    .node = plan.node,
                                    .updates_wait = !plan.speculates,
                                    .looks_up = plan.lookup.on()})),
        program_(make_program(graph, layout_,
                              {.micro_batches = plan.micro_batches_per_replica(),
                               .sweeps = plan.sweeps,
                               .clipping = plan.clipping,
                               .devices = plan.devices,
                               .parallel = plan.parallel,
                               .nodes = plan.nodes,
                               .node = plan.node})),
        no_home_(graph.windows.size(), false),
        chains_(graph, layout_, program_, no_home_) {
    CHECK(working[0].size() == program_.ops.size(), working[0].size());
    for (u32 w = 0; w < graph.windows.size(); ++w) {
      if (w == plan.lookup.window) continue;  // how many rows come up depends on the data
      if (!layout_.windows[w].trains)
        add_frozen_window(w);
      else if (plan.nodes > 1)
        add_window_of_nodes(w);
      else
        add_window(w);
    }
    for (const StreamLife& life : program_.lives) add_stream(life);
    base_[link(LinkKind::h2d)] += layout_.chunk(layout_.batch[0]).bytes.value * plan.micro_batches /
                                  plan.nodes * chains_.batch_spans(0, 0).size();
    set_capacities(plan, working);
  }

  // Fewest weighed bytes. `planned`: weighed bytes that a plan moves.
  u64 weighed_bound(u64 planned) const {
    std::array<Bytes, link_count> all;
    for (u32 l = 0; l < link_count; ++l) all[l] = Bytes{base_[l] + forced_[l]};
    std::vector<u64> of_host(capacity_.size());
    for (u64 p = 0; p < capacity_.size(); ++p) of_host[p] = capacity_[p] - capacity_of_devices_[p];
    const u64 moved = weighed(all), reached = moved - std::min(planned, moved);
    const u64 saved = most_saved_weighed(contents_, capacity_of_devices_, of_host, reached);
    return std::max(moved - std::min(saved, moved), weighed(bounds()));  // the search may end early
  }

  std::array<Bytes, link_count> bounds() const {
    std::array<Bytes, link_count> out;
    for (u32 l = 0; l < link_count; ++l) {
      const u64 saved =
          most_saved(savings_[l], is_disk(static_cast<LinkKind>(l)) ? capacity_ : capacity_of_devices_);
      out[l] = Bytes{forced_[l] + base_[l] - std::min(saved, base_[l])};
    }
    return out;
  }

 private:
  // The flow takes time in the square of the number of contents that could stay. With more streams than
  // this, neighbouring micro-batches are merged: they are held only while all of them are, and need no more
  // room than before, so the bound stays a bound. 250 micro-batches of 12 blocks took 19 s without merging.
  // Pieces, which run backward in the other order, are merged within their micro-batch.
  static constexpr u64 contents_max = 1024;
  static u32 units_together(const Plan& plan, const ModelGraph& graph) {
    const u64 contents = graph.streams.size() * plan.micro_batches_per_replica() * plan.pieces;
    const u32 together = static_cast<u32>(div_up(contents, contents_max));
    return plan.pieces == 1 ? together : std::min(together, plan.pieces);
  }

  static constexpr u32 link(LinkKind kind) { return static_cast<u32>(kind); }
  i32 turn() const { return program_.positions(); }

  static bool is_disk(LinkKind kind) { return kind == LinkKind::disk_read || kind == LinkKind::disk_write; }

  // Adds a move of `bytes` over the link once per step, unless the content stays over the gap: on devices, or
  // for the disk's links in either tier.
  void add(LinkKind kind, i32 begin, i32 end, u64 bytes) {
    if (begin > end || bytes == 0) return;  // nothing happens in between: it stays anyway
    base_[link(kind)] += bytes;
    if (end >= turn()) begin -= turn(), end -= turn();
    savings_[link(kind)].push_back({begin, end, bytes, bytes});
    hold(kind, begin, end, bytes);
  }

  // Moves of one content over the same gap are saved together.
  void hold(LinkKind kind, i32 begin, i32 end, u64 bytes) {
    const auto same = [&](const HeldGap& h) { return h.begin == begin && h.end == end && h.bytes == bytes; };
    auto gap = std::ranges::find_if(gaps_, same);
    if (gap == gaps_.end()) gap = gaps_.insert(gap, {.begin = begin, .end = end, .bytes = bytes});
    (is_disk(kind) ? gap->disk : gap->links) += bytes;
  }
  // Call when all gaps of a content have been added that is no part of a window's home.
  void end_content() {
    contents_.others.insert(contents_.others.end(), gaps_.begin(), gaps_.end());
    gaps_.clear();
  }
  // The same for a window, whose gaps are of its parameters.
  void end_window(HeldWindow window) {
    window.params = std::exchange(gaps_, {});
    contents_.windows.push_back(std::move(window));
  }
  HeldGap turned(i32 begin, i32 end, u64 bytes) const {
    if (begin > end) return {};
    if (end >= turn()) begin -= turn(), end -= turn();
    return {.begin = begin, .end = end, .bytes = bytes, .disk = 2 * bytes};
  }

  // A whole window at home on the device moves nothing to or from it: the savings of holding `window_bytes`
  // add up. What it saves on the disk its contents save one by one.
  void add_device_home(LinkKind kind, u64 window_bytes, u64 moved) {
    Saving& home = home_[link(kind)];
    home = {0, turn() - 1, window_bytes, home.saved + moved};
  }

  void add_window(u32 w) {
    const WindowChunks& chunks = layout_.windows[w];
    const u64 param = layout_.bytes(chunks.param, chunks.cuts).value;
    const u64 grad = layout_.bytes(chunks.grad, chunks.cuts).value;
    u64 rest = 0;  // state that only the update touches
    for (u32 cut = 0; cut < chunks.cuts; ++cut)
      for (ChunkId id : layout_.state(w, cut))
        if (layout_.chunk(id).kind != Kind::param) rest += layout_.chunk(id).bytes.value;
    const i32 first_update = program_.first_update(w), last_update = program_.last_update(w);
    const u64 visits = visited_bytes(w);

    // A gradient does not exist all around the step, so its bytes do not count as held; nor do those of a
    // parameter that dies.
    const bool dies = layout_.params_die(w);
    const u64 window = rest + (dies ? 0 : param);
    const i32 all = turn() - 1;

    // State rests all around or is read and written; so is the parameter once an update has written it.
    for (LinkKind kind : {LinkKind::disk_read, LinkKind::disk_write}) add(kind, 0, all, rest);
    if (!dies) add(LinkKind::disk_write, 0, all, param);
    gaps_.clear();

    // Gaps of the parameters: between uses on the device, and in the host between those and the update.
    const std::vector<const Pass*> touches = param_touches(w);
    struct {
      i32 begin = 0, end = -1;
    } longest;
    for (u64 t = 0; t + 1 < touches.size(); ++t) {
      const i32 begin = touches[t]->last + 1, end = touches[t + 1]->first - 1;
      if (begin > end) continue;
      if (end - begin > longest.end - longest.begin) longest = {begin, end};
      add(LinkKind::disk_read, begin, end, param);
    }
    add_arrivals(touches, param, window);
    if (!dies)
      add(LinkKind::disk_read, touches.back()->last + 1,
          first_update - 1 + (program_.options.clipping ? turn() : 0), param);
    if (!program_.options.clipping)
      add(LinkKind::disk_read, last_update + 1, touches.front()->first - 1 + turn(), param);

    // Parameters that die after their last use are written only if they leave memory before it. To save the
    // write, they must stay at least over the longest gap.
    if (dies && longest.begin <= longest.end) {
      add(LinkKind::disk_write, longest.begin, longest.end, param);
    }

    const i32 gradient_until = program_.first_direction(w) - 1 + (program_.options.clipping ? turn() : 0);
    HeldGap gradient = turned(program_.gradient[w] + 1, gradient_until, grad);
    gradient.links = grad;
    end_window({.state = turned(0, all, rest),
                .gradient = gradient,
                .params = {},
                .written = dies ? 0 : param,
                .links_at_home = param + 2 * visits});

    // Only a home on the device saves the gradient's departure, and the visits of directions.
    base_[link(LinkKind::d2h)] += grad + visits;
    add_device_home(LinkKind::d2h, window, grad + visits);
    base_[link(LinkKind::h2d)] += visits;
    add_device_home(LinkKind::h2d, window, visits);
    for (LinkKind kind : {LinkKind::disk_read, LinkKind::disk_write})
      add(kind, program_.gradient[w] + 1, gradient_until, grad);
    gaps_.clear();
    add_home_savings();
    add_accumulators(w);
  }

  // Bytes of this node's directions that devices orthogonalize.
  u64 visited_bytes(u32 w) const {
    u64 bytes = 0;
    for (u32 cut = 0; cut < layout_.windows[w].cuts; ++cut)
      if (program_.streams(w, cut) && layout_.owns(w, cut))
        bytes += layout_.chunk(layout_.gradient(w, cut)).bytes.value;
    return bytes;
  }

  // Adds a window that several nodes train. It rests in the host or on disk. `own` and `others`: its cuts by
  // owner; parameters of others are dead from their last use until they arrive.
  void add_window_of_nodes(u32 w) {
    const WindowChunks& chunks = layout_.windows[w];
    u64 rest = 0, own = 0, others = 0, grad = 0;
    for (u32 cut = 0; cut < chunks.cuts; ++cut) {
      const u64 param = layout_.bytes(offset_id(chunks.param, cut), 1).value;
      (layout_.params_die(w, cut) ? others : own) += param;
      if (!layout_.owns(w, cut)) continue;
      grad += layout_.bytes(layout_.gradient(w, cut), 1).value;
      for (const ChunkId id : layout_.state(w, cut))
        if (layout_.chunk(id).kind != Kind::param) rest += layout_.chunk(id).bytes.value;
    }
    const i32 first_update = program_.first_update(w), last_update = program_.last_update(w),
              all = turn() - 1;
    const bool clipping = program_.options.clipping;
    add(LinkKind::disk_read, 0, all, rest);
    add(LinkKind::disk_write, 0, all, rest + own);
    const u64 uses = chunks.grad_accum.size();
    base_[link(LinkKind::d2h)] += uses * layout_.bytes(chunks.grad_accum[0], chunks.cuts).value;

    const std::vector<const Pass*> touches = param_touches(w);
    i32 longest_begin = 0, longest_end = -1;
    for (u64 t = 0; t + 1 < touches.size(); ++t) {
      const i32 begin = touches[t]->last + 1, end = touches[t + 1]->first - 1;
      add(LinkKind::disk_read, begin, end, own + others);
      if (end - begin > longest_end - longest_begin) longest_begin = begin, longest_end = end;
    }
    add_arrivals(touches, own + others, 0);
    add(LinkKind::disk_read, touches.back()->last + 1, first_update - 1 + (clipping ? turn() : 0), own);
    if (clipping) {
      add(LinkKind::disk_write, longest_begin, longest_end, others);
    } else {
      add(LinkKind::disk_read, last_update + 1, touches.front()->first - 1 + turn(), own + others);
      add(LinkKind::disk_write, last_update + 1, touches.back()->last + turn(), others);
    }
    for (const LinkKind kind : {LinkKind::h2d, LinkKind::d2h}) forced_[link(kind)] += visited_bytes(w);
    const i32 gradient_until = program_.first_direction(w) - 1 + (clipping ? turn() : 0);
    const i32 combined = *std::ranges::max_element(program_.combine[w]);
    for (LinkKind kind : {LinkKind::disk_read, LinkKind::disk_write})
      add(kind, combined + 1, gradient_until, grad);
    add_accumulators(w);
  }

  // Adds a frozen window: its parameters are copied up and read before each use, unless they stay.
  void add_frozen_window(u32 w) {
    const u64 param = layout_.bytes(layout_.windows[w].param, layout_.windows[w].cuts).value;
    const std::vector<const Pass*> touches = param_touches(w);
    for (u64 t = 0; t < touches.size(); ++t) {
      const bool last = t + 1 == touches.size();
      const i32 begin = touches[t]->last + 1,
                end = touches[last ? 0 : t + 1]->first - 1 + (last ? turn() : 0);
      if (begin > end) continue;
      // From the last use to the first of the next step, the window stays on the device only if its home is
      // there.
      add(LinkKind::disk_read, begin, end, param);
    }
    add_arrivals(touches, param, param);
    end_window({.state = {}, .gradient = {}, .params = {}, .links_at_home = param});
    add_home_savings();
  }

  void add_home_savings() {
    for (u32 l = 0; l < link_count; ++l)
      if (home_[l].bytes > 0) savings_[l].push_back(std::exchange(home_[l], {}));
  }

  // Adds the copies of a window's parameters to each device that uses them, once and after each gap. Only a
  // home there, of `home` bytes (0: none is possible), saves the first.
  void add_arrivals(const std::vector<const Pass*>& touches, u64 param, u64 home) {
    std::vector<const Pass*> last(devices_, nullptr);
    for (const Pass* touch : touches) {
      const Pass* const before = std::exchange(last[touch->device], touch);
      if (before != nullptr && before->last + 1 == touch->first) continue;
      if (before != nullptr)
        add(LinkKind::h2d, before->last + 1, touch->first - 1, param);
      else
        base_[link(LinkKind::h2d)] += param;
      if (home > 0) add_device_home(LinkKind::h2d, home, param);
    }
  }

  std::vector<const Pass*> param_touches(u32 w) const {
    std::vector<const Pass*> touches;
    for (const Pass& p : program_.passes) {
      const Block& block = graph_.blocks[p.block];
      const bool needs = p.kind == OpKind::forward || block.kind != BlockKind::embedding;
      if (needs && std::count(block.windows.begin(), block.windows.end(), w) > 0) touches.push_back(&p);
    }
    return touches;
  }

  void add_all_links(i32 begin, i32 end, u64 bytes) {
    for (LinkKind kind : {LinkKind::h2d, LinkKind::d2h}) add(kind, begin, end, bytes);
    add_disk(begin, end, bytes);
  }
  void add_disk(i32 begin, i32 end, u64 bytes) {
    for (LinkKind kind : {LinkKind::disk_read, LinkKind::disk_write}) add(kind, begin, end, bytes);
  }

  void add_accumulators(u32 w) {
    const u64 bytes = layout_.bytes(layout_.windows[w].grad_accum[0], layout_.windows[w].cuts).value;
    for (u32 b = 0; b < graph_.blocks.size(); ++b) {
      const Block& block = graph_.blocks[b];
      if (std::count(block.windows.begin(), block.windows.end(), w) == 0) continue;
      i32 last = -1;
      for (const Pass& p : program_.passes) {
        if (p.kind != OpKind::backward || p.block != b) continue;
        if (last >= 0) add_all_links(last + 1, p.first - 1, bytes * replicas_);
        last = p.last;
      }
      if (replicas_ > 1) {
        const i32 reduced = program_.reduce[w][use_of(graph_, b, w)];
        add_all_links(last + 1, reduced - 1, bytes * replicas_);
        last = reduced;
      }
      const bool passes =
          program_.options.device_of(b) != program_.options.device_of(program_.first_reader(w));
      if (layout_.nodes == 1 && passes) {  // to the device that adds the uses
        add_disk(last + 1, program_.gradient[w] - 1, bytes);
        for (LinkKind kind : {LinkKind::h2d, LinkKind::d2h}) forced_[link(kind)] += bytes;
        continue;
      }
      if (layout_.nodes == 1) {
        add_all_links(last + 1, program_.gradient[w] - 1, bytes);
        continue;
      }
      for (LinkKind kind : {LinkKind::disk_read, LinkKind::disk_write})  // it waits in the host
        add(kind, last + 1, program_.gradient[w] - 1, bytes);
    }
    end_content();
  }

  // Between two touches a stream's content may leave the device; and between devices it must. It moves down
  // once for all that read it: that is counted in the first gap.
  void add_stream(const StreamLife& life) {
    const u64 bytes = layout_.chunk(layout_.stream(life.stream, 0)).bytes.value * replicas_;
    const u32 pieces = program_.options.pieces, units = program_.sweep_units();
    const u32 step = program_.units_of(life);
    for (u32 u = 0, end = 0; u < units; u = end) {
      end = std::min(u + std::max(together_, step), pieces == 1 ? units : (u / pieces + 1) * pieces);
      const DeviceChain first = chains_.stream(life, u), last = chains_.stream(life, end - step);
      for (u32 t = 1; t < first.touches.size(); ++t) add_touch(first, last, t, bytes * ((end - u) / step));
      end_content();
    }
  }

  // `first`, `last`: chains of the first and the last of some micro-batches or pieces, `bytes` of all of
  // them.
  void add_touch(const DeviceChain& first, const DeviceChain& last, u32 t, u64 bytes) {
    const DeviceChain::Touch& touch = first.touches[t];
    const bool moves_down = t == touch.made_by + 1;
    const i32 end = std::min(touch.span.begin, last.touches[t].span.begin) - 1;
    const i32 begin =
        touch.before == none
            ? 0
            : std::max(first.touches[touch.before].span.end, last.touches[touch.before].span.end) + 1;
    if (touch.before == none)
      forced_[link(LinkKind::h2d)] += bytes;
    else
      add(LinkKind::h2d, begin, end, bytes);
    // Content on its way between devices need not see the disk: one copy in the host serves all.
    if (touch.before + 1 == t) {
      add(LinkKind::disk_read, begin, end, bytes);
      if (moves_down) add(LinkKind::disk_write, begin, end, bytes);
    }
    if (moves_down && first.touches[touch.made_by].is_read_elsewhere)
      forced_[link(LinkKind::d2h)] += bytes;
    else if (moves_down && touch.before != none)
      add(LinkKind::d2h, begin, end, bytes);
  }

  // For the disk both tiers are one: content that stays in either is not moved there.
  void set_capacities(const Plan& plan, const Sets& working) {
    const auto free = [&](u32 tier, u64 p) {
      const u64 budget = plan.tiers[tier].budget.value, used = working[tier][p];
      return budget > used ? budget - used : 0;
    };
    for (u64 p = 0; p < program_.ops.size(); ++p) {
      capacity_of_devices_.push_back(free(0, p) * devices_);
      capacity_.push_back(capacity_of_devices_.back() + free(1, p));
    }
  }

  const ModelGraph& graph_;
  const u32 devices_, replicas_;
  const u32 together_;  // micro-batches, or pieces of one, that are merged
  Layout layout_;
  Program program_;
  const std::vector<bool> no_home_;
  const DeviceChains chains_;
  std::array<u64, link_count> base_{};    // moves that memory can save
  std::array<u64, link_count> forced_{};  // moves from device to device, which it cannot
  std::array<std::vector<Saving>, link_count> savings_;
  std::vector<u64> capacity_of_devices_, capacity_;  // of devices and host together
  std::array<Saving, link_count> home_{};            // savings of the window being added
  std::vector<HeldGap> gaps_;                        // of the content being added
  HeldContents contents_;
};

}  // namespace

std::array<Bytes, link_count> lower_bound(const Plan& plan, const ModelGraph& graph) {
  const auto bounds = Savings(plan, graph, plan.working_set).bounds();
  const auto moved = link_bytes(plan, SegmentKind::body);
  const bool holds = std::ranges::equal(bounds, moved, std::less_equal());
  return holds ? bounds : Savings(plan, graph, plan.least_set).bounds();
}

std::optional<u64> weighed_lower_bound(const Plan& plan, const ModelGraph& graph) {
  if (plan.nodes > 1 || plan.replicas() != plan.devices) return std::nullopt;
  const u64 moved = weighed(link_bytes(plan, SegmentKind::body));
  const u64 bound = Savings(plan, graph, plan.working_set).weighed_bound(moved);
  return bound <= moved ? bound : Savings(plan, graph, plan.least_set).weighed_bound(moved);
}

Bytes net_lower_bound(const Plan& plan, const ModelGraph& graph) {
  u64 bytes = 0;
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    if (!graph.windows[w].trainable) continue;
    u64 uses = 0;
    for (const Block& block : graph.blocks) uses += static_cast<u64>(std::ranges::count(block.windows, w));
    bytes += graph.windows[w].elements * (value_bytes(plan.precision) + uses * sizeof(float));
  }
  return Bytes{bytes / plan.nodes * (plan.nodes - 1)};
}

}  // namespace tidepool
