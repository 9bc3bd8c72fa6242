// The ways to lie in the tiers that one shape of a step has: one count of sweeps and one chunk size.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/attempt.h"

namespace tidepool {

// The way that asks for least beyond what there is.
struct FitSearch {
  Budgets had;   // what there is
  Budgets most;  // no way that needs more
  std::optional<Budgets> needs{};
  Way way{};

  // The price of what needs ask for beyond `had`; rises with each of them.
  double price(const Budgets&) const;
  bool is_better(const Budgets&) const;
  bool is_done() const { return needs && price(*needs) == 0; }
};

// Needs are remembered. Tiers are not: those of large models are large.
class FitShape {
 public:
  // `device_least`: no device tier of any shape needs less. Graph and options must outlive it.
  FitShape(const ModelGraph&, const PlanOptions&, const AttemptOptions&, Bytes device_least);

  // Leaves in the search what is better than it has. Ends early where `work` cuts it.
  void search(FitSearch&, SearchWork*);

 private:
  // Needs of host and disk, for one budget of the host.
  struct Rest {
    Bytes host, disk;
    Bytes host_least{};  // whatever its budget
  };
  struct DeviceWay {
    DeviceTierOptions options;
    Bytes budget{};
    bool streams = true;      // a host in which nothing stays that need not is of interest
    bool is_divided = false;  // and hosts in which something stays
    Bytes least{};            // it counts for no less, known before it is planned
    std::optional<Bytes> need{};
    Bytes host_least{};            // no host needs less, known before it is planned; of automatic homes
    Bytes rests{};                 // host and disk have to hold so much at once; of automatic homes
    std::map<Bytes, Rest> rest{};  // by budget of the host
  };
  // How finely budgets are divided: coarser where each way takes long to plan.
  struct Fineness {
    u64 per_octave, homes, host_steps;
  };

  Fineness fineness() const;
  void list_ways(SearchWork*);
  void list_budgets(Bytes resident);
  std::vector<Bytes> round_sizes(Bytes resident, u64 per_octave) const;
  void list_homes(Bytes resident);
  void list_homes_beside_stays(const std::vector<Bytes>& homes, Bytes budget);

  bool takes(u64 part, SearchWork*) const;
  bool plan_device(u32 way, SearchWork*);
  const Rest* plan_rest(u32 way, Bytes host_budget, SearchWork*);
  bool streams_by_the_least(const FitSearch&, SearchWork*);
  void search_rest(u32 way, FitSearch&, SearchWork*);
  void search_forced(u32 way, FitSearch&, SearchWork*);
  void offer(u32 way, Bytes host_budget, const Rest&, FitSearch&) const;
  Bytes rests_beside(const std::vector<bool>& home) const;
  Bytes updates_beside(const std::vector<bool>& home) const;

  const ModelGraph* graph_;
  const PlanOptions* options_;
  AttemptOptions shape_;
  u64 ops_;
  Bytes least_;                   // no device tier needs less
  Bytes all_rests_{};             // what host and disk have to hold where nothing has a home on a device
  std::vector<DeviceWay> ways_;   // two of the least; by budget; by homes
  std::optional<Attempt> parts_;  // layout, program, and the device tier of `planned_`
  u32 planned_ = none;
};

}  // namespace tidepool
