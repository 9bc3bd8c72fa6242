#include "base/result.h"

#include <stdexcept>

namespace tidepool {

void throw_value_of_error(const Error& error) {
  throw std::logic_error("value() of an error: " + error.message);
}

}  // namespace tidepool
