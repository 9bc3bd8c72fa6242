#include "net/message_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tidepool {

MessageFlow::MessageFlow(Wire& wire, const TransportOptions& options, std::function<std::string(u32)> name,
                         Done done)
    : wire_(wire), options_(options), name_(std::move(name)), done_(std::move(done)) {}

Result<void> MessageFlow::begin() {
  const u32 nodes = wire_.nodes();
  const u32 requests = options_.max_requests + 2 * nodes;  // an exchange has two per node
  // Tag 0 is the links', and each request has one.
  if (requests >= wire_.tag_max())
    return usage_error(fmt::format("{} allows tags up to {}, and {} requests need more: lower max_requests",
                                   wire_.describe(), wire_.tag_max(), requests));
  const u32 piece_slots = requests * options_.pieces_in_flight;
  first_piece_slot_ = 2 * nodes;
  wire_.reserve(first_piece_slot_ + piece_slots);
  pieces_.resize(piece_slots);
  for (u32 i = piece_slots; i-- > 0;) free_slots_.push_back(i);
  requests_.resize(requests);
  for (u32 i = requests; i-- > 0;) {
    requests_[i].next = free_request_;
    free_request_ = i;
  }
  events_.resize(64);
  heard_.readies.reserve(ControlLink::message_bytes_max / sizeof(ReadyReceive));
  found_.heard.assign(nodes, false);
  found_.goodbye.assign(nodes, false);
  peers_.resize(nodes);
  links_.resize(nodes);
  for (u32 peer = 0; peer < nodes; ++peer) {
    peers_[peer].readies.reserve(requests);
    peers_[peer].sends.reserve(requests);
    if (peer == wire_.node()) continue;
    links_[peer] = std::make_unique<ControlLink>(wire_, peer, peer, nodes + peer, requests);
    check(peer, links_[peer]->listen());
  }
  return {};
}

void MessageFlow::start(const NetRequest& request) {
  CHECK(free_request_ != nil, in_progress_);
  const u32 at = free_request_;
  free_request_ = requests_[at].next;
  static_cast<NetRequest&>(requests_[at]) = request;
  requests_[at].next = nil;
  requests_[at].started = requests_[at].ended = 0;
  ++in_progress_;
  ++peers_[request.peer].in_progress;
  request.sends ? start_send(at) : start_receive(at);
}

u64 MessageFlow::piece_length(const Request& r, u64 piece) const {
  return std::min(r.piece_bytes, r.bytes - piece * r.piece_bytes);
}

void MessageFlow::start_receive(u32 request) {
  Request& r = requests_[request];
  r.piece_bytes = options_.piece.value;
  r.pieces = std::max<u64>(1, div_up(r.bytes, r.piece_bytes));  // a message of 0 bytes is one empty piece
  r.tag_on_wire = request + 1;
  receive_pieces(request);
  links_[r.peer]->say_ready({r.message, r.bytes, r.tag_on_wire, static_cast<u32>(r.piece_bytes)});
  check(r.peer, links_[r.peer]->pump());
}

void MessageFlow::receive_pieces(u32 request) {
  Request& r = requests_[request];
  while (r.started < r.pieces && r.started - r.ended < options_.pieces_in_flight) {
    const u32 slot = free_slots_.back();
    free_slots_.pop_back();
    pieces_[slot] = {request, r.started};
    const std::span<std::byte> memory(r.memory + r.started * r.piece_bytes, piece_length(r, r.started));
    ++r.started;
    check(r.peer, wire_.receive(first_piece_slot_ + slot, r.peer, r.tag_on_wire, memory));
  }
}

void MessageFlow::start_send(u32 request) {
  const Request& r = requests_[request];
  std::vector<ReadyReceive>& readies = peers_[r.peer].readies;
  const auto ready = std::ranges::find(readies, r.message, &ReadyReceive::message);
  if (ready == readies.end()) {
    peers_[r.peer].sends.push_back(request);
    return;
  }
  const ReadyReceive found = *ready;
  *ready = readies.back();
  readies.pop_back();
  match(r.peer, request, found);
}

void MessageFlow::match(u32 peer, u32 request, const ReadyReceive& ready) {
  Request& r = requests_[request];
  if (r.bytes != ready.bytes || ready.piece_bytes == 0)
    return broken(wire_.node(), ErrorKind::internal,
                  fmt::format("message {:#x} has {} bytes on {} and {} bytes on {}", r.message, r.bytes,
                              name_(wire_.node()), ready.bytes, name_(peer)));
  r.tag_on_wire = ready.tag;
  r.piece_bytes = ready.piece_bytes;
  r.pieces = std::max<u64>(1, div_up(r.bytes, r.piece_bytes));
  Peer& p = peers_[peer];
  (p.first == nil ? p.first : requests_[p.last].next) = request;
  p.last = request;
  ++moving_;
  links_[peer]->say_begun();
  check(peer, links_[peer]->pump());
  pump_sends(peer);
}

