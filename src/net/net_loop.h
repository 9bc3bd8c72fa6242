// NetLoop is the transport's thread and what it shares with callers: submissions, the sink, the failure.
//
// The thread tp-net opens the wire, and alone calls it. It outlives its transport if a call of MPI does not
// return, so the thread owns the loop together with the transport.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/message_flow.h"
#include "net/peer_process.h"
#include "net/peer_watch.h"
#include "net/poll_pace.h"
#include "net/transport.h"

namespace tidepool {

// Messages about a failure have so long to leave before the thread ends all calls of the wire. A node that
// runs takes them at once, but on a machine with more processes than cores it may not run for a while.
constexpr double tell_seconds_max = 2;

class NetLoop {
 public:
  enum class Phase : u8 { opening, running, failed, closing, ended };

  explicit NetLoop(const TransportOptions& options) : options_(options) {}

  // The body of the thread.
  void run(const OpenWire&);

  // The methods below are for callers; see Transport.
  Result<void> wait_until_open();
  void submit(const NetRequest&);
  Result<std::vector<std::string>> exchange(std::string_view mine);
  void fail(const Error&);
  Result<void> health() const;
  void deliver_to(NetSink);
  // Asks the thread to end.
  // RETURNS: whether it will not touch the wire again; false after the timeout.
  bool stop();

  // Names for messages, and the processes behind them.
  void know(std::vector<std::string> names, const std::vector<ProcessPlace>& processes);
  // Constant once open.
  u32 node() const { return node_; }
  u32 nodes() const { return nodes_; }
  const std::string& library() const { return library_; }

 private:
  // On the thread.
  Result<void> open(const OpenWire&);
  void serve();
  std::optional<NodeFailure> look_around();
  std::optional<NodeFailure> failure_of_flow();
  std::optional<NodeFailure> ended_process(double now);
  void end_with(NodeFailure);
  void tell_others(const NodeFailure&);
  void serve_after_failure();
  void say_goodbye();
  bool take_submissions();
  bool all_said_goodbye();
  void complete(const NetRequest&, const Error*);
  void set_phase(Phase);
  void rest(double seconds);

  Result<void> exchange_part(const std::vector<std::span<std::byte>>& places);
  std::string missing_nodes() const;
  std::string name_of(u32 node) const;

  const TransportOptions options_;
  u32 node_ = 0, nodes_ = 1;
  std::string library_;

  // The thread's own.
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<MessageFlow> flow_;
  std::optional<PeerWatch> watch_;
  PollPace pace_;
  double processes_seen_ = 0;  // when, in seconds
  std::vector<NetRequest> taken_;
  bool said_goodbye_ = false;
  std::atomic<u64> rounds_ = 0;  // others read it, to see that the thread runs

  // Guarded by mutex_, which is never held in the sink or in a call of the wire.
  mutable std::mutex mutex_;
  std::condition_variable work_;     // the thread sleeps here
  std::condition_variable changed_;  // callers sleep here
  Phase phase_ = Phase::opening;
  std::optional<Error> failure_;
  std::optional<NodeFailure> own_failure_;  // what fail() asks for
  bool stopping_ = false;
  std::vector<std::string> names_;  // by node
  PeerProcesses processes_;
  std::vector<NetRequest> submissions_;
  u32 in_progress_ = 0;
  NetSink sink_;
  bool in_sink_ = false, sink_waits_ = false;
  // exchange(): its memory is the loop's, because a failed exchange may leave requests behind.
  u64 exchanges_ = 0;
  u32 exchange_left_ = 0;             // requests in progress
  std::vector<bool> exchange_heard_;  // by node
  std::vector<u64> lengths_;          // by node
  std::string mine_;
  std::vector<std::string> theirs_;
};

}  // namespace tidepool
