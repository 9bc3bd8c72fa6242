#include "base/version.h"

namespace tidepool {
namespace {
std::string_view commit_of_program = "unknown";
}  // namespace

std::string_view version() { return TIDEPOOL_VERSION; }
std::string_view commit() { return commit_of_program; }
void set_commit(std::string_view commit) { commit_of_program = commit; }

}  // namespace tidepool
