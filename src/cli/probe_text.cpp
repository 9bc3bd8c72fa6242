#include "cli/probe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/text/value_text.h"
#include "io/memory_limits.h"
#include "machine/machine_file.h"
#include "probe/disk_meter.h"
#include "probe/gpu_meters.h"
#include "probe/machine_of.h"
#include "probe/meter.h"
#include "report/screen.h"

namespace tidepool {

namespace {

constexpr u32 text_columns = 80;

std::string plural(u64 n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string line(const MeasuredRate& rate) {
  const auto text = [&](double value) { return sample_text(rate.unit, value); };
  return fmt::format("  {:<31}{:>13}{:>13}{:>13}{:>6.2f}{}\n", rate.what, text(rate.median()),
                     text(rate.least()), text(rate.most()), rate.spread(), rate.is_wide() ? " !" : "");
}

bool is_point(const MeasuredRate& rate) { return rate.key.starts_with("point."); }

std::string point_table(const Rates& rates) {
  std::string out = fmt::format("\n  {:<14}", "read / write");
  for (u32 depth : point_depths) out += fmt::format("{:>20}", fmt::format("depth {}", depth));
  out += "\n";
  for (Bytes block : point_blocks) {
    out += fmt::format("  {:<14}", format_size(block));
    for (u32 depth : point_depths) {
      const auto rate = [&](DiskPattern pattern) { return rates.median(point_key(block, depth, pattern)); };
      out += fmt::format("{:>20}", fmt::format("{:.0f} / {:.0f} MB/s", rate(DiskPattern::read) / 1e6,
                                               rate(DiskPattern::write) / 1e6));
    }
    out += "\n";
  }
  return out;
}

std::string spread(const MeasuredRate& rate) {
  return fmt::format("{} to {} in {}{}", sample_text(rate.unit, rate.least()),
                     sample_text(rate.unit, rate.most()), plural(rate.samples.size(), "round"),
                     rate.is_wide() ? ": wide, probe again" : "");
}

// Advice about rates with a wide spread. The disk's points are counted by themselves, because their table
// does not show spreads.
std::string advice_on_spreads(const Rates& rates) {
  const auto count = [&](bool points, bool wide_only) {
    return std::ranges::count_if(rates.all(), [&](const MeasuredRate& r) {
      return is_point(r) == points && (r.is_wide() || !wide_only);
    });
  };
  const auto wide = count(false, true), wide_points = count(true, true);
  std::string which;
  if (wide > 0) which = fmt::format("{} of the {} rates above", wide, count(false, false));
  if (wide_points > 0)
    which += fmt::format("{}{} of the {} rates in the disk's table below", wide > 0 ? ", and " : "",
                         wide_points, count(true, false));
  if (which.empty()) return "";
  return "\n" + wrap_lines(fmt::format(
                               "  !  {}: the most is over {} times the least. Other work ran, or the "
                               "cores changed their clock. Predictions from such rates are as uncertain. End "
                               "the other work and probe again, longer: --seconds=120.",
                               which, spread_wide),
                           text_columns);
}

// Compares a layer's products with the best product of the same precision: bf16, if it was measured.
std::string layer_line(const ProbeResult& result) {
  return fmt::format("\n  The products of a {0} layer reach {1:.0f} % of the best {0} product.\n",
                     best_product(result.rates, Precision::bf16) == nullptr ? "fp32" : "bf16",
                     100 * result.machine.device.block_efficiency);
}

bool is_gpu(const ProbeResult& result) { return result.machine.device.kind == DeviceKind::cuda; }

MachineRemarks remarks_of(const ProbeResult& result, const std::string& disk_dir) {
  MachineRemarks remarks;
  const Rates& rates = result.rates;
  for (const MeasuredRate& rate : rates.all())
    if (rate.key.find('.') != std::string::npos && !is_point(rate)) remarks[rate.key] = spread(rate);
  for (const auto& [key, precision] :
       {std::pair{"device.fp32", Precision::fp32}, {"device.bf16", Precision::bf16}}) {
    const MeasuredRate* const rate = best_product(rates, precision);
    remarks[key] = rate == nullptr ? "Not measured: no such products on this card. The rate of fp32."
                                   : fmt::format("{}: {}", rate->what, spread(*rate));
  }
  const bool gpu = is_gpu(result);
  if (gpu) {
    remarks["device.count"] = "GPUs of this name; the first was measured.";
    remarks["device.memory"] = "Of the card, including the driver's share.";
  } else {
    remarks["device.memory"] = "Host memory: the device and host budgets share it.";
  }
  remarks["device.memory_rate"] += ", gradient kernel";
  remarks["device.fp16"] = "Not measured: no such products in this build. The rate of bf16.";
  remarks["device.block_efficiency"] =
      fmt::format("Products of a layer, without the time that memory bounds. {}: {}",
                  rates.find(layer_key)->what, spread(*rates.find(layer_key)));
  const MeasuredRate& overhead = *rates.find(gpu ? launch_key : wake_up_key);
  remarks["device.op_overhead"] = fmt::format("{}: {}", overhead.what, spread(overhead));
  if (!result.disk.empty()) remarks["disk.capacity"] = fmt::format("Free in {}; {}.", disk_dir, result.disk);
  return remarks;
}

boost::json::object json_of(const MeasuredRate& rate) {
  const char* unit = rate.unit == SampleUnit::seconds       ? "seconds"
                     : rate.unit == SampleUnit::flops_per_s ? "flops_per_second"
                                                            : "bytes_per_second";
  return {{"what", rate.what},
          {"unit", unit},
          {"median", rate.median()},
          {"least", rate.least()},
          {"most", rate.most()},
          {"spread", rate.spread()},
          {"samples", boost::json::value_from(rate.samples)}};
}

boost::json::object json_of(const Machine& m) {
  boost::json::array points;
  for (const DiskPoint& p : m.disk.points)
    points.push_back(boost::json::object{{"block_bytes", p.block.value},
                                         {"depth", p.depth},
                                         {"read_bytes_per_second", p.read_bytes_per_s},
                                         {"write_bytes_per_second", p.write_bytes_per_s}});
  return {{"name", m.name},
          {"date", m.date},
          {"cpu", m.host.name},
          {"device", m.device.name},
          {"device_kind", m.device.kind == DeviceKind::cuda ? "cuda" : "cpu"},
          {"device_count", m.device.count},
          {"device_memory_bytes", m.device.memory.value},
          {"cores", m.host.cores},
          {"numa_nodes", m.host.numa_nodes},
          {"memory_bytes", m.host.memory.value},
          {"fp32_flops_per_second", m.device.flops_per_s[0]},
          {"bf16_flops_per_second", m.device.flops_per_s[1]},
          {"block_efficiency", m.device.block_efficiency},
          {"op_overhead_seconds", static_cast<double>(m.device.op_overhead.value) * 1e-9},
          {"disk_capacity_bytes", m.disk.capacity.value},
          {"disk_points", points}};
}

}  // namespace

std::string probe_table(const ProbeResult& result) {
  const HostRates& host = result.machine.host;
  std::string out = wrap_lines(fmt::format("{}{}{}, {}, {} of memory", host.name,
                                           host.name.empty() ? "" : ", ", plural(host.cores, "core"),
                                           plural(host.numa_nodes, "NUMA node"), format_bytes(host.memory)),
                               text_columns);
  if (is_gpu(result)) {
    const DeviceRates& device = result.machine.device;
    out += wrap_lines(fmt::format("{} x {}, {} of memory each, {} processors", device.count, device.name,
                                  format_bytes(device.memory), device.processors),
                      text_columns);
  }
  out += fmt::format("\n  {:<31}{:>13}{:>13}{:>13}{:>8}\n", plural(result.rounds, "interleaved round"),
                     "median", "least", "most", "spread");
  for (const MeasuredRate& rate : result.rates.all())
    if (!is_point(rate)) out += line(rate);
  out += advice_on_spreads(result.rates) + layer_line(result);
  if (!result.disk.empty())
    out += wrap_lines(fmt::format("  Disk: {}", result.disk), text_columns) + point_table(result.rates);
  return out;
}

std::string probe_yaml(const ProbeResult& result, const std::string& disk_dir) {
  return fmt::format(
             "{}: medians of {}, {:.0f} s in all.\n"
             "# The comment above a rate gives its samples. docs/machine-files.md explains the keys.\n",
             probe_file_mark, plural(result.rounds, "interleaved round"), result.seconds) +
         to_yaml(result.machine, remarks_of(result, disk_dir));
}

std::string probe_json(const ProbeResult& result, const std::string& disk_dir) {
  boost::json::object rates;
  for (const MeasuredRate& rate : result.rates.all()) rates[rate.key] = json_of(rate);
  return boost::json::serialize(boost::json::object{{"machine", json_of(result.machine)},
                                                    {"rates", rates},
                                                    {"rounds", result.rounds},
                                                    {"seconds", result.seconds},
                                                    {"disk_dir", disk_dir},
                                                    {"disk", result.disk}}) +
         "\n";
}

}  // namespace tidepool
