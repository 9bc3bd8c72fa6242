#include "net/wire_transport.h"

#include <fmt/format.h>

#include <thread>

#include "base/check.h"
#include "base/process/start_thread.h"
#include "net/net_loop.h"

namespace tidepool {
namespace {

class WireTransport final : public Transport {
 public:
  explicit WireTransport(const TransportOptions& options) : loop_(std::make_shared<NetLoop>(options)) {}

  Result<void> start(OpenWire open_wire, const ProcessPlace& place) {
    TRY_ASSIGN(thread_, start_thread("tp-net", [loop = loop_, open_wire = std::move(open_wire)] {
                 loop->run(open_wire);
               }));
    if (const Result<void> opened = loop_->wait_until_open(); !opened) return opened.error();
    TRY_ASSIGN(const std::vector<std::string> texts, loop_->exchange(place.text()));
    std::vector<ProcessPlace> places;
    for (u32 i = 0; i < texts.size(); ++i) {
      places.push_back(ProcessPlace::from(texts[i]));
      names_.push_back(fmt::format("node {} (host {})", i, places[i].host));
    }
    loop_->know(names_, places);
    return {};
  }

  ~WireTransport() override {
    if (!thread_.joinable()) return;
    if (loop_->stop())
      thread_.join();
    else
      thread_.detach();
  }

  u32 node() const override { return loop_->node(); }
  u32 nodes() const override { return loop_->nodes(); }
  const std::string& name(u32 node) const override { return names_.at(node); }
  void deliver_to(NetSink sink) override { loop_->deliver_to(std::move(sink)); }
  void send(u32 peer, u64 message, std::span<const std::byte> bytes, u64 tag) override {
    // The flow only reads the memory of a send.
    submit({.sends = true,
            .peer = peer,
            .message = message,
            .memory = const_cast<std::byte*>(bytes.data()),
            .bytes = bytes.size(),
            .tag = tag});
  }
  void receive(u32 peer, u64 message, std::span<std::byte> bytes, u64 tag) override {
    submit({.peer = peer, .message = message, .memory = bytes.data(), .bytes = bytes.size(), .tag = tag});
  }
  Result<std::vector<std::string>> exchange(std::string_view mine) override { return loop_->exchange(mine); }
  void fail(const Error& error) override { loop_->fail(error); }
  Result<void> health() const override { return loop_->health(); }
  std::string describe() const override {
    return fmt::format("{} node{} through {}", nodes(), nodes() == 1 ? "" : "s", loop_->library());
  }

 private:
  void submit(const NetRequest& request) {
    CHECK(request.message < message_max, request.message);
    loop_->submit(request);
  }

  std::shared_ptr<NetLoop> loop_;
  std::vector<std::string> names_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Transport>> create_wire_transport(OpenWire open_wire, const ProcessPlace& place,
                                                         const TransportOptions& options) {
  CHECK(options.piece.value > 0 && options.piece.value <= piece_bytes_max, options.piece.value);
  CHECK(options.pieces_in_flight > 0 && options.max_requests > 0 && options.timeout_seconds > 0);
  auto transport = std::make_unique<WireTransport>(options);
  TRY(transport->start(std::move(open_wire), place));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace tidepool
