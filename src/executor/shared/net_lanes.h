// NetLanes runs the two lanes of the network: it hands sends and receives to the transport, which completes
// them in any order.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "executor/shared/executor_common.h"

namespace tidepool {

class NetLanes {
 public:
  // REQUIRES: `common` outlives the lanes; its request has a transport.
  explicit NetLanes(ExecutorCommon& common);
  ~NetLanes();
  NetLanes(const NetLanes&) = delete;
  NetLanes& operator=(const NetLanes&) = delete;

  // Counts useful bytes of completed ops.
  // REQUIRES: the lane holds fewer than net_depth ops.
  // THREADS: the engine's thread.
  void submit(const Issue&);

  // Block.
  // REQUIRES: at rest; `message` is not of a step's message (those are below 2^62 for steps below 2^30).
  Result<void> send_at_rest(u32 peer, u64 message, std::span<const std::byte>);
  Result<void> receive_at_rest(u32 peer, u64 message, std::span<std::byte>);
  // Sends and receives at the same time.
  Result<void> pass_at_rest(u32 to, std::span<const std::byte> sent, u32 from, std::span<std::byte> received,
                            u64 message);

  Transport& transport() { return *common_.request.transport; }

 private:
  struct Slot {
    Issue issue;
    u64 bytes = 0;
    Nanos started{};
  };
  u64 message_of(const Issue&) const;
  void done(const NetCompletion&);
  void done_at_rest(const NetCompletion&);
  void begin_at_rest(u32 transfers);
  Result<void> end_at_rest();

  ExecutorCommon& common_;
  std::vector<u32> parts_;  // by chunk: for an accumulator, this node's grad_part of the same use and cut

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<u32> free_;

  std::mutex rest_mutex_;
  std::condition_variable rest_changed_;
  u32 rest_open_ = 0;
  std::optional<Error> rest_error_;
};

}  // namespace tidepool
