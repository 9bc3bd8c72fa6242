#include "net/net_loop.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/steady_seconds.h"

namespace tidepool {
namespace {

constexpr double grace_seconds = 0.1;
constexpr double process_look_seconds = 0.01;

Error connection_ended() { return {ErrorKind::interrupted, "the connection to the other nodes has ended"}; }

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

}  // namespace

void NetLoop::run(const OpenWire& open_wire) {
  // Sleeps of 20 us, which the kernel would otherwise stretch by 50 us.
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  if (const Result<void> opened = open(open_wire); !opened) {
    std::scoped_lock lock(mutex_);
    failure_ = opened.error();
    phase_ = Phase::ended;
    changed_.notify_all();
    return;
  }
  set_phase(Phase::running);
  serve();
  set_phase(Phase::ended);
}

Result<void> NetLoop::open(const OpenWire& open_wire) {
  TRY_ASSIGN(wire_, open_wire());
  node_ = wire_->node();
  nodes_ = wire_->nodes();
  library_ = wire_->describe();
  for (u32 i = 0; i < nodes_; ++i) names_.push_back(fmt::format("node {}", i));
  flow_ = std::make_unique<MessageFlow>(
      *wire_, options_, [this](u32 i) { return name_of(i); },
      [this](const NetRequest& request) { complete(request, nullptr); });
  watch_.emplace(node_, nodes_, options_.timeout_seconds);
  submissions_.reserve(options_.max_requests + 2 * nodes_);
  taken_.reserve(submissions_.capacity());
  return flow_->begin();
}

void NetLoop::serve() {
  while (true) {
    ++rounds_;
    const bool submitted = take_submissions();
    if (submitted) pace_.restart(steady_seconds());
    const double begin = steady_seconds();
    const bool progress = flow_->poll();
    const double end = steady_seconds();
    if (std::optional<NodeFailure> failure = look_around()) {
      end_with(std::move(*failure));
      return serve_after_failure();
    }
    if (said_goodbye_ && all_said_goodbye()) return;
    rest(pace_.next(end, {.seconds = end - begin,
                          .ended = progress || submitted,
                          .in_flight = flow_->in_flight(),
                          .moving = flow_->moving()}));
  }
}

// RETURNS: whether there were any.
bool NetLoop::take_submissions() {
  {
    std::scoped_lock lock(mutex_);
    taken_.swap(submissions_);
    if (stopping_ && !said_goodbye_) {
      if (in_progress_ != 0 && !own_failure_)
        own_failure_ = NodeFailure{node_, node_, {ErrorKind::interrupted, "it ended early"}};
      else
        say_goodbye();
    }
  }
  for (const NetRequest& request : taken_) flow_->start(request);
  const bool any = !taken_.empty();
  taken_.clear();
  return any;
}

void NetLoop::say_goodbye() {
  said_goodbye_ = true;
  for (u32 peer = 0; peer < nodes_; ++peer)
    if (peer != node_) flow_->link(peer).say_goodbye();
}

// Waits for as long as the others answer: a launcher ends all nodes if one leaves without MPI's own end,
// which in turn waits for all. RETURNS: whether the thread can end.
bool NetLoop::all_said_goodbye() {
  bool all = true;
  for (u32 peer = 0; peer < nodes_; ++peer) {
    if (peer == node_) continue;
    all = all && flow_->found().goodbye[peer] && flow_->link(peer).idle();
  }
  if (!all) return false;
  // Gone is not arrived: the library may still have to send something, and its end does not wait for that.
  for (const double begin = steady_seconds(); steady_seconds() - begin < grace_seconds;) {
    flow_->poll();
    std::this_thread::sleep_for(seconds(100e-6));
  }
  set_phase(Phase::closing);
  wire_->close();
  return true;
}

// Heartbeats, and everything that can end the connection.
std::optional<NodeFailure> NetLoop::look_around() {
  const double now = options_.clock();
  watch_->advance(now);
  const bool beat = watch_->beat_due();
  for (u32 peer = 0; peer < nodes_; ++peer) {
    if (peer == node_) continue;
    if (flow_->found().heard[peer]) watch_->heard(peer);
    watch_->excuse(peer, flow_->excused(peer));
    if (beat) flow_->link(peer).beat();
    flow_->pump(peer);
  }
  if (std::optional<NodeFailure> failure = failure_of_flow()) return failure;
  {
    std::scoped_lock lock(mutex_);
    if (own_failure_) return own_failure_;
  }
  if (std::optional<NodeFailure> failure = ended_process(now)) return failure;
  if (const std::optional<u32> silent = watch_->silent())
    return NodeFailure{*silent,
                       node_,
                       {ErrorKind::interrupted, fmt::format("{} has not answered for {:g} s",
                                                            name_of(*silent), options_.timeout_seconds)}};
  return {};
}

std::optional<NodeFailure> NetLoop::ended_process(double now) {
  if (now - processes_seen_ < process_look_seconds) return {};
  processes_seen_ = now;
  std::optional<u32> ended;
  {
    std::scoped_lock lock(mutex_);
    ended = processes_.ended();
  }
  if (!ended) return {};
  // Gone is not arrived: its last words may be behind others, or on their way.
  for (const double end = steady_seconds() + grace_seconds; steady_seconds() < end;) {
    flow_->poll();
    if (flow_->found().told || flow_->excused(*ended)) break;
    std::this_thread::sleep_for(seconds(100e-6));
  }
  if (flow_->excused(*ended)) return {};
  if (std::optional<NodeFailure> failure = failure_of_flow()) return failure;
  return NodeFailure{
      *ended, node_, {ErrorKind::interrupted, fmt::format("the process of {} has ended", name_of(*ended))}};
}

std::optional<NodeFailure> NetLoop::failure_of_flow() {
  if (const std::optional<NodeFailure>& told = flow_->found().told) {
    NodeFailure out = *told;
    if (told->about == told->source)
      out.error.message =
          fmt::format("{} ended with an error: {}", name_of(told->about), told->error.message);
    else if (told->about == node_)
      out.error.message = fmt::format("the other nodes have gone on without this node: {} says that {}",
                                      name_of(told->source), told->error.message);
    else
      out.error.message = fmt::format("{} ({} noticed it)", told->error.message, name_of(told->source));
    return out;
  }
  return flow_->found().broken;
}

// The order matters: the others hear of the failure, then the wire is left alone for ever, and only then do
// requests complete, because the wire may write into their memory as long as it is called.
void NetLoop::end_with(NodeFailure failure) {
  if (failure.source == node_) tell_others(failure);
  // The node that failed may have said why, after its connection broke or its silence began.
  const std::optional<NodeFailure>& told = flow_->found().told;
  if (told && failure.source == node_ && failure.about != node_ && told->source == failure.about) {
    if (const std::optional<NodeFailure> cause = failure_of_flow()) failure = *cause;
  }
  {
    std::scoped_lock lock(mutex_);
    failure_ = failure.error;
    phase_ = Phase::failed;
    taken_.swap(submissions_);
  }
  const auto complete_with_failure = [&](const NetRequest& request) { complete(request, &failure.error); };
  flow_->take_all(complete_with_failure);
  for (const NetRequest& request : taken_) complete_with_failure(request);
  taken_.clear();
  changed_.notify_all();
}

void NetLoop::tell_others(const NodeFailure& failure) {
  const double begin = steady_seconds();
  // Also the node that failed, which may only have been stopped; but nobody waits for it.
  for (u32 peer = 0; peer < nodes_; ++peer)
    if (peer != node_) flow_->link(peer).say_failure(failure);
  while (steady_seconds() - begin < tell_seconds_max) {
    ++rounds_;  // stop() waits as long as the thread runs
    bool left = false;
    for (u32 peer = 0; peer < nodes_; ++peer) {
      if (peer == node_) continue;
      flow_->pump(peer);
      left = left || (peer != failure.about && !flow_->link(peer).idle());
    }
    if (!left) return;
    flow_->poll();
    std::this_thread::sleep_for(seconds(50e-6));
  }
}

void NetLoop::serve_after_failure() {
  std::unique_lock lock(mutex_);
  const Error error = *failure_;
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !submissions_.empty(); });
    if (submissions_.empty()) return;
    taken_.swap(submissions_);
    lock.unlock();
    for (const NetRequest& request : taken_) complete(request, &error);
    taken_.clear();
    lock.lock();
  }
}

