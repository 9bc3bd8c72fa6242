// What the report says about the machine and the program: for people.
#pragma once

#include <map>
#include <string>

#include "trainer/session.h"

namespace tidepool {

std::map<std::string, std::string> machine_facts(Session&);

}  // namespace tidepool
