// Transport moves messages between the nodes of a run and completes each request asynchronously.
//
// A message is named by its two nodes, its direction and a number that the caller chooses. It arrives when
// one node has called send and the other receive, in any order. Beside messages, nodes exchange small texts
// (exchange) and tell each other why they end (fail). Every node listens for all others: if one does not
// answer, all requests of the others complete with an error that names it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/steady_seconds.h"
#include "base/types.h"

namespace tidepool {

struct NetCompletion {
  u64 tag = 0;
  bool ok = true;
  Error error;  // names the node that failed, and why
};

// NetSink receives each completion once, in any order. The bytes of a received message are visible to it.
// REQUIRES: must not block; may call send and receive.
// THREADS: called on the transport's thread, never twice at the same time.
using NetSink = std::function<void(const NetCompletion&)>;

struct TransportOptions {
  Bytes piece{4 * mib};         // a message is moved in pieces of this size; at most piece_bytes_max
  u32 pieces_in_flight = 4;     // of one message, and to one node
  u32 max_requests = 1024;      // submitted and not yet completed; their memory is taken at creation
  double timeout_seconds = 10;  // a node that is silent for so long has failed
  double exchange_timeout_seconds = 600;  // between the first node's call of exchange and the last node's
  double start_timeout_seconds = 120;     // for MPI to start and for all nodes to meet
  // Called once if the nodes have not met after start_notice_seconds, on the thread that connects. Empty:
  // no-op.
  std::function<void()> waits = {};
  double start_notice_seconds = 5;
  // Clock of silence and heartbeats, in seconds; each node's transport asks it at each look. Tests step it.
  std::function<double()> clock = steady_seconds;
};

inline constexpr u64 piece_bytes_max = gib;  // MPI counts with ints
inline constexpr u64 exchange_bytes_max = 64 * mib;
inline constexpr u64 message_max = u64{1} << 63;  // numbers of messages are below

class Transport {
 public:
  // Says goodbye to the other nodes, so that they no longer listen for this one, and waits for theirs; at
  // most for the timeout. If requests are in progress, the node ends early, as with fail(). Never hangs, also
  // after a failure.
  virtual ~Transport() = default;
  virtual u32 node() const = 0;
  virtual u32 nodes() const = 0;
  // "node 2 (host kiwi)"
  virtual const std::string& name(u32 node) const = 0;
  // Sets the sink of later requests.
  // REQUIRES: no request in progress.
  virtual void deliver_to(NetSink) = 0;
  // Queue a message of 0 bytes or more. Never block and never fail: faults arrive as completions. A send
  // completes when its memory may change again, which may be before the message has arrived. After an error,
  // memory of a receive is undefined.
  // REQUIRES: fewer than max_requests in progress; peer is another node; message < message_max; no other
  // message of that number in progress in that direction between the two; both give the same number of bytes.
  // THREADS: any thread may call.
  virtual void send(u32 peer, u64 message, std::span<const std::byte>, u64 tag) = 0;
  virtual void receive(u32 peer, u64 message, std::span<std::byte>, u64 tag) = 0;
  // Gives every node's bytes to all nodes, by node. Blocks until all nodes have called it.
  // REQUIRES: all nodes call it equally often; at most exchange_bytes_max bytes.
  // THREADS: one at a time, not in the sink.
  // Errors: as completions; ErrorKind::interrupted if a node has not called it within
  // exchange_timeout_seconds.
  virtual Result<std::vector<std::string>> exchange(std::string_view mine) = 0;
  // Tells the other nodes that this node ends with an error. Their requests complete with an error of the
  // same kind that names this node; requests of this node complete with the error itself. Blocks for at most
  // three seconds.
  // THREADS: any thread may call, but not in the sink.
  virtual void fail(const Error&) = 0;
  // RETURNS: the error that ended the connection to the other nodes, if any.
  // THREADS: any thread may call.
  virtual Result<void> health() const = 0;
  // One line for people: "4 nodes through Open MPI v4.1.4".
  virtual std::string describe() const = 0;
};

}  // namespace tidepool
