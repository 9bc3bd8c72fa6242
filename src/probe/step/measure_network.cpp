#include "probe/step/measure_network.h"

#include <algorithm>
#include <string>

#include "base/median.h"
#include "base/steady_seconds.h"

namespace tidepool {
namespace {

constexpr u64 sample_bytes_max = 16 * mib;
constexpr u32 samples = 5, small_samples = 20;
constexpr u64 small_bytes = 8;
// Above those of steps, and below those of nodes at rest.
constexpr u64 first_message = u64{3} << 60;

}  // namespace

Result<NetworkRates> measure_network(Session& session) {
  NetworkRates rates;
  NetLanes* net = session.net();
  if (net == nullptr) return rates;
  rates.nodes = session.plan().nodes;
  const u32 node = session.plan().node, next = (node + 1) % rates.nodes,
            before = (node + rates.nodes - 1) % rates.nodes;
  const std::span<std::byte> memory = session.host_memory();
  u64 message = first_message;
  const auto seconds_of = [&](u64 bytes, u32 count) -> Result<double> {
    std::vector<double> all;
    for (u32 i = 0; i <= count; ++i) {  // the first opens connections
      const double begin = steady_seconds();
      TRY(net->pass_at_rest(next, memory.first(bytes), before, memory.subspan(bytes, bytes), message++));
      if (i > 0) all.push_back(steady_seconds() - begin);
    }
    return median(std::move(all));
  };
  TRY_ASSIGN(const double latency, seconds_of(small_bytes, small_samples));
  u64 bytes = std::min(sample_bytes_max, memory.size() / 2 / frame_alignment * frame_alignment);
  TRY_ASSIGN(const std::vector<std::string> all, net->transport().exchange(std::to_string(bytes)));
  for (const std::string& one : all) bytes = std::min<u64>(bytes, std::stoull(one));  // memory may differ
  TRY_ASSIGN(const double seconds, seconds_of(bytes, samples));
  rates.latency = Nanos{static_cast<u64>(latency * 1e9)};
  rates.bytes_per_s = static_cast<double>(bytes) / std::max(seconds - latency, 1e-9);
  return rates;
}

}  // namespace tidepool
