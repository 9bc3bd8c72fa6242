#include "executor/sim/sim_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/mix_bits.h"
#include "engine/op_text.h"

namespace tidepool {
namespace {

// A fraction in [0, 1) from a seed and a counter.
double fraction(u64 seed, u64 counter) {
  return static_cast<double>(mix_bits(seed + (counter + 1) * golden_gamma) >> 11) * 0x1p-53;
}

}  // namespace

std::unique_ptr<SimExecutor> SimExecutor::create(const Plan& plan, const ModelGraph& graph,
                                                 const SimOptions& options) {
  return std::unique_ptr<SimExecutor>(new SimExecutor(plan, graph, options));
}

SimExecutor::SimExecutor(const Plan& plan, const ModelGraph& graph, const SimOptions& options)
    : plan_(plan),
      options_(options),
      schedule_(plan),
      cost_(plan, graph, options.machine, options.seconds),
      fluid_(cost_.capacities()) {
  if (options_.check_tags) memory_.emplace(plan);
  lanes_.resize(schedule_.lanes().size());
  done_.resize(std::bit_ceil(u64{4} * std::max(schedule_.ops_max(), 1u)));
  if (plan.nodes > 1) find_counterparts();
  if (options.swarm <= 1.0) return;
  for (u32 i = 0; i < lanes_.size(); ++i) {
    lanes_[i].slowness = std::pow(options.swarm, 2.0 * fraction(options.seed, ~u64{i}) - 1.0);
    if (!is_ordered(schedule_.lanes()[i].kind))
      lanes_[i].width =
          1 + static_cast<u32>(fraction(options.seed, ~u64{i} - lanes_.size()) * options.disk_depth);
  }
}

// Another node sends a part of a gradient once this node has handed down its own part of the cut, a parameter
// once this node has made its updates up to there, scalars once it has packed its own.
void SimExecutor::find_counterparts() {
  for (u32 s = 0; s < segment_count; ++s) {
    const Segment& segment = plan_.segments[s];
    std::vector<u32>& of = counterparts_[s];
    of.assign(segment.ops.size(), none);
    std::map<std::pair<u32, u32>, u32> copies;  // by window and cut
    u32 pack = none, update = none;
    for (u32 i = 0; i < segment.ops.size(); ++i) {
      const Op& op = segment.ops[i];
      if (op.kind == OpKind::pack) pack = i;
      if (op.kind == OpKind::copy && op.lane.kind == LaneKind::d2h)
        if (const Chunk& chunk = plan_.chunk(segment.operands_of(op)[0].first);
            chunk.kind == Kind::grad_accum)
          copies[{op.window, op.cut}] = i;
    }
    for (u32 i = 0; i < segment.ops.size(); ++i) {
      const Op& op = segment.ops[i];
      if (op.kind == OpKind::update) update = i;
      if (op.kind != OpKind::receive) continue;
      const Kind kind = plan_.chunk(segment.operands_of(op)[0].first).kind;
      const auto copy = copies.find({op.window, op.cut});
      of[i] = kind == Kind::scalars  ? pack
              : kind == Kind::param  ? update
              : copy == copies.end() ? none
                                     : copy->second;
    }
  }
}

u32 SimExecutor::slots_free(LaneId id) const {
  const u32 depth = is_ordered(id.kind) ? options_.lane_depth
                    : is_net(id.kind)   ? net_depth
                                        : options_.disk_depth;
  return depth - lanes_[schedule_.lane_number(id)].occupied();
}

void SimExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneId id = issue.get().lane;
  CHECK(slots_free(id) > 0, describe(id));
  CHECK(is_ordered(id.kind) || in_flight.empty(), describe(id));
  Queued queued{issue, {in_flight.begin(), in_flight.end()}};
  if (id.kind == LaneKind::net_receive) {
    const u32 like = counterparts_[static_cast<u32>(issue.segment->kind)][index(issue.op)];
    if (like != none) queued.in_flight.push_back(issue.sequence + like - index(issue.op));
  }
  lanes_[schedule_.lane_number(id)].queue.push_back(std::move(queued));
}

std::span<const Completion> SimExecutor::wait() {
  start_ready();
  if (fluid_.idle() && !start_receive()) return {};
  const u64 sequence = fluid_.finish_next();
  const auto node = running_.extract(sequence);
  const Running& done = node.mapped();
  if (memory_) report(done.issue, memory_->finish(done.issue));
  if (fails(done.issue)) report(done.issue, "failed on request: an error of the disk");
  count_moved(done.issue);
  const LaneKind kind = done.issue.get().lane.kind;
  --lanes_[schedule_.lane_number(done.issue.get().lane)].running;
  if (is_disk(kind)) --disk_running_[kind == LaneKind::disk_write];
  done_[sequence & (done_.size() - 1)] = sequence + 1;
  start_ready();  // as on a device: the next op of a lane does not wait for the engine
  completion_ = {.sequence = sequence,
                 .started = done.started,
                 .finished = virtual_now(),
                 .error = failed_ ? &error_ : nullptr};
  return {&completion_, 1};
}

