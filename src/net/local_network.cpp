#include "net/local_network.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/mix_bits.h"
#include "base/process/start_thread.h"
#include "base/steady_seconds.h"
#include "net/wire_transport.h"

namespace tidepool {
namespace {

constexpr u64 early_bytes_max = 4 * kib;  // sends up to this end before they arrive
constexpr int reset_fault = 1;

struct Sent {
  u32 from = 0, tag = 0, slot = 0;
  double due = 0;  // arrives no earlier
  std::span<const std::byte> memory;
  std::vector<std::byte> copy;
  bool early = false;  // `memory` is of `copy`, and the send has ended
};

struct Posted {
  u32 from = 0, tag = 0, slot = 0;
  std::span<std::byte> memory;
};

struct LocalNode {
  std::vector<Sent> arriving;    // in the order of sends
  std::vector<Posted> posted;    // in the order of receives
  std::vector<WireEvent> ended;  // not yet told
  bool cut = false;
  bool reset = false;
};

class Network final : public LocalNetwork, public std::enable_shared_from_this<Network> {
 public:
  explicit Network(const LocalNetworkOptions& options)
      : options_(options), nodes_(options.nodes), draws_(mix_count(options.seed)) {}

  std::unique_ptr<Wire> wire(u32 node) override;
  void cut(u32 node) override {
    set([&] { nodes_[node].cut = true; });
  }
  void mend(u32 node) override {
    set([&] { nodes_[node].cut = false; });
  }
  void reset(u32 node) override {
    set([&] { nodes_[node].cut = nodes_[node].reset = true; });
  }

  u32 nodes() const { return static_cast<u32>(nodes_.size()); }

  void send(u32 from, u32 slot, u32 to, u32 tag, std::span<const std::byte> memory) {
    std::scoped_lock lock(mutex_);
    Sent sent{.from = from, .tag = tag, .slot = slot, .due = delay_end(from, to, tag), .memory = memory};
    if (memory.size() <= early_bytes_max) {
      sent.copy.assign(memory.begin(), memory.end());
      sent.early = true;
      nodes_[from].ended.push_back({.slot = slot});
    }
    nodes_[to].arriving.push_back(std::move(sent));
  }

  void receive(u32 node, u32 slot, u32 from, u32 tag, std::span<std::byte> memory) {
    std::scoped_lock lock(mutex_);
    nodes_[node].posted.push_back({from, tag, slot, memory});
  }

  int poll(u32 node, std::span<WireEvent> out) {
    std::scoped_lock lock(mutex_);
    deliver(node);
    std::vector<WireEvent>& ended = nodes_[node].ended;
    size_t count = 0;
    for (; count < out.size() && !ended.empty(); ++count) {
      std::swap(ended[draw() % ended.size()], ended.back());
      out[count] = ended.back();
      ended.pop_back();
    }
    return static_cast<int>(count);
  }

 private:
  template <class Change>
  void set(Change change) {
    std::scoped_lock lock(mutex_);
    change();
  }

  u64 draw() { return draws_ = mix_count(draws_); }

  // Ranges with one tag do not overtake each other.
  double delay_end(u32 from, u32 to, u32 tag) {
    const double delay =
        options_.delay_us_max == 0 ? 0 : static_cast<double>(draw() % options_.delay_us_max) * 1e-6;
    double due = steady_seconds() + delay;
    for (const Sent& sent : nodes_[to].arriving)
      if (sent.from == from && sent.tag == tag) due = std::max(due, sent.due);
    return due;
  }

  void deliver(u32 node) {
    LocalNode& here = nodes_[node];
    if (here.cut) return;
    const double now = steady_seconds();
    for (size_t i = 0; i < here.posted.size();) {
      const Posted posted = here.posted[i];
      if (nodes_[posted.from].reset) {
        here.ended.push_back({.slot = posted.slot, .fault = reset_fault});
      } else if (!take(here, posted, now)) {
        ++i;
        continue;
      }
      here.posted.erase(here.posted.begin() + static_cast<i64>(i));
    }
  }

