// Shared parts of tests of several nodes: transports in one process, and a sink that can be waited for.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "net/local_network.h"

namespace tidepool::test {

// NetCompletions collects completions by tag.
// REQUIRES: it outlives the transport's use of `sink()`.
class NetCompletions {
 public:
  NetSink sink() {
    return [this](const NetCompletion& completion) {
      std::scoped_lock lock(mutex_);
      EXPECT_TRUE(all_.emplace(completion.tag, completion).second) << "twice: " << completion.tag;
      arrived_.notify_all();
    };
  }
  // Waits until the request has completed, and takes its completion.
  NetCompletion take(u64 tag) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return all_.contains(tag); });
    const NetCompletion out = all_.at(tag);
    all_.erase(tag);
    return out;
  }
  bool has(u64 tag) {
    std::scoped_lock lock(mutex_);
    return all_.contains(tag);
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<u64, NetCompletion> all_;
};

// SteppedClock moves only when it is told to, so that no node falls silent because the machine is busy.
class SteppedClock {
 public:
  std::function<double()> clock() {
    return [this] {
      std::scoped_lock lock(mutex_);
      ++looks_[std::this_thread::get_id()];
      return now_;
    };
  }
  // Moves on by `seconds`, in twenty steps. After each step as many transports as `listening()` says look
  // three times: they see the new time, send what is due, and hear what the others sent.
  void advance(double seconds, const std::function<u32()>& listening) {
    for (u32 i = 0; i < 20; ++i) {
      {
        std::scoped_lock lock(mutex_);
        now_ += seconds / 20;
        looks_.clear();
      }
      while (have_looked() < listening()) std::this_thread::yield();
    }
  }

 private:
  u32 have_looked() {
    std::scoped_lock lock(mutex_);
    return static_cast<u32>(std::ranges::count_if(looks_, [](const auto& l) { return l.second >= 3; }));
  }

  std::mutex mutex_;
  std::map<std::thread::id, u32> looks_;
  double now_ = 1000;
};

// LocalNodes are the transports of several nodes in one process.
class LocalNodes {
 public:
  explicit LocalNodes(const LocalNetworkOptions& local, const TransportOptions& options = {})
      : network(LocalNetwork::create(local)), completions(local.nodes) {
    auto made = create_local_transports(network, local.nodes, options);
    EXPECT_TRUE(made) << made.error().message;
    if (!made) return;
    transports = std::move(*made);
    for (u32 node = 0; node < local.nodes; ++node) transports[node]->deliver_to(completions[node].sink());
  }
  // Each waits for the others' goodbyes, so all end at once.
  ~LocalNodes() {
    on_each([this](u32 node) { transports[node].reset(); });
  }
  LocalNodes(const LocalNodes&) = delete;

  Transport& operator[](u32 node) { return *transports[node]; }
  // RETURNS: how many nodes have not failed.
  u32 listening() const {
    return static_cast<u32>(
        std::ranges::count_if(transports, [](const auto& t) { return t && t->health(); }));
  }

  // Runs `body(node)` on a thread for each node.
  template <class Body>
  void on_each(Body body) {
    std::vector<std::thread> threads;
    for (u32 node = 0; node < transports.size(); ++node) threads.emplace_back([&body, node] { body(node); });
    for (std::thread& thread : threads) thread.join();
  }

  std::shared_ptr<LocalNetwork> network;
  std::vector<NetCompletions> completions;  // by node
  std::vector<std::unique_ptr<Transport>> transports;
};

}  // namespace tidepool::test
