// Memory that is free while nothing runs: the arenas hold homes then, and what lies between them is room for
// reading and writing the state.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

struct StagingPlace {
  std::optional<Tier> tier;  // whose arena (of device 0); empty: none has room
  u64 offset = 0;
  Bytes bytes{};
};

// Whether the host can read and write what devices hold.
enum class DeviceMemory : u8 { of_host, of_gpus };

// Chunks of masters are staged apart from those of the other kinds: 1 and 0.
inline u32 staging_slot(Kind kind) { return kind == Kind::master || kind == Kind::master_low ? 1 : 0; }

// RETURNS: by staging_slot(), the largest chunk at home where the host does not reach it.
std::array<Bytes, 2> staging_bytes(const Plan&, DeviceMemory = DeviceMemory::of_host);

// Room for what a StateStore stages, in gaps that no home and no scalars touch: the host's first, the largest
// first; as many places as are `needed`, in that order. `host_reserved`: the end of the host's arena, which
// holds no frames.
std::vector<StagingPlace> place_staging(const Plan&, std::span<const Bytes> needed, Bytes host_reserved,
                                        DeviceMemory = DeviceMemory::of_host);

}  // namespace tidepool
