// explain_chunk() tells the life of one chunk over a step: its content, its home and the reason for it, and
// every op that moves or uses the chunk, with the waits between.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "planner/explain/explain_parts.h"
#include "tidepool/slot_range.h"

namespace tidepool {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr u32 waits_told_min = 8;  // in ops; shorter waits come from lanes that run at the same time

std::string_view meaning_of(const StateSlots& slots, Kind kind) {
  if (is_slot(kind)) return slots[kind].meaning;
  constexpr std::array<std::string_view, kind_count - state_slots_max> meanings = {
      "weights, as compute reads them",
      "finished gradient, on its way to the update",
      "gradient, summed over micro-batches",
      "another node's part of a gradient",
      "a block's input, saved for its backward",
      "residual stream between attention and experts",
      "input of a layer's experts, saved for their backward",
      "each token's experts and their weights",
      "sum of experts' outputs, over the groups so far",
      "tokens per expert, and sums for the router's losses",
      "outputs of a layer's MLP and of its experts, which its end adds",
      "keys and values of a layer, which later layers read too",
      "what each layer reads beside the residual stream",
      "gradient of the residual stream",
      "gradient of the experts' input",
      "gradient of the experts' weights",
      "gradient of the outputs of MLP and experts",
      "gradient of keys and values that several layers read",
      "gradient of what layers read beside the residual stream",
      "inside of a block, kept so that backward need not compute it again",
      "keys and values of earlier pieces of the micro-batch, and their gradients",
      "scratch of one op",
      "tokens and targets",
      "rows of a table that the micro-batch's tokens look up",
      "loss, norms, clip factor"};
  const u32 number = static_cast<u32>(kind);
  return meanings[kind < Kind::state ? number : number - state_slots_max];
}

class ChunkStory {
 public:
  ChunkStory(const ExplainInput& in, const Life& life, ChunkId id)
      : in_(in), life_(life), id_(id), chunk_(in.plan.chunk(id)), out_(text_) {}

  std::string tell() && {
    tell_content();
    tell_home();
    tell_course();
    tell_absence();
    tell_costs();
    return std::move(text_);
  }

 private:
  Frame home() const { return in_.plan.homes.empty() ? Frame{} : in_.plan.homes[index(id_)]; }
  bool has_home() const { return home().bytes.value > 0; }

  // ---- content ----------------------------------------------------------------------------------------

  void tell_content() {
    fmt::format_to(out_, "chunk {}: {}, {}\n  holds    {}\n", index(id_), content_name(in_, id_),
                   size_name(chunk_.bytes), meaning_of(in_.plan.state_slots, chunk_.kind));
    if (chunk_.window == none) return;
    const Window& window = in_.graph.windows[chunk_.window];
    const SlotAxis axis = in_.plan.state_slots.axis(chunk_.kind);
    const u64 end = chunk_.element_begin + chunk_.elements;
    fmt::format_to(out_, "           elements [{}, {}) of {} in window {}\n", chunk_.element_begin, end,
                   slot_range(window, axis, 0, window.elements).elements, window.name);
    for (const Tensor& t : window.tensors) {
      const SlotRange stored = axis == SlotAxis::elements ? SlotRange{t.stored_offset, t.stored_elements}
                                                          : slot_range(window, axis, t);
      const u64 begin = std::max(stored.begin, chunk_.element_begin);
      const u64 stop = std::min(stored.end(), end);
      if (begin >= stop) continue;
      const bool all = stop - begin == stored.elements;
      fmt::format_to(
          out_, "           {}{}\n", t.name,
          all ? ""
              : fmt::format(" [{}, {}) of {}", begin - stored.begin, stop - stored.begin, stored.elements));
    }
  }

  // ---- home -------------------------------------------------------------------------------------------

  void tell_home() {
    if (!has_home() && is_persistent(chunk_) && chunk_.owner != in_.plan.node) {
      fmt::format_to(out_, "  home     on node {}, which updates it\n", chunk_.owner);
      return;
    }
    if (!has_home()) {
      fmt::format_to(out_, "  home     none: it is made and used up within a step\n");
      return;
    }
    fmt::format_to(out_, "  home     {}, bytes [{}, {})\n", memory_name(in_.plan, home()), home().offset,
                   home().end());
    if (in_.graph.windows[chunk_.window].trainable && made_by_update(chunk_.kind, in_.plan.precision))
      fmt::format_to(
          out_, "           dead from its last use in a step to its update: then gradients may lie there\n");
    if (in_.home != HomePolicy::automatic) {
      fmt::format_to(out_, "           memory.home={} was asked for, or was found to be fastest\n",
                     policy_name());
      return;
    }
    if (home().tier == Tier::device)
      fmt::format_to(out_, "           as near to computing as there is; the budget has room for it\n");
    for (u32 t = 0; t < static_cast<u32>(home().tier); ++t) tell_no_room(static_cast<Tier>(t));
  }

