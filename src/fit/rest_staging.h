// Staging at rest: memory that is free while nothing runs. The arenas then hold only homes, and the gaps
// between homes are used to read and write the state.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

struct StagingPlace {
  std::optional<Tier> tier;  // tier of the arena (of device 0); empty: no arena has room
  u64 offset = 0;
  Bytes bytes{};
};

// DeviceMemory says if the host can read and write the devices' memory.
enum class DeviceMemory : u8 { of_host, of_gpus };

// Slot 1 stages chunks of masters, slot 0 chunks of all other kinds.
inline u32 staging_slot(const StateSlots& slots, Kind kind) { return slots.is_master(kind) ? 1 : 0; }

// RETURNS: by staging_slot(), the size of the largest chunk whose home the host cannot reach.
std::array<Bytes, 2> staging_bytes(const Plan&, DeviceMemory = DeviceMemory::of_host);

// Places for a StateStore's staging, in gaps that no home and no scalars touch: the host's gaps first, the
// largest first.
// RETURNS: as many places as there are sizes in `needed`, in that order.
// `host_reserved`: the end of the host's arena, which holds no frames.
std::vector<StagingPlace> place_staging(const Plan&, std::span<const Bytes> needed, Bytes host_reserved,
                                        DeviceMemory = DeviceMemory::of_host);

}  // namespace tidepool
