#include "tests/support/places.h"

namespace tidepool {
namespace {

std::string in_folder(const std::string& folder, const std::string& name) {
  return name.empty() ? folder : folder + "/" + name;
}

}  // namespace

std::string source_file(const std::string& name) { return in_folder(TIDEPOOL_SOURCE_DIR, name); }

std::string built_file(const std::string& name) { return in_folder(TIDEPOOL_BUILD_DIR, name); }

bool under_sanitizer() { return TIDEPOOL_IS_SANITIZED; }

}  // namespace tidepool
