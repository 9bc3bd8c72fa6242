#include "executor/sim/sim_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/op_text.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

// splitmix64: a fraction in [0, 1) from a seed and a counter.
double fraction(u64 seed, u64 counter) {
  u64 z = seed + (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

}  // namespace

std::unique_ptr<SimExecutor> SimExecutor::create(const Plan& plan, const ModelGraph& graph,
                                                 const SimOptions& options) {
  return std::unique_ptr<SimExecutor>(new SimExecutor(plan, graph, options));
}

SimExecutor::SimExecutor(const Plan& plan, const ModelGraph& graph, const SimOptions& options)
    : plan_(plan), graph_(graph), options_(options), schedule_(plan), memory_(plan) {
  lanes_.resize(schedule_.lanes().size());
  done_.resize(std::bit_ceil(u64{4} * std::max(schedule_.ops_max(), 1u)));
}

u32 SimExecutor::slots_free(LaneId id) const {
  const u32 depth = is_ordered(id.kind) ? options_.lane_depth : options_.disk_depth;
  return depth - lanes_[schedule_.lane_number(id)].occupied;
}

void SimExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  const LaneId id = issue.get().lane;
  CHECK(slots_free(id) > 0, describe(id));
  Lane& lane = lanes_[schedule_.lane_number(id)];
  ++lane.occupied;
  if (is_ordered(id.kind)) {
    lane.queue.push_back({issue, {in_flight.begin(), in_flight.end()}});
    return;
  }
  CHECK(in_flight.empty(), describe(id));
  const Nanos at = std::max(now_, disk_free_at_);
  start(issue, at);
  disk_free_at_ = at + duration(issue);
}

std::span<const Completion> SimExecutor::wait() {
  start_ready();
  if (events_.empty()) return {};
  std::pop_heap(events_.begin(), events_.end(), std::greater<>());
  const Event event = events_.back();
  events_.pop_back();
  now_ = event.finished;
  report(event.issue, memory_.finish(event.issue));
  Lane& lane = lanes_[schedule_.lane_number(event.issue.get().lane)];
  --lane.occupied;
  lane.running = false;
  done_[event.issue.sequence & (done_.size() - 1)] = event.issue.sequence + 1;
  start_ready();  // as on a device: the next op of a lane does not wait for the engine
  completion_ = {.sequence = event.issue.sequence,
                 .started = event.started,
                 .finished = event.finished,
                 .error = failed_ ? &error_ : nullptr};
  return {&completion_, 1};
}

void SimExecutor::start_ready() {
  for (Lane& lane : lanes_) {
    if (!can_start(lane)) continue;
    lane.running = true;
    start(lane.queue.front().issue, now_);
    lane.queue.pop_front();
  }
}

bool SimExecutor::can_start(const Lane& lane) const {
  if (lane.running || lane.queue.empty()) return false;
  const std::vector<u64>& before = lane.queue.front().in_flight;
  return std::all_of(before.begin(), before.end(), [&](u64 sequence) { return completed(sequence); });
}

void SimExecutor::start(const Issue& issue, Nanos at) {
  report(issue, memory_.start(issue));
  events_.push_back({.finished = at + duration(issue), .started = at, .issue = issue});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

bool SimExecutor::completed(u64 sequence) const { return done_[sequence & (done_.size() - 1)] == sequence + 1; }

void SimExecutor::report(const Issue& issue, const std::string& wrong) {
  if (wrong.empty() || failed_) return;
  failed_ = true;
  error_ = {ErrorKind::internal,
            fmt::format("op {} of {} ({}, step {}) {}: the plan lacks an edge or names a wrong frame",
                        index(issue.op), name(issue.segment->kind), describe(plan_, *issue.segment, issue.get()),
                        issue.step, wrong)};
}

// ---- how long an op takes

Nanos SimExecutor::duration(const Issue& issue) const {
  double seconds = work_seconds(*issue.segment, issue.get());
  seconds *= 1.0 + options_.jitter * fraction(options_.seed, issue.sequence);
  return options_.rates.op_overhead + Nanos{static_cast<u64>(seconds * 1e9)};
}

double SimExecutor::work_seconds(const Segment& segment, const Op& op) const {
  const SimRates& rates = options_.rates;
  const std::span<const Operand> operands = segment.operands_of(op);
  double touched = 0, first = 0;
  for (const Operand& o : operands) {
    touched += static_cast<double>(o.frame.bytes.value) * (o.access == Access::read_write ? 2 : 1);
  }
  if (!operands.empty()) first = static_cast<double>(operands[0].frame.bytes.value);
  switch (op.kind) {
    case OpKind::copy:
      return first / (op.lane.kind == LaneKind::h2d ? rates.h2d_bytes_per_s : rates.d2h_bytes_per_s);
    case OpKind::read: return first / rates.disk_read_bytes_per_s;
    case OpKind::write: return first / rates.disk_write_bytes_per_s;
    case OpKind::forward:
    case OpKind::backward: return compute_flops(segment, op) / rates.flops_per_s;
    case OpKind::gradient:
    case OpKind::norm:
    case OpKind::load_batch: return touched / rates.memory_bytes_per_s;
    case OpKind::update: return touched / rates.adam_bytes_per_s;
  }
  return 0;
}

double SimExecutor::compute_flops(const Segment& segment, const Op& op) const {
  if (op.block >= graph_.blocks.size()) return 0;
  const Block& block = graph_.blocks[op.block];
  if (op.kind == OpKind::forward) return static_cast<double>(block.forward_flops);
  bool kept = false;
  for (const Operand& o : segment.operands_of(op)) kept |= plan_.chunk(o.first).kind == Kind::kept;
  return static_cast<double>(block.backward_flops + (kept ? 0 : block.recompute_flops));
}

}  // namespace tidepool
