// Formats the result of a probe for people (table) and for programs (YAML, JSON).
#pragma once

#include <string>

#include "probe/probe.h"

namespace tidepool {

// RETURNS: a table, lines of at most 80 columns.
std::string probe_table(const ProbeResult&);
// RETURNS: the machine file; a comment above each rate has the measurements of its rounds.
std::string probe_yaml(const ProbeResult&, const std::string& disk_dir);
// RETURNS: one JSON object with the machine and every sample.
std::string probe_json(const ProbeResult&, const std::string& disk_dir);

// First line of files written by a probe. A probe may overwrite only such files.
inline constexpr std::string_view probe_file_mark = "# Made by `tidepool probe`";

}  // namespace tidepool
