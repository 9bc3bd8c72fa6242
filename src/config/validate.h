// What must hold between keys; ranges of single keys are in the schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace tidepool {

struct Complaint {
  std::string_view section;  // the key to point at
  std::string_view key;
  std::string reason;
};

std::optional<Complaint> validate(const Config&);

}  // namespace tidepool
