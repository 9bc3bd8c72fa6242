// FitShape holds the candidates for one shape of a step: one count of sweeps and one chunk
// size.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/attempt.h"

namespace tidepool {

// FitSearch holds the best candidate so far: the one that costs least beyond `had`.
struct FitSearch {
  Budgets had;   // budgets of the job
  Budgets most;  // limit: candidates that need more are refused
  std::optional<Budgets> needs{};
  TierCandidate candidate{};

  // Price of the bytes that `needs` asks for beyond `had`; rises with each budget.
  double price(const Budgets&) const;
  bool is_better(const Budgets&) const;
  bool is_done() const { return needs && price(*needs) == 0; }
};

// Remembers needs of candidates, but no tiers: tiers of large models are large.
class FitShape {
 public:
  // `device_least`: no device tier of any shape needs less.
  // REQUIRES: graph and options outlive this object.
  FitShape(const ModelGraph&, const PlanOptions&, const AttemptOptions&, Bytes device_least);

  // Puts a candidate into the search if it is better than the candidate there. Ends early if `work` says so.
  void search(FitSearch&, SearchWork*);

 private:
  // Rest holds the needs of host and disk for one budget of the host.
  struct Rest {
    Bytes host, disk;
    Bytes host_least{};  // with any budget
  };
  struct DeviceCandidate {
    DeviceTierOptions options;
    Bytes budget{};
    bool streams = true;      // try hosts in which nothing stays that need not
    bool is_divided = false;  // try also hosts in which something stays
    Bytes least{};            // lower limit of `need`, known before the candidate is planned
    std::optional<Bytes> need{};
    Bytes host_least{};  // lower limit for any host, known before the host is planned; automatic homes only
    Bytes rests{};       // bytes that host and disk must hold at once; automatic homes only
    std::map<Bytes, Rest> rest{};  // by budget of the host
  };
  // Fineness says how finely budgets are divided: coarser if each candidate takes long to plan.
  struct Fineness {
    u64 per_octave, homes, host_steps;
  };

  Fineness fineness() const;
  void list_candidates(SearchWork*);
  void list_budgets(Bytes resident);
  std::vector<Bytes> round_sizes(Bytes resident, u64 per_octave) const;
  void list_homes(Bytes resident);
  void list_homes_beside_stays(const std::vector<Bytes>& homes, Bytes budget);

  bool takes(u64 part, SearchWork*) const;
  bool plan_device(u32 candidate, SearchWork*);
  const Rest* plan_rest(u32 candidate, Bytes host_budget, SearchWork*);
  bool streams_by_the_least(const FitSearch&, SearchWork*);
  void search_rest(u32 candidate, FitSearch&, SearchWork*);
  void search_forced(u32 candidate, FitSearch&, SearchWork*);
  void offer(u32 candidate, Bytes host_budget, const Rest&, FitSearch&) const;
  Bytes rests_beside(const std::vector<bool>& home) const;
  Bytes updates_beside(const std::vector<bool>& home) const;

  const ModelGraph* graph_;
  const PlanOptions* options_;
  AttemptOptions shape_;
  u64 ops_;
  Bytes least_;        // no device tier needs less
  Bytes all_rests_{};  // bytes that host and disk must hold if nothing has a home on a device
  std::vector<DeviceCandidate> candidates_;  // two with the least; then by budget; then by homes
  std::optional<Attempt> parts_;             // layout, program, and the device tier of `planned_`
  u32 planned_ = none;
};

}  // namespace tidepool
