#include "run/assembly/machine_facts.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "base/text/units.h"
#include "io/file_system.h"
#include "machine/cpu_name.h"

namespace tidepool {
std::map<std::string, std::string> machine_facts(Session& session) {
  const Config& config = session.job().config;
  std::map<std::string, std::string> facts;
  const std::string cpu = cpu_name();
  if (!cpu.empty()) facts["processor"] = cpu;
  facts["workers"] = fmt::format("{}", session.pool().workers());
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0)
    facts["memory"] = bytes_text(Bytes{static_cast<u64>(memory.totalram) * memory.mem_unit});
  struct utsname system {};
  if (::uname(&system) == 0)
    facts["system"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  if (session.disk() != nullptr) facts["disk"] = session.disk()->describe();
  if (const auto at = look_at_file_system(swap_directory(config)))
    facts["file_system"] = fmt::format("{} at {}", at->name, at->dir);
  if (session.devices().are_gpus())
    for (const std::string& line : session.devices().describe())
      facts["gpu"] += (facts["gpu"].empty() ? "" : "; ") + line;
  facts["compiler"] = __VERSION__;
  return facts;
}

}  // namespace tidepool
