#include "machine/contradiction.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/rate_text.h"
#include "machine/machine_keys.h"

namespace tidepool {

namespace {

// Tolerated differences between rates measured one after the other, on a machine that does other work as
// well. Memory has a larger tolerance, because different loops measure memory and the transfers that go
// through it.
constexpr double noise = 1.1, memory_noise = 1.25;

// Largest plausible slowdowns of both directions at once, against one after the other. A link that gets
// slower than that is a typing mistake. Drives that read and write at once do get slower: hard disks seek.
constexpr double copies_slowdown_most = 2, disk_slowdown_most = 10;

std::string rate(double bytes_per_s) { return format_rate(bytes_per_s, RateUnit::bytes); }

// RETURNS: the combined rate of two directions used in turns, with as many bytes each way.
double in_turns(double a, double b) { return 2 / (1 / a + 1 / b); }

struct Both {
  std::string_view section, key, first, second;
  double sum, a, b, slowdown_most;
};

std::optional<Contradiction> check_both(const Both& both) {
  const auto say = [&](std::string_view what, std::string_view meaning) {
    return Contradiction{both.section, both.key,
                         fmt::format("{} is {} ({} {}, {} {}): it is {}", rate(both.sum), what, both.first,
                                     rate(both.a), both.second, rate(both.b), meaning)};
  };
  constexpr std::string_view meaning = "the sum of both at once";
  if (both.sum > noise * (both.a + both.b))
    return say(fmt::format("more than {} and {} add up to", both.first, both.second), meaning);
  if (both.sum * both.slowdown_most * noise < in_turns(both.a, both.b))
    return say(fmt::format("far less than {} and {} in turns", both.first, both.second), meaning);
  return std::nullopt;
}

// Checks that no transfer through the host's memory is faster than that memory.
std::optional<Contradiction> check_memory(const HostRates& host, std::string_view section,
                                          std::string_view key, double value) {
  if (value <= memory_noise * host.memory_bytes_per_s) return std::nullopt;
  return Contradiction{section, key,
                       fmt::format("{} is more than the host's memory carries (host.memory_rate {})",
                                   rate(value), rate(host.memory_bytes_per_s))};
}

}  // namespace

std::optional<Contradiction> find_contradiction(const Machine& m) {
  const CopyRates& copies = m.copies;
  if (auto found = check_both({"copies", "both", "h2d", "d2h", copies.both_bytes_per_s,
                               copies.h2d_bytes_per_s, copies.d2h_bytes_per_s, copies_slowdown_most}))
    return found;
  if (m.disk.read_bytes_per_s > 0 && m.disk.write_bytes_per_s > 0)
    if (auto found = check_both({"disk", "mixed", "read", "write", m.disk.mixed_bytes_per_s,
                                 m.disk.read_bytes_per_s, m.disk.write_bytes_per_s, disk_slowdown_most}))
      return found;
  if (auto found = check_memory(m.host, "copies", "h2d", copies.h2d_bytes_per_s)) return found;
  if (auto found = check_memory(m.host, "copies", "d2h", copies.d2h_bytes_per_s)) return found;
  return check_memory(m.host, "host", update_rate_key, m.host.update_bytes_per_s);
}

void reconcile(Machine& m) {
  const double carried = m.host.memory_bytes_per_s;
  for (double* rate : {&m.copies.h2d_bytes_per_s, &m.copies.d2h_bytes_per_s, &m.host.update_bytes_per_s})
    *rate = std::min(*rate, memory_noise * carried);
  const auto at_once = [](double& sum, double a, double b, double slowdown_most) {
    if (a > 0 && b > 0) sum = std::clamp(sum, in_turns(a, b) / slowdown_most, a + b);
  };
  at_once(m.copies.both_bytes_per_s, m.copies.h2d_bytes_per_s, m.copies.d2h_bytes_per_s,
          copies_slowdown_most);
  at_once(m.disk.mixed_bytes_per_s, m.disk.read_bytes_per_s, m.disk.write_bytes_per_s, disk_slowdown_most);
}

}  // namespace tidepool
