// DeviceStays chooses what stays on one device between uses, and which windows rest there.
#pragma once

#include <vector>

#include "planner/device_chains.h"
#include "planner/residence.h"

namespace tidepool {

// REQUIRES: all arguments of the constructor outlive this object.
class DeviceStays {
 public:
  DeviceStays(const Layout&, const Program&, const std::vector<DeviceChain>& chains);

  // Candidates.
  void add_touch(u32 chain, u32 touch);  // the chain's content stays until the touch
  void add_wait(u32 chain);              // a gradient waits here for its update
  void add_home(u32 window);             // the whole state rests here

  // Choice is a touch of a chain; or, without a touch, a chain that waits; or a window.
  struct Choice {
    u32 chain = none, touch = none, window = none;
  };
  struct Chosen {
    std::vector<Choice> all;
    u64 saved = 0;   // without what relief saves
    Bytes relief{};  // of the host, while gradients wait
  };
  // Chooses within `room`, and adds what stays to `used`. `shortage`: bytes that lie on disk while gradients
  // wait, unless this device holds them.
  Chosen choose(Bytes room, Bytes shortage, Profile& used) const;

  // Bytes of a device's link that cost as much as the disk's, if the host is relieved of so many.
  static u64 worth(Bytes relief);
  // What a window at home saves, and the relief that it is.
  static Chosen home(const Layout&, u32 window);

 private:
  // Candidate has two worths: as long as the host is short, bytes that stay here are neither written nor
  // read.
  struct Candidate {
    Choice choice;
    Stay stay;
    u64 saved_if_short = 0;
    Bytes relief{};  // of the host, while gradients wait
  };
  std::vector<u32> choose_with(const std::vector<bool>& is_short, Bytes room, Profile& used) const;

  const Layout& layout_;
  const Program& program_;
  const std::vector<DeviceChain>& chains_;
  std::vector<Candidate> candidates_;
};

}  // namespace tidepool
