#include "trainer/machine_facts.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <fstream>

#include "report/units.h"

namespace tidepool {
namespace {

// "model name : AMD EPYC 9R14" of the first processor; empty where the kernel does not say.
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return {};
}

}  // namespace

std::map<std::string, std::string> machine_facts(Session& session) {
  std::map<std::string, std::string> facts;
  const std::string cpu = processor();
  if (!cpu.empty()) facts["processor"] = cpu;
  facts["workers"] = fmt::format("{}", session.pool().workers());
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0)
    facts["memory"] = bytes_text(Bytes{static_cast<u64>(memory.totalram) * memory.mem_unit});
  struct utsname system {};
  if (::uname(&system) == 0)
    facts["system"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  if (session.executor().disk() != nullptr) facts["disk"] = session.executor().disk()->describe();
  facts["compiler"] = __VERSION__;
  return facts;
}

}  // namespace tidepool
