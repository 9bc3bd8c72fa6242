// Checks conditions between several keys. Ranges of single keys are in the schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace tidepool {

struct Complaint {
  std::string_view section;  // the key at fault
  std::string_view key;
  std::string reason;
};

std::optional<Complaint> validate(const Config&);

}  // namespace tidepool
