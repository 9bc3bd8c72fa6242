#include "io/numa.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "io/disk_error.h"
#include "text/errno_text.h"

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

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

}  // namespace

std::string bind_to_local_nodes(std::span<std::byte> memory) {
  Topology topology = load_topology();
  if (!topology || hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE) < 2) return "";

  Bitmap cpus(hwloc_bitmap_alloc()), nodes(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_PROCESS) != 0) return "not bound to a node";
  hwloc_cpuset_to_nodeset(topology.get(), cpus.get(), nodes.get());
  bool one = hwloc_bitmap_weight(nodes.get()) == 1;
  int failed =
      hwloc_set_area_membind(topology.get(), memory.data(), memory.size(), nodes.get(),
                             one ? HWLOC_MEMBIND_BIND : HWLOC_MEMBIND_INTERLEAVE, HWLOC_MEMBIND_BYNODESET);
  if (failed != 0) return fmt::format("not bound to a node ({})", errno_text(errno));

  char* text = nullptr;
  hwloc_bitmap_list_asprintf(&text, nodes.get());
  std::string result = fmt::format("{} {}", one ? "bound to node" : "spread over nodes", text);
  std::free(text);
  return result;
}

}  // namespace tidepool
