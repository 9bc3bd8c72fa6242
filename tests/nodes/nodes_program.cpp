// Program that tests run on several nodes under a launcher: nodes_program MODULES MODE [ARGUMENT ...].
//
// Prints one line per node and result. Its exit code is that of the error that ended it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "base/mix_bits.h"
#include "base/steady_seconds.h"
#include "net/agreement.h"
#include "net/connect_nodes.h"

namespace tidepool {
namespace {

using ByteBuffer = std::vector<std::byte>;

// Waits for completions.
class Waiter {
 public:
  NetSink sink() {
    return [this](const NetCompletion& c) {
      if (!c.ok) {
        std::scoped_lock lock(mutex_);
        if (!error_) error_ = c.error;
      }
      ++done_;
      done_.notify_all();
    };
  }
  // Until so many completions have arrived in all.
  Result<void> wait_for(u64 count) {
    for (u64 n = done_; n < count; n = done_) done_.wait(n);
    std::scoped_lock lock(mutex_);
    if (error_) return *error_;
    return {};
  }

 private:
  std::atomic<u64> done_ = 0;
  std::mutex mutex_;
  std::optional<Error> error_;
};

struct Run {
  Transport& net;
  std::vector<std::string> arguments;
};

// Into $NODES_OUT/out.WHO if set: launchers lose some of the output of nodes that end after another was
// killed.
void print_line(const std::string& who, const std::string& text) {
  const char* const folder = std::getenv("NODES_OUT");
  if (folder == nullptr) {
    const std::string line = fmt::format("[{}] {}\n", who, text);
    if (::write(1, line.data(), line.size()) < 0) std::abort();
    return;
  }
  std::ofstream(fmt::format("{}/out.{}", folder, who), std::ios::app) << text << std::endl;
}

void say(const Transport& net, const std::string& text) { print_line(std::to_string(net.node()), text); }

bool mpi_is_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libmpi") != std::string::npos || line.find("libopen-pal") != std::string::npos)
      return true;
  return false;
}

void fill(ByteBuffer& out, u64 seed) {
  for (u64 i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(mix_count(seed + i) >> 7);
}

// Random messages among all nodes, submitted by each in an order of its own.
Result<void> transfer(const Run& run) {
  Transport& net = run.net;
  const u64 seed = std::stoull(run.arguments.at(0)), count = std::stoull(run.arguments.at(1));
  Waiter waiter;
  net.deliver_to(waiter.sink());
  u64 expected = 0, faults = 0;
  for (u64 round = 0; round < 3; ++round) {
    std::mt19937_64 random(seed + round), own(seed * 77 + round * 7 + net.node());
    struct Message {
      u32 from, to;
      u64 number, bytes;
    };
    std::vector<Message> messages;
    for (u64 i = 0; i < count; ++i) {
      const u32 from = static_cast<u32>(random() % net.nodes());
      const u32 to = static_cast<u32>((from + 1 + random() % (net.nodes() - 1)) % net.nodes());
      constexpr u64 sizes[] = {0, 1, 4096, 65'536, 65'537, 200'000, 1'000'000};
      messages.push_back(
          {from, to, mix_count(i) >> 1, i % 3 == 0 ? random() % 100'000 : sizes[random() % 7]});
    }
    std::vector<ByteBuffer> memory(count);
    std::vector<u64> order(count);
    for (u64 i = 0; i < count; ++i) order[i] = i;
    std::ranges::shuffle(order, own);
    for (const u64 i : order) {
      const Message& m = messages[i];
      if (m.from != net.node() && m.to != net.node()) continue;
      memory[i].resize(m.bytes);
      ++expected;
      if (m.to == net.node()) {
        net.receive(m.from, m.number, memory[i], i);
        continue;
      }
      fill(memory[i], i * 977 + round);
      net.send(m.to, m.number, memory[i], i);
    }
    TRY(waiter.wait_for(expected));
    for (u64 i = 0; i < count; ++i) {
      if (messages[i].to != net.node()) continue;
      ByteBuffer right(messages[i].bytes);
      fill(right, i * 977 + round);
      faults += memory[i] != right;
    }
  }
  say(net, fmt::format("{} requests, {} wrong, {}", expected, faults, net.describe()));
  return {};
}

Result<void> exchange(const Run& run) {
  for (u32 round = 0; round < 3; ++round) {
    const auto text = [round](u32 n) {
      return std::string(n * 50'000 * round + n, static_cast<char>('a' + n));
    };
    TRY_ASSIGN(const std::vector<std::string> all, run.net.exchange(text(run.net.node())));
    for (u32 n = 0; n < run.net.nodes(); ++n)
      if (all[n] != text(n)) return Error{ErrorKind::internal, fmt::format("node {}'s text is wrong", n)};
  }
  say(run.net, "exchanged");
  return {};
}

// The last node differs, or refuses.
Result<void> agreement(const Run& run) {
  const bool last = run.net.node() + 1 == run.net.nodes();
  Statement statement{{{"version", "1"}, {"config", "same"}}, {}};
  if (last && run.arguments.at(0) == "differs") statement.facts[1].value = "other";
  if (last && run.arguments.at(0) == "refuses")
    statement.refusal = Error{ErrorKind::does_not_fit, "too little memory"};
  TRY(agree(run.net, statement));
  say(run.net, "agreed");
  return {};
}

void write_pid(const std::string& folder, u32 node) {
  const std::string path = fmt::format("{}/pid.{}", folder, node);
  std::ofstream(path + ".part") << ::getpid();
  std::rename((path + ".part").c_str(), path.c_str());
}

// Exchanges messages with all others until something fails. Writes the process's number to DIR/pid.NODE.
// Like the program, it does not end at once when a launcher sends SIGTERM, as launchers do when another node
// died.
Result<void> go_on(const Run& run) {
  ::signal(SIGTERM, SIG_IGN);
  Transport& net = run.net;
  Waiter waiter;
  net.deliver_to(waiter.sink());
  ByteBuffer in(net.nodes() * 300'000), out(300'000);
  u64 expected = 0;
  for (u64 round = 0;; ++round) {
    for (u32 peer = 0; peer < net.nodes(); ++peer) {
      if (peer == net.node()) continue;
      net.receive(peer, round, std::span(in).subspan(peer * 300'000, 300'000), 0);
      net.send(peer, round, out, 0);
      expected += 2;
    }
    // Launchers stumble over nodes that die while connections are still being made.
    if (round == 20) write_pid(run.arguments.at(0), net.node());
    if (round == 40 && run.arguments.size() > 1 && net.node() == 1) {
      const Error cause{ErrorKind::io, "the disk is full"};
      say(net, "fails: " + cause.message);  // before the others end, and a launcher ends this node
      net.fail(cause);
      return cause;
    }
    TRY(waiter.wait_for(expected));
  }
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// Rate of messages of a size between nodes 0 and 1, and the CPU time of waiting and of idling.
Result<void> bench(const Run& run) {
  Transport& net = run.net;
  Waiter waiter;
  net.deliver_to(waiter.sink());
  u64 expected = 0;
  for (const u64 bytes : {u64{8}, 64 * kib, mib, 16 * mib, 64 * mib}) {
    const u64 count = std::clamp<u64>(2 * gib / bytes, 8, 2000), depth = 4;
    std::vector<ByteBuffer> memory(2 * depth, ByteBuffer(bytes));
    for (const bool both : {false, true}) {
      TRY(net.exchange("begin"));
      const double begin = steady_seconds(), cpu = cpu_seconds();
      u64 begun = 0;
      for (u64 i = 0; i < count; ++i) {
        if (i >= depth) TRY(waiter.wait_for(expected + (i - depth + 1) * (both ? 2 : 1)));
        if (both || net.node() == 0) net.send(1 - net.node(), i, memory[i % depth], 0), ++begun;
        if (both || net.node() == 1) net.receive(1 - net.node(), i, memory[depth + i % depth], 0), ++begun;
      }
      TRY(waiter.wait_for(expected += begun));
      const double took = steady_seconds() - begin;
      if (net.node() == 0)
        say(net,
            fmt::format("{} x {} bytes {}: {:.2f} GB/s each way, {:.1f} us per message, {:.0f} % of a core",
                        count, bytes, both ? "both ways" : "one way",
                        1e-9 * static_cast<double>(count * bytes) / took,
                        1e6 * took / static_cast<double>(count), 100 * (cpu_seconds() - cpu) / took));
    }
  }
  ByteBuffer byte(1);
  TRY(net.exchange("begin"));
  double begin = steady_seconds(), cpu = cpu_seconds();
  constexpr u64 trips = 2000;
  for (u64 i = 0; i < trips; ++i) {
    net.node() == 0 ? net.send(1, i, byte, 0) : net.receive(0, i, byte, 0);
    TRY(waiter.wait_for(++expected));
    net.node() == 1 ? net.send(0, i, byte, 0) : net.receive(1, i, byte, 0);
    TRY(waiter.wait_for(++expected));
  }
  say(net, fmt::format("round trip {:.1f} us", 1e6 * (steady_seconds() - begin) / trips));
  for (const bool waits : {false, true}) {
    TRY(net.exchange("begin"));
    if (waits && net.node() == 0) net.receive(1, 0, byte, 0);
    begin = steady_seconds(), cpu = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(4));
    say(net, fmt::format("{}: {:.2f} % of a core", waits && net.node() == 0 ? "waits" : "idles",
                         100 * (cpu_seconds() - cpu) / (steady_seconds() - begin)));
    if (!waits) continue;
    if (net.node() == 1) net.send(0, 0, byte, 0);
    TRY(waiter.wait_for(++expected));
  }
  return {};
}

Result<void> run_mode(const std::string& mode, const Run& run) {
  if (mode == "transfer") return transfer(run);
  if (mode == "exchange") return exchange(run);
  if (mode == "agree") return agreement(run);
  if (mode == "go_on") return go_on(run);
  if (mode == "bench") return bench(run);
  return usage_error("no mode " + mode);
}

int ended(const std::string& who, const Error& error) {
  print_line(who, fmt::format("error {}: {}", exit_code(error), error.message));
  return exit_code(error);
}

double number_from(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atof(text) : otherwise;
}

int run(const std::vector<std::string>& words) {
  const Result<Launcher> launcher =
      find_launcher([](const char* name) -> const char* { return std::getenv(name); });
  if (!launcher) return ended("-", launcher.error());
  const std::string who = std::to_string(launcher->rank);
  if (mpi_is_mapped())
    return ended(who, {ErrorKind::internal, "an MPI library is mapped before it is needed"});
  if (launcher->kind == LauncherKind::none) {
    fmt::print("alone\n");
    return 0;
  }
  TransportOptions options;
  options.timeout_seconds = number_from("NODES_TIMEOUT", 10);
  options.piece = Bytes{static_cast<u64>(number_from("NODES_PIECE", 4 * mib))};
  options.pieces_in_flight = static_cast<u32>(number_from("NODES_PIECES", 4));
  auto net = connect_nodes(*launcher, options, words.at(1));
  if (!net) return ended(who, net.error());
  const Result<void> result = run_mode(words.at(2), {**net, {words.begin() + 3, words.end()}});
  // Before the goodbye: the first node that ends with an error makes the launcher end the others.
  const int code = result ? 0 : ended(who, result.error());
  net->reset();
  return code;
}

}  // namespace
}  // namespace tidepool

int main(int count, char** words) { return tidepool::run({words, words + count}); }
