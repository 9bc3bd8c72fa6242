// Machine holds the sizes and rates of a machine, from which times are predicted. `tidepool probe` measures
// them; configs/machines/ has files for machines that a user may not own.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

// Types of matrix products. On a CPU, weights of bf16 runs are multiplied in fp32.
enum class MathType : u8 { fp32, bf16, fp16 };
inline constexpr u32 math_type_count = 3;

// `cpu`: the device is the host's own cores and memory, which compute, copies and updates share.
enum class DeviceKind : u8 { cpu, cuda };

struct DeviceRates {
  std::string name;  // "Tesla V100-SXM2-32GB"
  DeviceKind kind = DeviceKind::cpu;
  u32 count = 1;
  Bytes memory{};
  double memory_bytes_per_s = 20e9;  // streaming kernels, read plus written
  std::array<double, math_type_count> flops_per_s{100e9, 100e9, 100e9};  // best rate of large products
  // Share of flops_per_s that a block's large matrix products reach. The time of other kernels is predicted
  // from their bytes.
  double block_efficiency = 1.0;
  u32 processors = 0;        // multiprocessors, which share a product's outputs; 0: not known
  Nanos op_overhead{2'000};  // from the end of one op to the start of the next

  bool operator==(const DeviceRates&) const = default;
};

struct CopyRates {
  double h2d_bytes_per_s = 10e9;  // one device, alone
  double d2h_bytes_per_s = 10e9;
  double both_bytes_per_s = 20e9;          // sum of both directions at once
  std::vector<std::vector<u32>> switches;  // devices that share a path to the host
  double switch_bytes_per_s = 0;           // each direction of one switch; 0: no limit of its own
  // Between devices, each direction of one device, in ring collectives; 0: collectives go over the links to
  // the host.
  double interconnect_bytes_per_s = 0;

  bool operator==(const CopyRates&) const = default;
};

struct HostRates {
  std::string name;  // "AMD EPYC 9R14"
  u32 cores = 1;
  u32 numa_nodes = 1;
  Bytes memory{};
  double memory_bytes_per_s = 20e9;    // plain scaling in place (STREAM scale), read plus written
  double update_bytes_per_s = 20e9;    // alone, read plus written
  double checksum_bytes_per_s = 20e9;  // one chunk after the other, all cores

  bool operator==(const HostRates&) const = default;
};

// One measured point of the disk: for people, and for choosing a block size.
struct DiskPoint {
  Bytes block{};
  u32 depth = 0;
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;

  bool operator==(const DiskPoint&) const = default;
};

struct DiskRates {
  Bytes capacity{};               // 0: no disk to plan with
  double read_bytes_per_s = 2e9;  // alone, large blocks, deep queue
  double write_bytes_per_s = 1e9;
  double mixed_bytes_per_s = 1.5e9;  // sum of both directions at once, as many bytes read as written
  Bytes endurance{};                 // bytes that the maker guarantees can be written; 0: not known
  std::vector<DiskPoint> points;

  bool operator==(const DiskRates&) const = default;
};

// Network between nodes: machines that are alike, each with a port of its own.
struct NetworkRates {
  u32 nodes = 1;
  double bytes_per_s = 0;  // each direction of one node; 0: no network to plan with
  Nanos latency{};         // of a message, from node to node

  bool operator==(const NetworkRates&) const = default;
};

struct Machine {
  std::string name = "default";
  std::string date;  // date of the measurement, ISO
  DeviceRates device;
  CopyRates copies;
  HostRates host;
  DiskRates disk;
  NetworkRates network;

  bool operator==(const Machine&) const = default;
};

// A machine file without the section `disk` describes a machine without a disk.
inline bool has_disk(const Machine& machine) { return machine.disk != DiskRates{}; }
inline bool has_network(const Machine& machine) { return machine.network != NetworkRates{}; }

}  // namespace tidepool
