// Names of checkpoints in a run directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// checkpoint-<step>, or checkpoint-<step>.<mark>-<pid> while it is on its way in or out.
enum class CheckpointMark : u8 {
  whole,  // a checkpoint
  tmp,    // being written
  old,    // pushed aside by a new one of the same step; goes back if that never arrived
  gone,   // being deleted
};

struct CheckpointName {
  u64 step = 0;
  CheckpointMark mark{};
  u64 pid = 0;
  bool operator==(const CheckpointName&) const = default;
};

std::string to_text(const CheckpointName&);
std::optional<CheckpointName> parse_checkpoint_name(std::string_view);  // nothing: not ours

}  // namespace tidepool
