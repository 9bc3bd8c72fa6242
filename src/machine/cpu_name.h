// cpu_name() reads the name of the processor from the kernel.
#pragma once

#include <string>

namespace tidepool {

// RETURNS: the kernel's name of the first CPU, "AMD EPYC 9R14 96-Core Processor"; empty if unknown.
std::string cpu_name();

}  // namespace tidepool