void NetLoop::complete(const NetRequest& request, const Error* error) {
  {
    std::scoped_lock lock(mutex_);
    if (request.internal) {
      if (error == nullptr && !request.sends) exchange_heard_[request.peer] = true;
      if (--exchange_left_ == 0) changed_.notify_all();
      return;
    }
    --in_progress_;
    in_sink_ = true;
  }
  if (error == nullptr)
    sink_({.tag = request.tag});
  else
    sink_({.tag = request.tag, .ok = false, .error = *error});
  std::scoped_lock lock(mutex_);
  in_sink_ = false;
  if (sink_waits_) changed_.notify_all();
}

void NetLoop::set_phase(Phase phase) {
  std::scoped_lock lock(mutex_);
  phase_ = phase;
  changed_.notify_all();
}

void NetLoop::rest(double s) {
  if (s <= 0) return;
  std::unique_lock lock(mutex_);
  if (!submissions_.empty() || (own_failure_ && phase_ == Phase::running) || (stopping_ && !said_goodbye_))
    return;
  work_.wait_for(lock, seconds(s));
}

Result<void> NetLoop::wait_until_open() {
  const double deadline = steady_seconds() + options_.start_timeout_seconds;
  std::unique_lock lock(mutex_);
  const auto open = [this] { return phase_ != Phase::opening; };
  const double notice = std::min(options_.start_notice_seconds, options_.start_timeout_seconds);
  if (options_.waits && !changed_.wait_for(lock, seconds(notice), open)) {
    lock.unlock();  // the caller may take its time
    options_.waits();
    lock.lock();
  }
  if (!changed_.wait_for(lock, seconds(deadline - steady_seconds()), open))
    return Error{
        ErrorKind::interrupted,
        fmt::format("the nodes have not met within {:g} s: a node has not started, or a firewall keeps them "
                    "apart (docs/several-nodes.md)",
                    options_.start_timeout_seconds)};
  if (failure_) return *failure_;
  return {};
}

