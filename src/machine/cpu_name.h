#pragma once

#include <string>

namespace tidepool {

// As the kernel calls the first CPU: "AMD EPYC 9R14 96-Core Processor". Empty where it does not say.
std::string cpu_name();

}  // namespace tidepool
