// Values of machine keys, from text and to text.
#pragma once

#include "base/result.h"
#include "machine/machine_keys.h"

namespace tidepool {

// Of a key whose value is one word or number; lists are the reader's. Errors hold the reason only.
Result<void> set_machine_value(const MachineKey&, Machine&, std::string_view text);

// Of a point of the disk, which may be slow. Errors as above.
Result<double> point_rate(std::string_view text);

// What the value looks like, for messages and docs: "rate", "size", "whole number", ...
std::string_view type_name(const MachineKey&);

// Exact, in the unit that reads best: "32GiB", "3TB".
std::string size_yaml(Bytes);

}  // namespace tidepool
