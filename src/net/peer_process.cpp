#include "net/peer_process.h"

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/read_file.h"

namespace tidepool {
namespace {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string kernel_id() {
  std::error_code unknown;
  const Result<std::string> boot = read_small_file("/proc/sys/kernel/random/boot_id", kib, ErrorKind::io);
  const std::string pids = std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  if (!boot || pids.empty()) return {};
  return boot->substr(0, boot->find('\n')) + " " + pids;
}

}  // namespace

ProcessPlace ProcessPlace::here() { return {host_name(), kernel_id(), ::getpid()}; }

std::string ProcessPlace::text() const { return fmt::format("{}\n{}\n{}", pid, kernel, host); }

ProcessPlace ProcessPlace::from(const std::string& text) {
  const size_t kernel = text.find('\n'), host = text.find('\n', kernel + 1);
  if (kernel == std::string::npos || host == std::string::npos) return {.host = text};
  return {text.substr(host + 1), text.substr(kernel + 1, host - kernel - 1), std::atoll(text.c_str())};
}

PeerProcesses::~PeerProcesses() {
  for (const Watched& w : watched_) ::close(w.fd);
}

void PeerProcesses::watch(const std::vector<ProcessPlace>& by_node, u32 node) {
  const ProcessPlace& here = by_node[node];
  for (u32 peer = 0; peer < by_node.size(); ++peer) {
    const ProcessPlace& there = by_node[peer];
    if (here.kernel.empty() || there.kernel != here.kernel || there.pid == here.pid) continue;
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(there.pid), 0));
    if (fd >= 0) watched_.push_back({peer, fd});
  }
}

std::optional<u32> PeerProcesses::ended() {
  for (size_t i = 0; i < watched_.size(); ++i) {
    const Watched w = watched_[i];
    pollfd look{w.fd, POLLIN, 0};
    if (::poll(&look, 1, 0) != 1) continue;
    ::close(w.fd);
    watched_[i] = watched_.back();
    watched_.pop_back();
    return w.node;
  }
  return {};
}

}  // namespace tidepool
