#include "kernels/values.h"

#include <cstdlib>

#include "base/check.h"

namespace tidepool {

void wrong_precision(Precision is, Precision wanted) {
  CHECK(is == wanted, static_cast<u32>(is), static_cast<u32>(wanted));
  std::abort();
}

}  // namespace tidepool
