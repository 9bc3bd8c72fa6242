// PeerProcesses watches the processes of other nodes that run on this host: the kernel tells at once when one
// ends, long before its silence is noticed. Launchers often kill the other processes a moment later, and
// until then these can say which node died.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

// ProcessPlace says where a process runs, in a text for the other nodes.
struct ProcessPlace {
  std::string host;
  std::string kernel;  // equal for processes that see each other's numbers: boot and namespace
  i64 pid = 0;

  static ProcessPlace here();
  std::string text() const;
  static ProcessPlace from(const std::string& text);
};

class PeerProcesses {
 public:
  PeerProcesses() = default;
  ~PeerProcesses();
  PeerProcesses(const PeerProcesses&) = delete;

  // Starts to watch the nodes that run on this host as other processes. Where the kernel cannot do it (before
  // Linux 5.3), watches none.
  void watch(const std::vector<ProcessPlace>& by_node, u32 node);
  // RETURNS: the first node whose process has ended since the last call.
  std::optional<u32> ended();

 private:
  struct Watched {
    u32 node;
    int fd;
  };
  std::vector<Watched> watched_;
};

}  // namespace tidepool
