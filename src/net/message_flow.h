// MessageFlow matches sends and receives of messages, and moves them over a wire in pieces.
//
// The receiver speaks first: a receive posts its first pieces on the wire and tells the sender that it is
// ready (ControlLink). The sender sends pieces only for receives that are ready, so the wire never stores a
// message that nobody waits for, and bytes go straight into the receive's memory. A receive has a tag of its
// own while it lasts, and pieces with one tag arrive in order, so pieces need no header.
//
// No clock and no threads: the transport's thread calls all methods. After begin(), nothing is allocated but
// errors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "net/control_link.h"
#include "net/transport.h"

namespace tidepool {

struct NetRequest {
  bool sends = false;
  bool internal = false;  // of exchange()
  u32 peer = 0;
  u64 message = 0;
  std::byte* memory = nullptr;  // a send only reads it
  u64 bytes = 0;
  u64 tag = 0;
};

class MessageFlow {
 public:
  using Done = std::function<void(const NetRequest&)>;
  // `name`: a node's name in errors. `done` is called for each request that has ended well.
  MessageFlow(Wire&, const TransportOptions&, std::function<std::string(u32 node)> name, Done done);

  // Takes memory and starts to listen.
  // Errors: ErrorKind::usage if the wire has too few tags.
  Result<void> begin();
  // REQUIRES: fewer than max_requests in progress, and those of one exchange.
  void start(const NetRequest&);
  // Moves what can be moved.
  // RETURNS: whether anything ended or arrived.
  bool poll();
  bool in_flight() const { return in_progress_ != 0; }
  // RETURNS: true if a message is on its way, as far as this node knows.
  bool moving() const { return moving_ > 0; }
  // RETURNS: true if the peer said goodbye and this node needs nothing more of it.
  bool excused(u32 peer) const { return found_.goodbye[peer] && peers_[peer].in_progress == 0; }
  // Calls `each` for all requests in progress, and forgets them.
  void take_all(const std::function<void(const NetRequest&)>& each);

  ControlLink& link(u32 peer) { return *links_[peer]; }
  // Sends what is due on a link.
  void pump(u32 peer) { check(peer, links_[peer]->pump()); }

  // Findings of the last poll.
  struct Found {
    std::vector<bool> heard;            // by node: something arrived
    std::vector<bool> goodbye;          // by node; stays
    std::optional<NodeFailure> told;    // the first failure that another node told
    std::optional<NodeFailure> broken;  // the first failure of the wire or of the protocol
  };
  Found& found() { return found_; }

 private:
  static constexpr u32 nil = none;
  struct Request : NetRequest {
    u32 next = nil;  // in a list of its peer's sends, or of free requests
    u32 tag_on_wire = 0;
    u64 piece_bytes = 0;
    u64 pieces = 0, started = 0, ended = 0;
  };
  struct Peer {
    std::vector<ReadyReceive> readies;  // receives of the peer without a send of ours
    std::vector<u32> sends;             // sends of ours without a receive of the peer
    u32 first = nil, last = nil;        // matched sends with pieces to start, in order
    u32 pieces_sent = 0;                // and not yet ended
    u32 in_progress = 0;                // requests
  };
  struct PieceUse {
    u32 request = nil;
    u64 piece = 0;
  };

  u64 piece_length(const Request& r, u64 piece) const;
  void start_receive(u32 request);
  void receive_pieces(u32 request);
  void start_send(u32 request);
  void match(u32 peer, u32 request, const ReadyReceive&);
  void pump_sends(u32 peer);
  void on_event(const WireEvent&);
  void on_control(u32 peer, u64 bytes);
  void on_piece(u32 slot, u64 bytes);
  void end(u32 request);
  void fault(u32 peer, int fault);
  void broken(u32 about, ErrorKind, std::string text);
  void check(u32 peer, int result) {
    if (result != 0) fault(peer, result);
  }

  Wire& wire_;
  TransportOptions options_;
  std::function<std::string(u32)> name_;
  Done done_;
  std::vector<std::unique_ptr<ControlLink>> links_;  // by node; null for this node
  std::vector<Request> requests_;
  u32 free_request_ = nil;
  u32 in_progress_ = 0;
  // Matched sends that have not ended, and receives that have begun elsewhere and not ended here. The news of
  // a beginning may come after the end.
  i64 moving_ = 0;
  std::vector<PieceUse> pieces_;  // by slot, less first_piece_slot_
  std::vector<u32> free_slots_;
  u32 first_piece_slot_ = 0;
  std::vector<Peer> peers_;
  std::vector<WireEvent> events_;
  ControlLink::Heard heard_;
  Found found_;
};

}  // namespace tidepool
