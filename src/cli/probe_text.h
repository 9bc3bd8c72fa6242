// What a probe found, as people and programs read it.
#pragma once

#include <string>

#include "probe/probe.h"

namespace tidepool {

// Lines of at most 80 columns.
std::string probe_table(const ProbeResult&);
// The machine file, with what the rounds saw above each rate.
std::string probe_yaml(const ProbeResult&, const std::string& disk_dir);
// One object: the machine and every sample.
std::string probe_json(const ProbeResult&, const std::string& disk_dir);

// The first line of files that a probe wrote, and so may write again.
inline constexpr std::string_view probe_file_mark = "# Made by `tidepool probe`";

}  // namespace tidepool
