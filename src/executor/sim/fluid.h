// Fluid simulates work that shares resources, in virtual time: each flow needs amounts of some resources
// (bytes of a link, seconds of a disk) and advances as fast as its share of the scarcest resource allows.
//
// Shares are max-min fair: all flows of a priority speed up together until a resource is full; flows that use
// that resource stay at their speed, the others speed up further. Lower priorities divide the rest, as tasks
// of the core pool do. No flow is faster than it would be alone.
#pragma once

#include <boost/container/small_vector.hpp>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct Demand {
  u32 resource = 0;
  double amount = 0;  // in the resource's units
};

struct Flow {
  u64 id = 0;        // ties in time fall by id
  u32 priority = 0;  // lower numbers first
  double delay = 0;  // seconds before it starts to use resources
  // Each resource at most once. Only collectives without an interconnect have more than a few.
  boost::container::small_vector<Demand, 6> demands;

  // Adds to the flow's demand for the resource. Amounts of 0 or less are ignored.
  void need(u32 resource, double amount);
};

class Fluid {
 public:
  explicit Fluid(std::vector<double> capacity_per_s) : capacity_(std::move(capacity_per_s)) {}

  void set_capacity(u32 resource, double per_s);
  void add(Flow);
  bool idle() const { return active_.empty(); }
  // Advances to the end of the flow that ends first, and returns its id.
  // REQUIRES: !idle().
  u64 finish_next();
  double now() const { return now_; }  // seconds
  // Seconds that a flow takes alone, its delay included.
  double alone(const Flow&) const;

 private:
  struct Active {
    Flow flow;
    double delay_left = 0;
    double left = 0;   // fraction of the work
    double alone = 0;  // seconds of the work without the delay
    double speed = 0;  // fraction per second
  };

  void share();
  void fill(u32 priority);

  std::vector<double> capacity_;
  std::vector<double> free_, load_;  // scratch of share()
  std::vector<Active> active_;       // by id
  double now_ = 0;
  bool shared_ = false;
};

}  // namespace tidepool
