// Makes one fuzzer a libFuzzer program; FUZZ is its function.
#include <cstddef>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  tidepool::fuzz::FUZZ({reinterpret_cast<const char*>(data), size});
  return 0;
}
