#include "base/version.h"

namespace tidepool {

std::string_view version() { return TIDEPOOL_VERSION; }
std::string_view commit() { return TIDEPOOL_COMMIT; }

}  // namespace tidepool
