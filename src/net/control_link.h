// ControlLink carries the small messages between this node and one other: which receives are ready,
// heartbeats, goodbyes and failures. One message is on its way at a time; what is due meanwhile goes into the
// next.
//
// Format of a message, in the byte order of the machine: ControlHeader, then `readies` times ReadyReceive,
// then `text_bytes` bytes of a failure's text. A message without any of them is a heartbeat.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "net/wire.h"

namespace tidepool {

// A receive that waits for its message.
struct ReadyReceive {
  u64 message = 0;
  u64 bytes = 0;
  u32 tag = 0;          // of its pieces on the wire
  u32 piece_bytes = 0;  // the receiver decides
};

// NodeFailure is what a node tells the others before it ends.
struct NodeFailure {
  u32 about = 0;   // the node that failed
  u32 source = 0;  // the node that says so
  Error error;
};

class ControlLink {
 public:
  static constexpr u32 wire_tag = 0;
  static constexpr u64 message_bytes_max = 4 * kib;

  // Slots of the wire for one receive and one send.
  ControlLink(Wire& wire, u32 peer, u32 receive_slot, u32 send_slot, u32 readies_max);

  // RETURNS, here and below: 0 or the wire's fault.
  int listen();
  void say_ready(const ReadyReceive& ready) { readies_.push_back(ready); }
  // A message that the other node waits for is on its way.
  void say_begun() { ++begun_; }
  void beat() { beat_ = true; }
  void say_goodbye() { goodbye_ = true; }
  void say_failure(const NodeFailure&);
  // Sends what is due, if no message is on its way.
  int pump();
  // The message that was on its way has gone.
  void sent() { busy_ = false; }
  bool busy() const { return busy_; }
  bool idle() const { return !busy_ && !due(); }

  struct Heard {
    std::vector<ReadyReceive> readies;
    u32 begun = 0;  // messages that are on their way
    bool goodbye = false;
    std::optional<NodeFailure> failure;
  };
  // A message of that many bytes has arrived; puts its content into `heard`, whose memory is used again.
  // RETURNS: false if it is none of this version's messages.
  bool read(u64 bytes, Heard& heard) const;

 private:
  bool due() const { return beat_ || begun_ != 0 || goodbye_ || failure_ || next_ready_ < readies_.size(); }
  u64 compose();

  Wire& wire_;
  u32 peer_, receive_slot_, send_slot_;
  std::vector<ReadyReceive> readies_;  // from next_ready_ on not yet sent
  size_t next_ready_ = 0;
  u32 begun_ = 0;
  bool beat_ = false, goodbye_ = false, busy_ = false;
  std::optional<NodeFailure> failure_;
  std::array<std::byte, message_bytes_max> in_, out_;
};

}  // namespace tidepool
