#include "tidepool/connect_blocks.h"

namespace tidepool {
namespace {

class Connector {
 public:
  Connector(ModelGraph& graph, const StreamSizes& sizes) : g_(graph), sizes_(sizes) {}

  void connect() {
    g_.streams.clear();
    for (u32 b = 0; b < g_.blocks.size(); ++b) {
      g_.blocks[b].forward_streams.clear();
      g_.blocks[b].backward_streams.clear();
      connect_values(b);
    }
    for (u32 b = 0; b < g_.blocks.size(); ++b) connect_gradients(b);
  }

 private:
  u32 add(Kind kind, Bytes bytes, u32 block = none) {
    g_.streams.push_back({.kind = kind, .bytes = bytes, .block = block});
    return static_cast<u32>(g_.streams.size()) - 1;
  }
  // Streams that hold one content after the other exist once.
  u32 shared(u32& stream, Kind kind, Bytes bytes) {
    if (stream == none) stream = add(kind, bytes);
    return stream;
  }
  bool is_experts(u32 b) const { return b < g_.blocks.size() && g_.blocks[b].kind == BlockKind::experts; }
  bool is_first(u32 b) const { return !is_experts(b - 1); }
  bool is_last(u32 b) const { return !is_experts(b + 1); }

  void forward(u32 b, u32 stream, Access access) { g_.blocks[b].forward_streams.push_back({stream, access}); }
  void backward(u32 b, u32 stream, Access access) {
    g_.blocks[b].backward_streams.push_back({stream, access});
  }

  void connect_values(u32 b) {
    switch (g_.blocks[b].kind) {
      case BlockKind::embedding:
        break;
      case BlockKind::layer:
      case BlockKind::head:
        forward(b, residual_, Access::read);
        backward(b, residual_, Access::read);
        if (g_.blocks[b].kind == BlockKind::head && sums_ != none) backward(b, sums_, Access::read);
        break;
      case BlockKind::attention:
        return connect_attention(b);
      case BlockKind::experts:
        connect_experts(b);
        if (!is_last(b)) return;
        break;
    }
    if (b + 1 == g_.blocks.size()) return;
    residual_ = add(Kind::activation, sizes_.residual, b + 1);
    forward(b, residual_, Access::write);
  }

  void connect_attention(u32 b) {
    forward(b, residual_, Access::read);
    backward(b, residual_, Access::read);
    forward(b, shared(post_attention_, Kind::post_attention, sizes_.residual), Access::write);
    normed_ = add(Kind::normed, sizes_.normed, b + 1);
    routes_ = add(Kind::routes, sizes_.routes, b + 1);
    for (const u32 stream : {normed_, routes_}) forward(b, stream, Access::write);
    backward(b, routes_, Access::read);
    const bool begins = sums_ == none;
    forward(b, shared(sums_, Kind::router_sums, sizes_.router_sums),
            begins ? Access::write : Access::read_write);
    backward(b, sums_, Access::read);
  }

  void connect_experts(u32 b) {
    if (is_last(b)) forward(b, post_attention_, Access::read);
    for (const u32 stream : {normed_, routes_}) {
      forward(b, stream, Access::read);
      backward(b, stream, Access::read);
    }
    if (is_first(b) && is_last(b)) return;
    forward(b, shared(expert_sum_, Kind::expert_sum, sizes_.sum),
            is_first(b)  ? Access::write
            : is_last(b) ? Access::read
                         : Access::read_write);
  }

  void connect_gradients(u32 b) {
    shared(residual_grad_, Kind::activation_grad, sizes_.residual);
    switch (g_.blocks[b].kind) {
      case BlockKind::head:
        return backward(b, residual_grad_, Access::write);
      case BlockKind::embedding:
      case BlockKind::layer:
        return backward(b, residual_grad_, Access::read_write);
      case BlockKind::attention:
      case BlockKind::experts:
        break;
    }
    const bool experts = is_experts(b);
    const Access access = experts && is_last(b) ? Access::write : Access::read_write;
    backward(b, residual_grad_, experts ? Access::read : Access::read_write);
    backward(b, shared(normed_grad_, Kind::normed_grad, sizes_.sum), access);
    backward(b, shared(routes_grad_, Kind::routes_grad, sizes_.routes_grad), experts ? access : Access::read);
  }

  ModelGraph& g_;
  const StreamSizes sizes_;
  u32 residual_ = none, post_attention_ = none, normed_ = none, routes_ = none, expert_sum_ = none,
      sums_ = none;
  u32 residual_grad_ = none, normed_grad_ = none, routes_grad_ = none;
};

}  // namespace

void connect_blocks(ModelGraph& graph, const StreamSizes& sizes) { Connector(graph, sizes).connect(); }

}  // namespace tidepool
