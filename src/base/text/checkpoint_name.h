// CheckpointName is the parsed name of a checkpoint in a run directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// checkpoint-<step>, or checkpoint-<step>.<mark>-<pid> while it is being written, replaced or deleted.
enum class CheckpointMark : u8 {
  whole,  // a checkpoint
  tmp,    // being written
  old,    // moved aside by a new checkpoint of the same step; moved back if the new one was never finished
  gone,   // being deleted
};

struct CheckpointName {
  u64 step = 0;
  CheckpointMark mark{};
  u64 pid = 0;
  bool operator==(const CheckpointName&) const = default;
};

std::string to_text(const CheckpointName&);
std::optional<CheckpointName> parse_checkpoint_name(std::string_view);  // none: not a name of ours

}  // namespace tidepool
