// The engine's loop: issues ops in plan order, lane by lane, with two runs of segments alive.
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/op_text.h"

namespace tidepool {
namespace {

// An executor's wait() times out after about a second; four times that on a machine that is overloaded.
constexpr Nanos wait_counted_max{4'000'000'000};

}  // namespace

std::unique_ptr<Engine> Engine::create(const Plan& plan, Executor& executor, const EngineOptions& options) {
  return std::unique_ptr<Engine>(new Engine(plan, executor, options));
}

Engine::Engine(const Plan& plan, Executor& executor, const EngineOptions& options)
    : executor_(executor), options_(options), schedule_(plan) {
  for (Run& run : runs_) {
    run.state.resize(schedule_.ops_max());
    run.cursor.resize(schedule_.lanes().size());
  }
}

Result<void> Engine::run(NextSegment& next, EngineObserver& observer) {
  live_ = 0;
  ended_ = abandoned_ = false;
  error_.reset();
  waited_ = Nanos{};
  observer.at_rest();
  for (;;) {
    admit(next, observer);
    if (live_ == 0) break;
    issue_ready();
    if (in_flight_ == 0 && std::exchange(skipped_, false)) {
      retire_finished(observer);
      continue;
    }
    if (in_flight_ == 0)
      return stuck("nothing is in flight and no op can be issued: the plan's edges have a cycle");
    TRY(wait_and_complete(observer));
    if (error_ && in_flight_ == 0) return *error_;
    abandoned_ = abandoned_ || next.abandons();
    if (abandoned_ && in_flight_ == 0) break;
    retire_finished(observer);
  }
  observer.at_rest();
  return {};
}

// ---- choice of segments

void Engine::admit(NextSegment& next, EngineObserver& observer) {
  while (!ended_ && !abandoned_ && !error_ && wants_next()) {
    const std::optional<SegmentRun> what = next.next();
    if (!what) {
      ended_ = true;
      return;
    }
    start(*what, observer);
    retire_finished(observer);  // an empty segment is finished at once
  }
}

// True as soon as a lane that feeds the device has run dry: the next segment's first reads and copies then go
// ahead as far as frames are free. If the engine asked only at the last op, they would start when the device
// already waits for them.
bool Engine::wants_next() const {
  if (live_ != 1) return live_ == 0;
  const Run& run = older();
  for (const LaneKind feeder : {LaneKind::disk_read, LaneKind::h2d, LaneKind::compute, LaneKind::host,
                                LaneKind::d2h, LaneKind::disk_write}) {
    for (u32 lane = 0; lane < schedule_.lanes().size(); ++lane) {
      if (schedule_.lanes()[lane].kind != feeder || run.lanes->count(lane) == 0) continue;
      return run.cursor[lane] == run.lanes->count(lane);
    }
  }
  return true;
}

void Engine::start(const SegmentRun& what, EngineObserver& observer) {
  Run& run = live_ == 0 ? older() : younger();
  run.what = what;
  run.segment = &schedule_.plan().segment(what.kind);
  run.lanes = &schedule_.of(what.kind);
  run.link = live_ == 0 ? nullptr : schedule_.link(older().what.kind, what.kind);
  run.held = live_ == 1 && run.link == nullptr;
  run.first_sequence = next_sequence_;
  run.completed = 0;
  std::fill_n(run.state.begin(), run.ops(), OpState::waiting);
  std::fill(run.cursor.begin(), run.cursor.end(), 0);
  next_sequence_ += run.ops();
  ++live_;
  observer.segment_started(what, run.first_sequence);
}

void Engine::retire_finished(EngineObserver& observer) {
  while (live_ > 0 && older().completed == older().ops()) {
    observer.segment_finished(older().what);
    older_ ^= 1;
    --live_;
    if (live_ == 0) break;
    if (older().held) observer.at_rest();
    older().held = false;
    older().link = nullptr;
  }
}

// ---- choice of ops

// Issuing on one lane can free the head of another (an op may follow ops that are merely in flight on a
// device), so lanes are visited until none can issue.
void Engine::issue_ready() {
  if (error_ || abandoned_) return;
  bool any = true;
  while (any) {
    any = false;
    for (u32 lane = 0; lane < schedule_.lanes().size(); ++lane) {
      while (issue_head(lane)) any = true;
    }
  }
}

std::optional<Engine::Head> Engine::head(u32 lane) {
  if (live_ == 0) return std::nullopt;
  for (u32 i = 0; i < live_; ++i) {
    Run& run = i == 0 ? older() : younger();
    if (run.held) return std::nullopt;
    if (run.cursor[lane] < run.lanes->count(lane)) return Head{&run, run.lanes->at(lane, run.cursor[lane])};
  }
  return std::nullopt;
}

bool Engine::issue_head(u32 lane) {
  const std::optional<Head> next = head(lane);
  if (!next) return false;
  Run& run = *next->run;
  InFlight in_flight;
  if (!ready(run, next->op, in_flight)) return false;
  if (run.segment->ops[index(next->op)].persists && !run.what.persists)
    return skip(run, next->op, lane, in_flight);
  if (executor_.slots_free(schedule_.lanes()[lane]) == 0) return false;

  const u32 op = index(next->op);
  ++run.cursor[lane];
  run.state[op] = OpState::issued;
  ++in_flight_;
  executor_.submit({.segment = run.segment,
                    .op = next->op,
                    .sequence = run.first_sequence + op,
                    .step = run.what.step - run.segment->ops[op].steps_back},
                   std::span(in_flight.sequences).first(in_flight.count));
  return true;
}

// An op may be skipped once what it follows is done, which on an ordered lane is all before it: those that
// follow the op rely on that.
bool Engine::skip(Run& run, OpId op, u32 lane, const InFlight& in_flight) {
  if (in_flight.count > 0 || !is_done_before(run, lane)) return false;
  ++run.cursor[lane];
  run.state[index(op)] = OpState::done;
  ++run.completed;
  skipped_ = true;
  return true;
}

bool Engine::is_done_before(const Run& run, u32 lane) const {
  if (!is_ordered(schedule_.lanes()[lane].kind)) return true;
  const auto done = [&](const Run& of, u32 places) {
    return places == 0 || of.state[index(of.lanes->at(lane, places - 1))] == OpState::done;
  };
  if (run.cursor[lane] > 0) return done(run, run.cursor[lane]);
  return &run == &older() || done(older(), older().lanes->count(lane));
}

void Engine::InFlight::add(LaneId lane, u64 sequence) {
  for (u32 i = 0; i < count; ++i) {
    if (lanes[i] != lane) continue;
    sequences[i] = std::max(sequences[i], sequence);
    return;
  }
  CHECK(count < in_flight_max, count);
  lanes[count] = lane;
  sequences[count++] = sequence;
}

bool Engine::ready(const Run& run, OpId id, InFlight& in_flight) const {
  const Op& op = run.segment->ops[index(id)];
  if (run.link && blocker(older(), run.link->deps_of(id), op, in_flight)) return false;
  return !blocker(run, run.segment->deps_of(op), op, in_flight);
}

// The first of `deps` (ops of run `of`) that must complete before `op` is issued. Dependencies that the
// executor orders are added to `in_flight` instead.
std::optional<OpId> Engine::blocker(const Run& of, std::span<const OpId> deps, const Op& op,
                                    InFlight& in_flight) const {
  for (const OpId dep : deps) {
    const OpState state = of.state[index(dep)];
    if (state == OpState::done) continue;
    const LaneId lane = of.segment->ops[index(dep)].lane;
    const bool executor_orders = on_device(lane.kind) && on_device(op.lane.kind);
    const bool lane_orders = lane == op.lane && is_ordered(lane.kind);
    if (state == OpState::waiting || !(executor_orders || lane_orders)) return dep;
    if (!lane_orders) in_flight.add(lane, of.first_sequence + index(dep));
  }
  return std::nullopt;
}

// ---- completions

Result<void> Engine::wait_and_complete(EngineObserver& observer) {
  const Nanos began = executor_.now();
  const std::span<const Completion> completions = executor_.wait();
  if (completions.empty()) {
    // No clock says whether this process ran: after Ctrl-Z, or in a paused container or machine, minutes pass
    // in one wait. So one wait counts as no more than wait_counted_max.
    waited_ += std::min(executor_.now() - began, wait_counted_max);
    if (waited_ < options_.watchdog) return {};
    if (error_) return *error_;  // the first error explains more than the ops that hang after it
    return stuck("no op has completed for longer than the watchdog allows");
  }
  waited_ = Nanos{};
  for (const Completion& completion : completions) complete(completion, observer);
  return {};
}

void Engine::complete(const Completion& completion, EngineObserver& observer) {
  CHECK(live_ > 0, completion.sequence);
  Run& run = live_ == 2 && completion.sequence >= younger().first_sequence ? younger() : older();
  const u64 op = completion.sequence - run.first_sequence;
  CHECK(completion.sequence >= run.first_sequence && op < run.ops(), completion.sequence, run.first_sequence);
  CHECK(run.state[op] == OpState::issued, completion.sequence, op);
  run.state[op] = OpState::done;
  ++run.completed;
  --in_flight_;
  const Issue issue{.segment = run.segment,
                    .op = OpId{static_cast<u32>(op)},
                    .sequence = completion.sequence,
                    .step = run.what.step - run.segment->ops[op].steps_back};
  if (completion.error && !error_) error_ = *completion.error;
  // After an error, executors report ops that they have not run as completed: nobody may use their results.
  if (!error_) observer.completed(issue, completion);
}

// ---- texts

Error Engine::stuck(const char* why) const {
  return {ErrorKind::internal,
          fmt::format(
              "the run has stopped: {}. Lanes ({} ops in flight):\n{}Please report this with the plan and "
              "this text; a disk or device that hangs (see dmesg) looks the same",
              why, in_flight_, lanes_text())};
}

std::string Engine::lanes_text() const {
  std::string out;
  for (u32 lane = 0; lane < schedule_.lanes().size(); ++lane) out += lane_text(lane);
  return out;
}

std::string Engine::lane_text(u32 lane) const {
  const LaneId id = schedule_.lanes()[lane];
  std::string out = fmt::format("  {}:", describe(id));
  for (u32 i = 0; i < live_; ++i) {
    const Run& run = i == 0 ? older() : younger();
    u32 flying = 0;
    for (u32 place = 0; place < run.cursor[lane]; ++place) {
      flying += run.state[index(run.lanes->at(lane, place))] == OpState::issued;
    }
    out += fmt::format(" {} of step {} at {}/{}, {} in flight", name(run.what.kind), run.what.step,
                       run.cursor[lane], run.lanes->count(lane), flying);
    if (run.cursor[lane] == run.lanes->count(lane)) {
      out += ";";
      continue;
    }
    const OpId op = run.lanes->at(lane, run.cursor[lane]);
    out += fmt::format(", next is op {} ({})", index(op),
                       describe(schedule_.plan(), *run.segment, run.segment->ops[index(op)]));
    out += waits_text(run, op) + ";";
    break;
  }
  out.back() = '\n';
  return out;
}

std::string Engine::waits_text(const Run& run, OpId id) const {
  if (run.held) return ", waits for the segment before it";
  const Op& op = run.segment->ops[index(id)];
  InFlight in_flight;
  const Run* of = &older();
  std::optional<OpId> dep;
  if (run.link) dep = blocker(older(), run.link->deps_of(id), op, in_flight);
  if (!dep) {
    of = &run;
    dep = blocker(run, run.segment->deps_of(op), op, in_flight);
  }
  if (!dep) return ", waits for a slot of its lane";
  const Op& other = of->segment->ops[index(*dep)];
  return fmt::format(", waits for op {} of {} ({} on {}, {})", index(*dep), name(of->what.kind),
                     describe(schedule_.plan(), *of->segment, other), describe(other.lane),
                     of->state[index(*dep)] == OpState::issued ? "in flight" : "not issued");
}

}  // namespace tidepool
