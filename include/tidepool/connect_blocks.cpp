// Connects blocks by streams: which streams there are, and which each block reads and writes in forward and
// backward.
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
  bool has_inputs(u32 b) const {
    return inputs_ != none &&
           (g_.blocks[b].kind == BlockKind::layer || g_.blocks[b].kind == BlockKind::layer_end);
  }
  bool has_branches(u32 b) const { return g_.config.has_branches(g_.blocks[b].layer); }
  bool is_last_layer(u32 b) const { return g_.blocks[b + 1].kind == BlockKind::head; }

  void forward(u32 b, u32 stream, Access access) { g_.blocks[b].forward_streams.push_back({stream, access}); }
  void backward(u32 b, u32 stream, Access access) {
    g_.blocks[b].backward_streams.push_back({stream, access});
  }

  void connect_values(u32 b) {
    switch (g_.blocks[b].kind) {
      case BlockKind::embedding:
        if (b == 0) break;
        inputs_ = add(Kind::layer_inputs, sizes_.layer_inputs, b + 1);
        return forward(b, inputs_, Access::write);
      case BlockKind::layer_inputs:
        forward(b, residual_, Access::read);
        backward(b, residual_, Access::read);
        return forward(b, inputs_, Access::read_write);
      case BlockKind::layer:
      case BlockKind::head:
        forward(b, residual_, Access::read);
        backward(b, residual_, Access::read);
        connect_inputs(b);
        if (g_.blocks[b].kind == BlockKind::layer) connect_keys(b);
        if (g_.blocks[b].kind == BlockKind::head && sums_ != none) backward(b, sums_, Access::read);
        break;
      case BlockKind::attention:
        return connect_attention(b);
      case BlockKind::experts:
        connect_experts(b);
        if (!is_last(b) || has_branches(b)) return;
        break;
      case BlockKind::layer_end:
        connect_end(b);
        break;
    }
    if (b + 1 == g_.blocks.size()) return;
    residual_ = add(Kind::activation, sizes_.residual, b + 1);
    forward(b, residual_, Access::write);
  }

  void connect_inputs(u32 b) {
    if (!has_inputs(b)) return;
    forward(b, inputs_, Access::read);
    backward(b, inputs_, Access::read);
  }

  void connect_keys(u32 b) {
    if (g_.config.softmax.shared_layers == 0) return;
    const u32 layer = g_.blocks[b].layer, global = g_.config.is_global(layer) ? 1 : 0;
    if (g_.config.gives_keys(layer)) {
      keys_[global] = add(Kind::shared_keys, sizes_.shared_keys[global], b + 1);
      forward(b, keys_[global], Access::write);
    }
    if (!g_.config.reads_keys(layer)) return;
    forward(b, keys_[global], Access::read);
    backward(b, keys_[global], Access::read);
  }

  void connect_key_gradients(u32 b) {
    const ModelConfig& c = g_.config;
    if (c.softmax.shared_layers == 0) return;
    const u32 layer = g_.blocks[b].layer, global = c.is_global(layer) ? 1 : 0;
    const bool gives = c.gives_keys(layer);
    if (!gives && !c.reads_keys(layer)) return;
    bool is_last_reader = !gives;
    for (u32 later = layer + 1; later < c.layers; ++later)
      is_last_reader = is_last_reader && c.is_global(later) != c.is_global(layer);
    backward(b, shared(keys_grad_[global], Kind::shared_keys_grad, sizes_.shared_keys[global]),
             gives            ? Access::read
             : is_last_reader ? Access::write
                              : Access::read_write);
  }

  void connect_attention(u32 b) {
    forward(b, residual_, Access::read);
    backward(b, residual_, Access::read);
    // An end that adds inputs needs it again in backward.
    if (has_branches(b) && inputs_ != none)
      post_attention_ = add(Kind::post_attention, sizes_.residual, b + 1);
    forward(b, shared(post_attention_, Kind::post_attention, sizes_.residual), Access::write);
    if (has_branches(b)) {
      branches_ = add(Kind::branches, sizes_.branches, b + 1);
      forward(b, branches_, Access::write);
    }
    normed_ = add(Kind::normed, sizes_.normed, b + 1);
    routes_ = add(Kind::routes, sizes_.routes, b + 1);
    for (const u32 stream : {normed_, routes_}) forward(b, stream, Access::write);
    backward(b, routes_, Access::read);
    connect_keys(b);
    const bool begins = sums_ == none;
    forward(b, shared(sums_, Kind::router_sums, sizes_.router_sums),
            begins ? Access::write : Access::read_write);
    g_.streams[sums_].whole = true;
    backward(b, sums_, Access::read);
  }

  void connect_experts(u32 b) {
    if (is_last(b) && !has_branches(b)) forward(b, post_attention_, Access::read);
    if (is_last(b) && has_branches(b)) forward(b, branches_, Access::read_write);
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

  void connect_end(u32 b) {
    forward(b, post_attention_, Access::read);
    if (has_inputs(b)) backward(b, post_attention_, Access::read);
    forward(b, branches_, Access::read);
    backward(b, branches_, Access::read);
    connect_inputs(b);
  }

  u32 branches_grad() { return shared(branches_grad_, Kind::branches_grad, sizes_.branches); }

  void connect_gradients(u32 b) {
    shared(residual_grad_, Kind::activation_grad, sizes_.residual);
    switch (g_.blocks[b].kind) {
      case BlockKind::head:
        return backward(b, residual_grad_, Access::write);
      case BlockKind::embedding:
        if (b != 0)
          return backward(b, shared(inputs_grad_, Kind::layer_inputs_grad, sizes_.layer_inputs),
                          Access::read);
        return backward(b, residual_grad_, Access::read_write);
      case BlockKind::layer_inputs:
      case BlockKind::layer:
      case BlockKind::layer_end:
        backward(b, residual_grad_, Access::read_write);
        if (g_.blocks[b].kind == BlockKind::layer_end) backward(b, branches_grad(), Access::write);
        if (g_.blocks[b].kind == BlockKind::layer) connect_key_gradients(b);
        if (inputs_ == none) return;
        return backward(b, shared(inputs_grad_, Kind::layer_inputs_grad, sizes_.layer_inputs),
                        is_last_layer(b) ? Access::write : Access::read_write);
      case BlockKind::attention:
      case BlockKind::experts:
        break;
    }
    const bool experts = is_experts(b);
    const Access access = experts && is_last(b) ? Access::write : Access::read_write;
    if (!experts || !has_branches(b))
      backward(b, residual_grad_, experts ? Access::read : Access::read_write);
    if (has_branches(b)) backward(b, branches_grad(), Access::read);
    if (!experts) connect_key_gradients(b);
    backward(b, shared(normed_grad_, Kind::normed_grad, sizes_.sum), access);
    backward(b, shared(routes_grad_, Kind::routes_grad, sizes_.routes_grad), experts ? access : Access::read);
  }

  ModelGraph& g_;
  const StreamSizes sizes_;
  u32 residual_ = none, post_attention_ = none, normed_ = none, routes_ = none, expert_sum_ = none,
      sums_ = none, inputs_ = none, branches_ = none;
  u32 residual_grad_ = none, normed_grad_ = none, routes_grad_ = none, inputs_grad_ = none,
      branches_grad_ = none;
  std::array<u32, 2> keys_ = {none, none}, keys_grad_ = {none, none};  // by ModelConfig::is_global
};

}  // namespace

void connect_blocks(ModelGraph& graph, const StreamSizes& sizes) { Connector(graph, sizes).connect(); }

}  // namespace tidepool