void SimExecutor::start_ready() {
  for (Lane& lane : lanes_)
    while (start_next(lane)) {
    }
  mix_disk();
}

// After an error the engine issues no more, so what a receive waits for may never run.
bool SimExecutor::start_receive() {
  for (Lane& lane : lanes_) {
    if (lane.queue.empty() || lane.queue.front().issue.get().kind != OpKind::receive) continue;
    const Issue issue = lane.queue.front().issue;
    lane.queue.pop_front();
    start(lane, issue);
    return true;
  }
  return false;
}

bool SimExecutor::can_start(const Queued& queued) const {
  return std::ranges::all_of(queued.in_flight, [&](u64 sequence) { return completed(sequence); });
}

// A receive that waits for its sender does not hold up those behind it.
bool SimExecutor::start_next(Lane& lane) {
  if (lane.running == lane.width || lane.queue.empty()) return false;
  auto next = lane.queue.begin();
  if (is_net(next->issue.get().lane.kind))
    next = std::ranges::find_if(lane.queue, [&](const Queued& queued) { return can_start(queued); });
  if (next == lane.queue.end() || !can_start(*next)) return false;
  const Issue issue = next->issue;
  lane.queue.erase(next);
  start(lane, issue);
  return true;
}

void SimExecutor::start(Lane& lane, const Issue& issue) {
  ++lane.running;
  const LaneKind kind = issue.get().lane.kind;
  if (is_disk(kind)) ++disk_running_[kind == LaneKind::disk_write];
  if (memory_) report(issue, memory_->start(issue));
  Flow flow = cost_.flow(*issue.segment, issue.get());
  flow.id = issue.sequence;
  const double longer = lane.slowness * (1.0 + options_.jitter * fraction(options_.seed, issue.sequence));
  for (Demand& d : flow.demands) d.amount *= longer;
  fluid_.add(std::move(flow));
  running_.emplace(issue.sequence, Running{issue, virtual_now()});
}

// A disk that reads and writes at the same time may do more per second, or less.
void SimExecutor::mix_disk() {
  const bool mixed = disk_running_[0] > 0 && disk_running_[1] > 0;
  fluid_.set_capacity(CostModel::disk_resource, mixed ? cost_.disk_mixed_capacity() : 1.0);
}

bool SimExecutor::completed(u64 sequence) const {
  return done_[sequence & (done_.size() - 1)] == sequence + 1;
}

Nanos SimExecutor::virtual_now() const { return Nanos{static_cast<u64>(std::llround(fluid_.now() * 1e9))}; }

void SimExecutor::count_moved(const Issue& issue) {
  const Op& op = issue.get();
  const std::span<const Operand> operands = issue.segment->operands_of(op);
  const auto add = [&](LinkKind link) { moved_[static_cast<u32>(link)] += operands[0].frame.bytes; };
  switch (op.kind) {
    case OpKind::copy:
      return add(op.lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h);
    case OpKind::read:
      return add(LinkKind::disk_read);
    case OpKind::lookup:
      moved_[static_cast<u32>(LinkKind::disk_read)] += lookup_disk_bytes(plan_);
      return;
    case OpKind::write:
      return add(LinkKind::disk_write);
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
      moved_between_devices_ += collective_bytes(plan_, operands, op.kind);
      return;
    case OpKind::send:
      over_network_.sent += operands[0].frame.bytes;
      return;
    case OpKind::receive:
      over_network_.received += operands[0].frame.bytes;
      return;
    default:
      return;
  }
}

bool SimExecutor::fails(const Issue& issue) const {
  return is_disk(issue.get().lane.kind) && options_.disk_faults > 0 &&
         fraction(options_.seed ^ 0x5fa17, issue.sequence) < options_.disk_faults;
}

void SimExecutor::report(const Issue& issue, const std::string& wrong) {
  if (wrong.empty() || failed_) return;
  failed_ = true;
  const bool fault = fails(issue);
  error_ = {fault ? ErrorKind::io : ErrorKind::internal,
            fmt::format("op {} of {} ({}, step {}) {}{}", index(issue.op), name(issue.segment->kind),
                        describe(plan_, *issue.segment, issue.get()), issue.step, wrong,
                        fault ? "" : ": the plan lacks an edge or names a wrong frame")};
}

}  // namespace tidepool
