// Collects facts about the machine and the program for the report. Facts that cannot be found out are left
// out.
#pragma once

#include <map>
#include <string>

#include "session/session.h"

namespace tidepool {

std::map<std::string, std::string> machine_facts(const Config&, Session&);

}  // namespace tidepool