  std::string_view policy_name() const {
    constexpr std::array<std::string_view, 5> names = {"auto", "device", "host", "disk", "mixed"};
    return names[static_cast<u32>(in_.home)];
  }

  bool is_on_several_devices() const {
    for (u32 b = 0; b < in_.graph.blocks.size(); ++b)
      if (std::ranges::count(in_.graph.blocks[b].windows, chunk_.window) > 0 &&
          in_.plan.parallel == Parallel::layers &&
          in_.plan.device_of(b, 0) != in_.plan.device_of(first_block(), 0))
        return true;
    return false;
  }

  u32 first_block() const {
    u32 block = 0;
    while (std::ranges::count(in_.graph.blocks[block].windows, chunk_.window) == 0) ++block;
    return block;
  }

  // Streaming takes its working set of the budget, and homes take the state at rest: the rest of the budget
  // was left to choose with.
  void tell_no_room(Tier tier) {
    if (tier == Tier::device && is_on_several_devices()) {
      fmt::format_to(out_, "           not the device: blocks on several devices read it\n");
      return;
    }
    const TierUse& use = in_.plan.tiers[static_cast<u32>(tier)];
    // With layers over devices, those of the device that reads the window first.
    const bool layers = tier == Tier::device && in_.plan.parallel == Parallel::layers;
    const u32 device = layers ? in_.plan.device_of(first_block(), 0) : 0;
    Bytes rests{};
    for (const Frame& f : in_.plan.homes)
      if (f.bytes.value > 0 && f.tier == tier && f.device == device) rests += f.bytes;
    const Bytes taken = use.working_set + rests;
    const Bytes left = use.budget > taken ? use.budget - taken : Bytes{0};
    const Bytes wanted = tier == Tier::device ? state_of_window() : chunk_.bytes;
    const std::string what = tier == Tier::device
                                 ? fmt::format("all state of {}", in_.graph.windows[chunk_.window].name)
                                 : std::string("this chunk");
    fmt::format_to(out_, "           not the {}: of {} streaming wants {}, homes {};\n", name(tier),
                   size_name(use.budget), size_name(use.working_set), size_name(rests));
    if (left < wanted)
      fmt::format_to(out_, "           {} is left, {} takes {}\n", size_name(left), what, size_name(wanted));
    else
      fmt::format_to(out_, "           the {} left save more as room for what is used more often\n",
                     size_name(left));
  }

  Bytes state_of_window() const {
    Bytes sum{};
    for (const Chunk& c : in_.plan.chunks)
      if (c.window == chunk_.window && is_persistent(c)) sum += c.bytes;
    return sum;
  }

  // ---- course -----------------------------------------------------------------------------------------

  void tell_course() {
    const std::vector<u32> ops = ops_of_chunk();
    fmt::format_to(out_, "  in one {}\n", life_.circular() ? "step" : name(life_.segment().kind));
    if (ops.empty()) fmt::format_to(out_, "    nothing touches it\n");
    for (u64 i = 0; i < ops.size(); ++i) {
      tell_op(ops[i]);
      const bool last = i + 1 == ops.size();
      if (last && !life_.circular()) break;
      const u32 ahead = last ? ops.front() + life_.ops() - ops[i] : ops[i + 1] - ops[i];
      if (last || ahead >= waits_told_min) tell_wait(ops[i], ahead);
    }
  }

  std::vector<u32> ops_of_chunk() const {
    std::set<u32> ops;
    for (const Touch& t : life_.touches(id_)) ops.insert(t.op);
    return {ops.begin(), ops.end()};
  }

  void tell_op(u32 i) {
    const Op& op = life_.segment().ops[i];
    std::string lane(name(op.lane.kind));
    if (in_.plan.devices > 1 && op.lane.device != host_device) lane += fmt::format(".{}", op.lane.device);
    fmt::format_to(out_, "    op {:<6} {:<10} {:<10} {}\n", i, lane, name(op.kind), what_it_does(i));
  }

  std::string what_it_does(u32 i) const {
    const Op& op = life_.segment().ops[i];
    std::string from, to;
    for (const Touch& t : life_.touches(id_)) {
      if (t.op != i) continue;
      if (reads(t.access) && from.empty()) from = memory_name(in_.plan, t.frame);
      if (writes(t.access) && to.empty()) to = memory_name(in_.plan, t.frame);
    }
    if (is_movement(op.kind))
      return fmt::format("{} -> {}", from.empty() ? "others" : from, to.empty() ? "others" : to);
    std::string text = from.empty() ? fmt::format("made in {}", to)
                       : to.empty() ? fmt::format("read in {}", from)
                                    : fmt::format("rewritten in {}", to);
    if (op.block != none) text += fmt::format(", {}", in_.graph.blocks[op.block].name);
    if (op.micro_batch != none) text += fmt::format(" m{}", op.micro_batch);
    if (op.steps_back != 0) text += ", for the step before";
    return text;
  }

