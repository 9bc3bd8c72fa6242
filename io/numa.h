// Binds memory to the NUMA node(s) of this process or of its devices.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

// Binds to the node of this process's CPUs; if the CPUs span several nodes, interleaves pages over those
// nodes. With `pci` ("0000:3b:00.0"), uses the node(s) of those devices instead, where the system knows them.
// REQUIRES: the pages are not yet faulted in.
// RETURNS: what was done, for people; empty on a single-node machine. A refusal is reported in this text and
// not as an error, because it costs bandwidth, not correctness.
std::string bind_to_local_nodes(std::span<std::byte> memory, const std::vector<std::string>& pci = {});

// RETURNS: the NUMA nodes nearest to these devices, in order; empty on a single-node machine or if unknown.
std::vector<u32> numa_nodes_of(const std::vector<std::string>& pci);

}  // namespace tidepool
