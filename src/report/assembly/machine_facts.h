// What the report says about the machine and the program, for people. What cannot be found out is left out.
#pragma once

#include <map>
#include <string>

#include "session/session.h"

namespace tidepool {

std::map<std::string, std::string> machine_facts(const Config&, Session&);

}  // namespace tidepool
