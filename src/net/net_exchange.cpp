// exchange() of NetLoop: two rounds of messages between all nodes, first lengths, then bytes.
#include <fmt/format.h>

#include <chrono>

#include "base/check.h"
#include "net/net_loop.h"

namespace tidepool {

Result<std::vector<std::string>> NetLoop::exchange(std::string_view mine) {
  CHECK(mine.size() <= exchange_bytes_max, mine.size());
  if (nodes_ == 1) return std::vector<std::string>{std::string(mine)};
  mine_ = mine;
  lengths_.assign(nodes_, 0);
  lengths_[node_] = mine.size();
  std::vector<std::span<std::byte>> places(nodes_);
  for (u32 i = 0; i < nodes_; ++i) places[i] = std::as_writable_bytes(std::span(&lengths_[i], 1));
  TRY(exchange_part(places));
  theirs_.assign(nodes_, {});
  for (u32 i = 0; i < nodes_; ++i) {
    if (lengths_[i] > exchange_bytes_max)
      return Error{ErrorKind::internal, fmt::format("{} gives {} bytes to exchange", names_[i], lengths_[i])};
    theirs_[i].resize(lengths_[i]);
    places[i] = std::as_writable_bytes(std::span(theirs_[i]));
  }
  theirs_[node_] = mine_;
  TRY(exchange_part(places));
  return std::move(theirs_);
}

// Sends this node's place to all other nodes, and receives theirs.
Result<void> NetLoop::exchange_part(const std::vector<std::span<std::byte>>& places) {
  {
    std::scoped_lock lock(mutex_);
    exchange_left_ = 2 * (nodes_ - 1);
    exchange_heard_.assign(nodes_, false);
  }
  const u64 message = message_max + exchanges_++;
  for (u32 peer = 0; peer < nodes_; ++peer) {
    if (peer == node_) continue;
    const std::span<std::byte> in = places[peer], out = places[node_];
    submit({.sends = false,
            .internal = true,
            .peer = peer,
            .message = message,
            .memory = in.data(),
            .bytes = in.size()});
    submit({.sends = true,
            .internal = true,
            .peer = peer,
            .message = message,
            .memory = out.data(),
            .bytes = out.size()});
  }
  std::unique_lock lock(mutex_);
  const auto done = [this] { return exchange_left_ == 0; };
  if (!changed_.wait_for(lock, std::chrono::duration<double>(options_.exchange_timeout_seconds), done)) {
    own_failure_ = NodeFailure{node_, node_, {ErrorKind::interrupted, missing_nodes()}};
    work_.notify_one();
    changed_.wait_for(lock, std::chrono::duration<double>(tell_seconds_max + 1), done);
  }
  if (failure_) return *failure_;
  if (own_failure_) return own_failure_->error;
  return {};
}

// REQUIRES: mutex_ is held.
std::string NetLoop::missing_nodes() const {
  std::string out;
  for (u32 i = 0; i < nodes_; ++i)
    if (i != node_ && !exchange_heard_[i]) out += (out.empty() ? "" : ", ") + names_[i];
  return fmt::format("{} waited {:g} s for {}, which answers but does not continue", names_[node_],
                     options_.exchange_timeout_seconds, out);
}

}  // namespace tidepool