void NetLoop::submit(const NetRequest& request) {
  std::scoped_lock lock(mutex_);
  CHECK(request.peer < nodes_ && request.peer != node_, request.peer, nodes_, node_);
  if (!request.internal) {
    CHECK(request.message < message_max, request.message);
    CHECK(in_progress_ < options_.max_requests, in_progress_);
    ++in_progress_;
  }
  submissions_.push_back(request);
  work_.notify_one();
}

void NetLoop::deliver_to(NetSink sink) {
  std::unique_lock lock(mutex_);
  CHECK(in_progress_ == 0, in_progress_);
  // The sink of the last completion may not have returned yet.
  sink_waits_ = true;
  changed_.wait(lock, [this] { return !in_sink_; });
  sink_waits_ = false;
  sink_ = std::move(sink);
}

void NetLoop::know(std::vector<std::string> names, const std::vector<ProcessPlace>& processes) {
  std::scoped_lock lock(mutex_);
  names_ = std::move(names);
  processes_.watch(processes, node_);
}

std::string NetLoop::name_of(u32 node) const {
  std::scoped_lock lock(mutex_);
  return names_[node];
}

void NetLoop::fail(const Error& error) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::running) return;
  own_failure_ = NodeFailure{node_, node_, error};
  work_.notify_one();
  changed_.wait_for(lock, seconds(tell_seconds_max + 1), [this] { return phase_ != Phase::running; });
}

Result<void> NetLoop::health() const {
  std::scoped_lock lock(mutex_);
  if (failure_) return *failure_;
  if (phase_ == Phase::ended) return connection_ended();
  return {};
}

bool NetLoop::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  work_.notify_one();
  const auto ended = [this] { return phase_ == Phase::ended; };
  // As long as the thread runs it decides. A call of the library that does not return is left behind.
  for (u64 rounds = rounds_ - 1; rounds != rounds_;) {
    rounds = rounds_;
    if (changed_.wait_for(lock, seconds(options_.timeout_seconds), ended)) return true;
  }
  return false;
}

}  // namespace tidepool
