// Facts about machine and program for the report, for people. Facts that cannot be found out are omitted.
#pragma once

#include <map>
#include <string>

#include "session/session.h"

namespace tidepool {

std::map<std::string, std::string> machine_facts(Session&);

}  // namespace tidepool
