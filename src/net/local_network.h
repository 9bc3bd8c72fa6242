// LocalNetwork connects nodes that are threads of one process: transports for tests of what runs on several
// nodes. This header is its fault model.
//
// The transports run the same protocol as over MPI, and only the wire differs. Ranges arrive after a random
// delay, ended requests are told in random order, and sends of up to 4 KiB end before they arrive, as with
// MPI. All of it depends on the seed; when threads look does not.
#pragma once

#include <memory>
#include <vector>

#include "net/transport.h"
#include "net/wire.h"

namespace tidepool {

struct LocalNetworkOptions {
  u32 nodes = 2;
  u64 seed = 0;
  u32 delay_us_max = 0;
};

class LocalNetwork {
 public:
  // THREADS: any thread may call the methods.
  static std::shared_ptr<LocalNetwork> create(const LocalNetworkOptions&);
  virtual ~LocalNetwork() = default;

  // RETURNS: the wire of a node; it keeps the network alive.
  // REQUIRES: called once for each node.
  virtual std::unique_ptr<Wire> wire(u32 node) = 0;
  // From now on nothing reaches the node and nothing leaves it, as if it was killed, stopped or cut off.
  virtual void cut(u32 node) = 0;
  // The opposite: what was sent meanwhile arrives.
  virtual void mend(u32 node) = 0;
  // Requests of other nodes with this node end with a fault, as where MPI notices a broken connection.
  virtual void reset(u32 node) = 0;
};

// RETURNS: a transport for each node.
Result<std::vector<std::unique_ptr<Transport>>> create_local_transports(const LocalNetworkOptions&,
                                                                        const TransportOptions& = {});
Result<std::vector<std::unique_ptr<Transport>>> create_local_transports(std::shared_ptr<LocalNetwork>,
                                                                        u32 nodes,
                                                                        const TransportOptions& = {});

}  // namespace tidepool
