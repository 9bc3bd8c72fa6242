// DeviceStays chooses what stays on one device between uses, and which windows rest there.
#pragma once

#include <vector>

#include "planner/device_chains.h"
#include "planner/host_shortage.h"
#include "planner/residence.h"

namespace tidepool {

// REQUIRES: all arguments of the constructor outlive this object.
class DeviceStays {
 public:
  DeviceStays(const Layout&, const Program&, const HostShortage&, const std::vector<DeviceChain>& chains);

  // Candidates.
  void add_touch(u32 chain, u32 touch);  // the chain's content stays until the touch
  void add_wait(u32 chain);              // a gradient waits here for its update
  void add_home(u32 window);             // the whole state rests here

  // Choice is a touch of a chain; or, without a touch, a chain that waits; or a window.
  struct Choice {
    u32 chain = none, touch = none, window = none;
  };
  // Worth says what choices save, in bytes of a device's link.
  struct Worth {
    u64 saved = 0;       // whatever the host holds
    u64 saved_disk = 0;  // by the part of `relief` that the host is short of
    Bytes relief{};      // of the host, where it is short of most

    Worth& operator+=(const Worth&);
    u64 total(Bytes shortage) const;
  };
  struct Chosen {
    std::vector<Choice> all;
    Worth worth;
  };
  // Chooses within `room`, and adds what stays to `used`. `shortage`: as much relief is worth something.
  Chosen choose(Bytes room, Bytes shortage, Profile& used) const;

  static Worth worth_of_home(const Layout&, const Program&, u32 window);

 private:
  struct Candidate {
    Choice choice;
    Stay stay;    // saved_bytes: if the host is not short
    Worth worth;  // if it is
  };
  void add(const Choice&, const Stay&, u64 disk_bytes);
  std::vector<u32> choose_with(const std::vector<bool>& is_short, Bytes room, Profile& used) const;

  const Layout& layout_;
  const Program& program_;
  const HostShortage& shortage_;
  const std::vector<DeviceChain>& chains_;
  std::vector<Candidate> candidates_;
};

}  // namespace tidepool
