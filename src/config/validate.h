// Checks conditions between several keys. Ranges of single keys are in the schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"

namespace tidepool {

struct Complaint {
  Complaint(std::string_view of_section, std::string_view of_key, std::string why)
      : section(of_section), key(of_key), reason(std::move(why)) {}

  std::string section, key;  // at fault
  std::string reason;
};

std::optional<Complaint> validate(const Config&);

}  // namespace tidepool
