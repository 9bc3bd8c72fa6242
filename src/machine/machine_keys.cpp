#include "machine/machine_keys.h"

namespace tidepool {

namespace {

// Captureless lambdas: the table is data, and a key's place in Machine is checked by the compiler.
#define REF(field) [](Machine& m) -> MachineRef { return &m.field; }
#define RATE(field) [](Machine& m) -> MachineRef { return RateRef{&m.field, RateUnit::bytes}; }
#define FLOPS(type)                                                                           \
  [](Machine& m) -> MachineRef {                                                              \
    return RateRef{&m.device.flops_per_s[static_cast<u32>(MathType::type)], RateUnit::flops}; \
  }

constexpr MachineKey keys[] = {
    {"", "name", REF(name), Need::optional, "name of the machine"},
    {"", "date", REF(date), Need::optional, "date of the measurement"},

    {"device", "name", REF(device.name), Need::optional, "name of the device"},
    {"device", "kind", REF(device.kind), Need::optional, "cpu: made of the host's cores and memory; or cuda"},
    {"device", "count", REF(device.count), Need::positive, "devices; 1 if left out"},
    {"device", "memory", REF(device.memory), Need::required, "memory of one device"},
    {"device", "memory_rate", RATE(device.memory_bytes_per_s), Need::required,
     "streaming kernels, read + written"},
    {"device", "fp32", FLOPS(fp32), Need::required, "best of large matrix products"},
    {"device", "bf16", FLOPS(bf16), Need::positive, "the same in bf16; left out: the rate of fp32"},
    {"device", "fp16", FLOPS(fp16), Need::positive, "the same in fp16; left out: the rate of fp32"},
    {"device", "block_efficiency",
     [](Machine& m) -> MachineRef { return FractionRef{&m.device.block_efficiency}; }, Need::positive,
     "share of these rates that a block reaches; 1 if left out"},
    {"device", "processors", REF(device.processors), Need::optional,
     "multiprocessors, which share products; 0: not known"},
    {"device", "op_overhead", REF(device.op_overhead), Need::optional, "time from one op to the next"},

    {"copies", "h2d", RATE(copies.h2d_bytes_per_s), Need::required, "host to device, one device alone"},
    {"copies", "d2h", RATE(copies.d2h_bytes_per_s), Need::required, "device to host, one device alone"},
    {"copies", "both", RATE(copies.both_bytes_per_s), Need::required, "sum of both directions at once"},
    {"copies", "switches", REF(copies.switches), Need::optional,
     "switches; the devices of one share a link to the host"},
    {"copies", "switch_rate", RATE(copies.switch_bytes_per_s), Need::optional,
     "each direction of one switch; 0: no limit"},
    {"copies", "interconnect", RATE(copies.interconnect_bytes_per_s), Need::optional,
     "each direction of one device, in rings; 0: none"},

    {"host", "name", REF(host.name), Need::optional, "name of the processor"},
    {"host", "cores", REF(host.cores), Need::required, "physical cores of all sockets"},
    {"host", "numa_nodes", REF(host.numa_nodes), Need::positive, "1 if left out"},
    {"host", "memory", REF(host.memory), Need::required, "memory of the whole machine"},
    {"host", "memory_rate", RATE(host.memory_bytes_per_s), Need::required,
     "scaling in place (STREAM scale), read + written"},
    {"host", update_rate_key, RATE(host.update_bytes_per_s), Need::required,
     "updates by adamw_torch with checksums, read + written"},
    {"host", "checksum", RATE(host.checksum_bytes_per_s), Need::positive,
     "read; left out: the same as memory_rate"},

    {"disk", "capacity", REF(disk.capacity), Need::required, "space to plan with"},
    {"disk", "read", RATE(disk.read_bytes_per_s), Need::required, "alone, large blocks, deep queue"},
    {"disk", "write", RATE(disk.write_bytes_per_s), Need::required, "the same, sustained"},
    {"disk", "mixed", RATE(disk.mixed_bytes_per_s), Need::positive,
     "read + written, both at once; left out: they take turns"},
    {"disk", "endurance", REF(disk.endurance), Need::optional, "bytes that may be written; 0: not known"},
    {"disk", "points", REF(disk.points), Need::optional, "by block size and queue depth"},

    {"network", "nodes", REF(network.nodes), Need::positive, "machines like this one; 1 if left out"},
    {"network", "rate", RATE(network.bytes_per_s), Need::required, "each direction of one node"},
    {"network", "latency", REF(network.latency), Need::optional, "of a message, from node to node"},
};

#undef REF
#undef RATE
#undef FLOPS

}  // namespace

std::span<const MachineKey> machine_keys() { return keys; }

}  // namespace tidepool