// Pieces of one node's sends are started in order, a few at a time: the message that was begun first ends
// first.
void MessageFlow::pump_sends(u32 peer) {
  Peer& p = peers_[peer];
  while (p.first != nil && p.pieces_sent < options_.pieces_in_flight) {
    const u32 request = p.first;
    Request& r = requests_[request];
    const u32 slot = free_slots_.back();
    free_slots_.pop_back();
    pieces_[slot] = {request, r.started};
    const std::span<const std::byte> memory(r.memory + r.started * r.piece_bytes, piece_length(r, r.started));
    ++p.pieces_sent;
    if (++r.started == r.pieces) {
      p.first = r.next;
      r.next = nil;
    }
    check(peer, wire_.send(first_piece_slot_ + slot, peer, r.tag_on_wire, memory));
  }
}

bool MessageFlow::poll() {
  found_.heard.assign(found_.heard.size(), false);
  bool progress = false;
  int broken_by = 0;
  while (true) {
    const int count = wire_.poll(events_, broken_by);
    if (count < 0) {
      fault(wire_.node(), broken_by);
      return true;
    }
    // A node that ends with an error says so before its connection breaks.
    const std::span<const WireEvent> ended = std::span(events_).first(static_cast<size_t>(count));
    for (const WireEvent& event : ended)
      if (event.fault == 0) on_event(event);
    for (const WireEvent& event : ended)
      if (event.fault != 0) on_event(event);
    progress = progress || count != 0;
    if (static_cast<size_t>(count) < events_.size()) break;
  }
  return progress;
}

void MessageFlow::on_event(const WireEvent& event) {
  const u32 nodes = wire_.nodes();
  u32 peer = event.slot % nodes;
  if (event.slot >= first_piece_slot_) {
    const PieceUse& use = pieces_[event.slot - first_piece_slot_];
    peer = requests_[use.request].peer;
  }
  if (event.fault != 0) return fault(peer, event.fault);
  if (event.slot >= first_piece_slot_) return on_piece(event.slot - first_piece_slot_, event.bytes);
  if (event.slot < nodes) return on_control(peer, event.bytes);
  links_[peer]->sent();
  check(peer, links_[peer]->pump());
}

void MessageFlow::on_control(u32 peer, u64 bytes) {
  found_.heard[peer] = true;
  if (!links_[peer]->read(bytes, heard_))
    return broken(
        peer, ErrorKind::usage,
        fmt::format("{} speaks another version of the protocol: start the same version of Tidepool on "
                    "every node",
                    name_(peer)));
  moving_ += heard_.begun;
  if (heard_.goodbye) found_.goodbye[peer] = true;
  if (heard_.failure && !found_.told) found_.told = heard_.failure;
  for (const ReadyReceive& ready : heard_.readies) {
    std::vector<u32>& sends = peers_[peer].sends;
    const auto send =
        std::ranges::find_if(sends, [&](u32 request) { return requests_[request].message == ready.message; });
    if (send == sends.end()) {
      peers_[peer].readies.push_back(ready);
      continue;
    }
    const u32 request = *send;
    *send = sends.back();
    sends.pop_back();
    match(peer, request, ready);
  }
  check(peer, links_[peer]->listen());
}

void MessageFlow::on_piece(u32 slot, u64 bytes) {
  const PieceUse use = pieces_[slot];
  free_slots_.push_back(slot);
  Request& r = requests_[use.request];
  const u32 peer = r.peer;
  ++r.ended;
  if (r.sends) {
    --peers_[peer].pieces_sent;
    pump_sends(peer);
  } else {
    found_.heard[peer] = true;
    if (bytes != piece_length(r, use.piece))
      return broken(wire_.node(), ErrorKind::internal,
                    fmt::format("piece {} of message {:#x} from {} has {} bytes instead of {}", use.piece,
                                r.message, name_(peer), bytes, piece_length(r, use.piece)));
    receive_pieces(use.request);
  }
  if (r.ended == r.pieces) end(use.request);
}

void MessageFlow::end(u32 request) {
  const NetRequest ended = requests_[request];
  requests_[request].next = free_request_;
  free_request_ = request;
  --in_progress_;
  --moving_;  // of a receive, the sender's news added 1
  --peers_[ended.peer].in_progress;
  done_(ended);
}

void MessageFlow::take_all(const std::function<void(const NetRequest&)>& each) {
  std::vector<bool> is_free(requests_.size(), false);
  for (u32 at = free_request_; at != nil; at = requests_[at].next) is_free[at] = true;
  for (size_t i = 0; i < requests_.size(); ++i)
    if (!is_free[i]) each(requests_[i]);
  in_progress_ = 0;
}

void MessageFlow::fault(u32 peer, int fault) {
  if (peer != wire_.node() && excused(peer)) return;
  broken(peer, ErrorKind::interrupted,
         peer == wire_.node()
             ? fmt::format("{} failed on {}: {}", wire_.describe(), name_(peer), wire_.fault_text(fault))
             : fmt::format("the connection to {} broke: {}", name_(peer), wire_.fault_text(fault)));
}

void MessageFlow::broken(u32 about, ErrorKind kind, std::string text) {
  if (!found_.broken) found_.broken = NodeFailure{about, wire_.node(), {kind, std::move(text)}};
}

}  // namespace tidepool
