// What real hardware leaves to chance stops the emulation, with what is wrong and where.
#pragma once

#include <string>

namespace emulated_cuda {

[[noreturn]] void fail(const std::string& what);

}  // namespace emulated_cuda
