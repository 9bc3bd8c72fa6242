#include "io/numa.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/errno_text.h"
#include "io/disk_error.h"

namespace tidepool {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;
struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

enum class Devices : bool { no, yes };  // loading devices takes a hundred times longer

Topology load_topology(Devices devices) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (devices == Devices::yes) hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

bool has_several_nodes(const Topology& topology) {
  return topology && hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE) > 1;
}

std::string bind_to(const Topology& topology, std::span<std::byte> memory, hwloc_const_bitmap_t nodes,
                    const char* whose) {
  const bool one = hwloc_bitmap_weight(nodes) == 1;
  // Not a strict binding: if a node is full, the kernel uses another node.
  const int failed =
      hwloc_set_area_membind(topology.get(), memory.data(), memory.size(), nodes,
                             one ? HWLOC_MEMBIND_BIND : HWLOC_MEMBIND_INTERLEAVE, HWLOC_MEMBIND_BYNODESET);
  if (failed != 0) return fmt::format("not bound to a node ({})", errno_text(errno));
  char* text = nullptr;
  hwloc_bitmap_list_asprintf(&text, nodes);
  std::string result = fmt::format("{} {}{}", one ? "bound to node" : "spread over nodes", text, whose);
  std::free(text);
  return result;
}

}  // namespace

std::vector<u32> numa_nodes_of(const std::vector<std::string>& pci) {
  std::vector<u32> out;
  if (pci.empty() || !has_several_nodes(load_topology(Devices::no))) return out;
  const Topology topology = load_topology(Devices::yes);
  if (!topology) return out;
  const Bitmap nodes(hwloc_bitmap_alloc());
  for (const std::string& address : pci) {
    const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology.get(), address.c_str());
    const hwloc_obj_t near =
        device != nullptr ? hwloc_get_non_io_ancestor_obj(topology.get(), device) : nullptr;
    // A device attached to the whole machine is near to no node.
    if (near != nullptr && near->parent != nullptr) hwloc_bitmap_or(nodes.get(), nodes.get(), near->nodeset);
  }
  for (int node = hwloc_bitmap_first(nodes.get()); node >= 0; node = hwloc_bitmap_next(nodes.get(), node))
    out.push_back(static_cast<u32>(node));
  return out;
}

std::string bind_to_local_nodes(std::span<std::byte> memory, const std::vector<std::string>& pci) {
  const Topology topology = load_topology(Devices::no);
  if (!has_several_nodes(topology)) return "";
  const Bitmap cpus(hwloc_bitmap_alloc()), nodes(hwloc_bitmap_alloc());
  for (const u32 node : numa_nodes_of(pci)) hwloc_bitmap_set(nodes.get(), node);
  if (!hwloc_bitmap_iszero(nodes.get()))
    return bind_to(topology, memory, nodes.get(), pci.size() > 1 ? ", the GPUs'" : ", the GPU's");
  if (hwloc_get_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_PROCESS) != 0) return "not bound to a node";
  hwloc_cpuset_to_nodeset(topology.get(), cpus.get(), nodes.get());
  return bind_to(topology, memory, nodes.get(), "");
}

}  // namespace tidepool