  bool take(LocalNode& here, const Posted& posted, double now) {
    const auto sent = std::ranges::find_if(
        here.arriving, [&](const Sent& s) { return s.from == posted.from && s.tag == posted.tag; });
    if (sent == here.arriving.end() || sent->due > now || nodes_[posted.from].cut) return false;
    const std::span<const std::byte> bytes =
        sent->early ? std::span<const std::byte>(sent->copy) : sent->memory;
    CHECK(bytes.size() <= posted.memory.size(), bytes.size(), posted.memory.size());
    if (!bytes.empty()) std::memcpy(posted.memory.data(), bytes.data(), bytes.size());
    here.ended.push_back({.slot = posted.slot, .bytes = bytes.size()});
    if (!sent->early) nodes_[posted.from].ended.push_back({.slot = sent->slot});
    here.arriving.erase(sent);
    return true;
  }

  const LocalNetworkOptions options_;
  std::mutex mutex_;  // guards the fields below
  std::vector<LocalNode> nodes_;
  u64 draws_;
};

class LocalWire final : public Wire {
 public:
  LocalWire(std::shared_ptr<Network> network, u32 node) : network_(std::move(network)), node_(node) {}

  u32 node() const override { return node_; }
  u32 nodes() const override { return network_->nodes(); }
  u32 tag_max() const override { return 32767; }
  void reserve(u32) override {}
  int send(u32 slot, u32 peer, u32 tag, std::span<const std::byte> memory) override {
    network_->send(node_, slot, peer, tag, memory);
    return 0;
  }
  int receive(u32 slot, u32 peer, u32 tag, std::span<std::byte> memory) override {
    network_->receive(node_, slot, peer, tag, memory);
    return 0;
  }
  int poll(std::span<WireEvent> ended, int&) override { return network_->poll(node_, ended); }
  std::string fault_text(int) const override { return "connection reset"; }
  void close() override {}
  std::string describe() const override { return "queues in one process"; }

 private:
  std::shared_ptr<Network> network_;
  u32 node_;
};

std::unique_ptr<Wire> Network::wire(u32 node) {
  return std::make_unique<LocalWire>(shared_from_this(), node);
}

}  // namespace

std::shared_ptr<LocalNetwork> LocalNetwork::create(const LocalNetworkOptions& options) {
  return std::make_shared<Network>(options);
}

Result<std::vector<std::unique_ptr<Transport>>> create_local_transports(std::shared_ptr<LocalNetwork> network,
                                                                        u32 nodes,
                                                                        const TransportOptions& options) {
  // Each one waits for the others.
  std::vector<Result<std::unique_ptr<Transport>>> made(nodes);
  std::vector<std::thread> threads;
  for (u32 node = 0; node < nodes; ++node) {
    Result<std::thread> thread = start_thread("tp-net-open", [&, node] {
      // By value: the transport's thread may be the last to use it.
      const OpenWire open = [network, node]() -> Result<std::unique_ptr<Wire>> {
        return network->wire(node);
      };
      made[node] = create_wire_transport(open, ProcessPlace{fmt::format("local{}", node), {}, 0}, options);
    });
    if (!thread) {
      made[node] = thread.error();
      break;
    }
    threads.push_back(std::move(*thread));
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Transport>> out;
  for (Result<std::unique_ptr<Transport>>& one : made) {
    TRY_ASSIGN(std::unique_ptr<Transport> transport, std::move(one));
    out.push_back(std::move(transport));
  }
  return out;
}

Result<std::vector<std::unique_ptr<Transport>>> create_local_transports(const LocalNetworkOptions& local,
                                                                        const TransportOptions& options) {
  return create_local_transports(LocalNetwork::create(local), local.nodes, options);
}

}  // namespace tidepool
