// ScriptedExecutor does no work and completes ops when the test says so.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "engine/executor.h"

namespace tidepool::test {

class ScriptedExecutor final : public Executor {
 public:
  struct Submitted {
    Issue issue;
    std::vector<u64> in_flight;
  };

  u32 depth = 4;
  std::vector<Submitted> log;     // everything ever submitted
  std::vector<Submitted> flying;  // submitted, not completed
  // RETURNS: the index in `flying` that completes next; negative: none (patience ends and `idle` passes).
  std::function<int()> choose = [this] { return flying.empty() ? -1 : 0; };
  Nanos idle{1'000'000'000};
  std::map<u64, Error> faults;  // by sequence

  u32 slots_free(LaneId lane) const override {
    u32 held = 0;
    for (const Submitted& s : flying) held += s.issue.get().lane == lane;
    return depth - held;
  }
  void submit(const Issue& issue, std::span<const u64> in_flight) override {
    log.push_back({issue, {in_flight.begin(), in_flight.end()}});
    flying.push_back(log.back());
  }
  std::span<const Completion> wait() override {
    const int chosen = choose();
    now_ += Nanos{chosen < 0 ? idle.value : 10};
    if (chosen < 0) return {};
    const u64 sequence = flying[chosen].issue.sequence;
    flying.erase(flying.begin() + chosen);
    completion_ = {.sequence = sequence, .started = now_ - Nanos{10}, .finished = now_};
    if (faults.contains(sequence)) completion_.error = &faults.at(sequence);
    return {&completion_, 1};
  }
  Nanos now() const override { return now_; }

  bool submitted(u64 sequence) const {
    for (const Submitted& s : log) {
      if (s.issue.sequence == sequence) return true;
    }
    return false;
  }
  const Submitted& of(u64 sequence) const {
    for (const Submitted& s : log) {
      if (s.issue.sequence == sequence) return s;
    }
    std::abort();
  }

 private:
  Nanos now_{};
  Completion completion_;
};

}  // namespace tidepool::test
