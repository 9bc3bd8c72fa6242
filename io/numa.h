// Binding memory to the NUMA node(s) where this process runs.
#pragma once

#include <span>
#include <string>

#include "tidepool/types.h"

namespace tidepool {

// To the node of the process's CPUs, or spread page by page over their nodes if there are several.
// REQUIRES: the pages are not there yet. Returns what it did, for people; empty on a machine with one node.
// A refusal is reported in that text, not as an error: it costs bandwidth, not correctness.
std::string bind_to_local_nodes(std::span<std::byte> memory);

}  // namespace tidepool