  // Tells every memory that holds the chunk between two ops.
  void tell_wait(u32 from, u32 ahead) {
    std::set<std::string> places;
    const u32 between = (from + 1) % life_.ops();
    for (const TierStay& s : life_.stays())
      if (s.chunk == id_ && life_.covers(s, between))
        places.insert((s.frame.tier == Tier::disk ? "on " : "in ") + memory_name(in_.plan, s.frame));
    const std::string where = fmt::format("{}", fmt::join(places, " and "));
    const u32 to = from + ahead;
    fmt::format_to(out_, "              waits {} ops {}{}\n", ahead - 1,
                   where.empty() ? "without content" : where,
                   to >= life_.ops() ? fmt::format(", until op {} of the next step", to - life_.ops()) : "");
  }

  // ---- absences: why the chunk is not kept where it is used -------------------------------------------

  // For each return to a memory that the chunk had left: how full that memory was meanwhile, and with what
  // content.
  void tell_absence() {
    std::vector<std::pair<u32, Touch>> gaps;  // by the op after which it left
    for (const Touch& back : life_.touches(id_)) {
      const OpKind kind = life_.segment().ops[back.op].kind;
      if (back.access != Access::write || !is_movement(kind) || back.frame.tier == Tier::disk) continue;
      const bool alike = in_.plan.parallel == Parallel::data;  // what one device has is told once
      if (alike && back.frame.device != 0 && back.frame.tier == Tier::device) continue;
      const std::optional<u32> left = left_before(back);
      if (left) gaps.emplace_back(*left, back);
    }
    std::sort(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [left, back] : gaps) tell_gap(back, left);
  }

  // Last op before `back` that had the chunk in the same memory.
  std::optional<u32> left_before(const Touch& back) const {
    std::optional<u32> before, any;
    for (const Touch& t : life_.touches(id_)) {
      if (!same_memory(t.frame, back.frame) || t.op == back.op) continue;
      if (t.op < back.op) before = t.op;
      any = t.op;
    }
    return before ? before : life_.circular() ? any : std::nullopt;
  }

  void tell_gap(const Touch& back, u32 left) {
    const u32 ops = life_.ops(), gap = (back.op + ops - left) % ops;
    if (gap <= 1) return;
    u32 fullest = left;
    Bytes most{};
    for (u32 i = 1; i < gap; ++i) {
      const u32 op = (left + i) % ops;
      const Bytes used = life_.in_use(back.frame, op);
      if (used > most) most = used, fullest = op;
    }
    const TierUse& tier = in_.plan.tiers[static_cast<u32>(back.frame.tier)];
    const std::string memory = memory_name(in_.plan, back.frame);
    fmt::format_to(out_, "  not kept in the {} from op {} to op {} ({} ops)\n", memory, left, back.op, gap);
    fmt::format_to(out_, "           at its fullest, op {}, {} of {} hold content\n", fullest,
                   size_name(most), size_name(tier.budget));
    if (tier.budget >= most + chunk_.bytes)
      fmt::format_to(out_, "           the rest is for what streams through, for staging, or lies in gaps\n");
    const std::vector<Waiting> kept = waiting_at(in_, life_, back.frame, fullest);
    constexpr u64 shown_max = 4;
    for (u64 i = 0; i < std::min<u64>(kept.size(), shown_max); ++i)
      fmt::format_to(out_, "           kept instead: {}\n             {}, next used by {}\n",
                     content_name(in_, kept[i].first, kept[i].count), size_name(kept[i].bytes),
                     op_number(life_, fullest, kept[i].ahead));
    if (kept.size() > shown_max) fmt::format_to(out_, "           and {} more\n", kept.size() - shown_max);
  }

  // ---- costs ------------------------------------------------------------------------------------------

  void tell_costs() {
    std::array<Bytes, lane_kind_count> moved{};
    for (const Op& op : life_.segment().ops) {
      if (!is_movement(op.kind) || is_collective(op.kind)) continue;
      const Operand& o = life_.segment().operands_of(op)[0];
      if (o.first == id_) moved[static_cast<u32>(op.lane.kind)] += o.frame.bytes;
    }
    std::string costs;
    for (u32 l = 0; l < lane_kind_count; ++l)
      if (moved[l].value > 0)
        costs += fmt::format("{}{} {}", costs.empty() ? "" : ", ", name(static_cast<LaneKind>(l)),
                             size_name(moved[l]));
    fmt::format_to(out_, "  moves    {} per {}\n", costs.empty() ? "nothing" : costs,
                   life_.circular() ? "step" : name(life_.segment().kind));
  }

  const ExplainInput& in_;
  const Life& life_;
  const ChunkId id_;
  const Chunk& chunk_;
  std::string text_;
  Out out_;
};

}  // namespace

std::string explain_chunk(const ExplainInput& in, const Life& life, ChunkId id) {
  return ChunkStory(in, life, id).tell();
}

}  // namespace tidepool
