// Stops the emulation, with reason and place, on errors that real hardware leaves to chance.
#pragma once

#include <string>

namespace emulated_cuda {

[[noreturn]] void fail(const std::string& what);

}  // namespace emulated_cuda
