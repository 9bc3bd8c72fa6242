// Binding memory to the NUMA node(s) where this process runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

// To the node of the process's CPUs, or spread page by page over their nodes if there are several.
// REQUIRES: the pages are not there yet. Returns what it did, for people; empty on a machine with one node.
// A refusal is reported in that text, not as an error: it costs bandwidth, not correctness.
// With `pci` ("0000:3b:00.0"), to the node(s) of those devices instead, where the system knows them.
std::string bind_to_local_nodes(std::span<std::byte> memory, const std::vector<std::string>& pci = {});

// Nodes of the machine, in order, that are nearest to these devices. Empty on a machine with one node, or
// where it is not known.
std::vector<u32> numa_nodes_of(const std::vector<std::string>& pci);

}  // namespace tidepool
