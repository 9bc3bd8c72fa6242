// Parses and formats values of machine keys.
#pragma once

#include "base/result.h"
#include "machine/machine_keys.h"

namespace tidepool {

// Sets a key whose value is one word or number; the reader handles lists. Errors hold the reason only.
Result<void> set_machine_value(const MachineKey&, Machine&, std::string_view text);

// Parses a rate of a disk point, which may be slow. Errors hold the reason only.
Result<double> point_rate(std::string_view text);

// RETURNS: the type of a key's value, for messages and docs: "rate", "size", "whole number", ...
std::string_view type_name(const MachineKey&);

// Formats exactly, in the most readable unit: "32GiB", "3TB".
std::string size_yaml(Bytes);

}  // namespace tidepool
