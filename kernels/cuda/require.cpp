#include "kernels/cuda/require.h"

#include <string_view>

#include "base/check.h"

namespace tidepool::cuda {

void require(bool holds, const char* what) { CHECK(holds, std::string_view(what)); }

}  // namespace tidepool::cuda
