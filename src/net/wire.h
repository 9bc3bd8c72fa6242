// Wire moves byte ranges of bounded size between nodes: MPI, or queues in one process. The transport's
// protocol stands on it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// WireEvent is one ended send or receive.
struct WireEvent {
  u32 slot = 0;
  int fault = 0;  // 0: ended well; otherwise a number for fault_text()
  u64 bytes = 0;  // that a receive has received
};

// Slots are numbers below the count given to reserve(), chosen by the caller. A slot is busy from send or
// receive until its event. Ranges between two nodes with one tag arrive in the order in which they were sent.
// THREADS: all methods are called by the thread that opened the wire.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual u32 node() const = 0;
  virtual u32 nodes() const = 0;
  virtual u32 tag_max() const = 0;
  // REQUIRES: called once, before the first send or receive.
  virtual void reserve(u32 slots) = 0;
  // Start a send or receive without blocking. A receive's range is as long as its send's, or longer.
  // RETURNS: 0 or a fault.
  virtual int send(u32 slot, u32 peer, u32 tag, std::span<const std::byte>) = 0;
  virtual int receive(u32 slot, u32 peer, u32 tag, std::span<std::byte>) = 0;
  // Moves what can be moved now, and writes ended requests to `ended`. Does not block.
  // RETURNS: how many there are; -1 and `fault` if the wire is broken.
  virtual int poll(std::span<WireEvent> ended, int& fault) = 0;
  virtual std::string fault_text(int fault) const = 0;
  // Ends the connection after all nodes have said goodbye. May hang if another node has died.
  virtual void close() = 0;
  virtual std::string describe() const = 0;  // "Open MPI v4.1.4"
};

// Opens a wire on the calling thread. May block until all nodes have called it.
using OpenWire = std::function<Result<std::unique_ptr<Wire>>()>;

}  // namespace tidepool
