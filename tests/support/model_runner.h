// Runs a whole model block by block with everything resident: the executor's work without plans. On the CPU,
// or on a device whose memory the host can access.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <new>

#include "model/blocks.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

// Aligned like a frame, and full of NaN, so that reads of unwritten memory are noticed.
class FrameBuffer {
 public:
  explicit FrameBuffer(u64 bytes) : data_(round_up(std::max<u64>(bytes, 64), 64) + 64) {
    std::memset(data_.data(), 0xff, data_.size());
  }
  std::byte* get() { return data_.data() + (64 - reinterpret_cast<std::uintptr_t>(data_.data()) % 64) % 64; }
  float* floats() { return reinterpret_cast<float*>(get()); }

 private:
  std::vector<std::byte> data_;
};

struct RunOptions {
  bool keep = true;
  bool training = true;
  u64 seed = 7;
  u64 step = 1;
  const i32* starts = nullptr;  // for a packed batch
  const KeyHole* holes = nullptr;
  const i32* sequences = nullptr;
  const float *values = nullptr, *references = nullptr, *old_logps = nullptr, *distributions = nullptr;
};

// Frame: memory of the kernels' device, with the interface of FrameBuffer.
template <class Frame>
class BasicModelRunner {
 public:
  using Weights = std::vector<std::vector<float>>;  // by window, padded

  BasicModelRunner(ModelGraph graph, CorePool& pool)
      : BasicModelRunner(std::move(graph), create_cpu_kernels(pool)) {}
  BasicModelRunner(ModelGraph graph, std::unique_ptr<Kernels> kernels)
      : graph_(std::move(graph)),
        kernels_(std::move(kernels)),
        scratch_(workspace_bytes()),
        past_(largest_past(graph_).value),
        loss_sum_(sizeof(Sums)),
        router_losses_(sizeof(RouterLosses)),
        expert_tokens_(experts() * sizeof(i64)) {
    router_losses() = {};
    std::fill_n(expert_tokens_at(), experts(), 0);
    for (const Window& w : graph_.windows) {
      weights.emplace_back(w.elements, 0.0f);
      params_.emplace_back(values_bytes(w.elements, graph_.precision));
    }
    for (const Stream& stream : graph_.streams) streams_.emplace_back(stream.bytes.value);
    for (const Block& b : graph_.blocks) {
      kept_.emplace_back(b.kept.value);
      auto& uses = accumulators_.emplace_back();
      for (u32 w : b.windows)
        uses.emplace_back(graph_.windows[w].trainable ? graph_.windows[w].elements * sizeof(float) : 0);
    }
  }

  const ModelGraph& graph() const { return graph_; }
  Weights weights;
  // Sums over all micro-batches so far; models with experts only.
  RouterLosses& router_losses() { return *reinterpret_cast<RouterLosses*>(router_losses_.get()); }
  std::vector<i64> expert_tokens() {  // [layers, E]
    return {expert_tokens_at(), expert_tokens_at() + experts()};
  }

  // Initialises from a seed, as the graph's Init says.
  void init(u32 seed, float scale = 1.0f) {
    for (u32 w = 0; w < graph_.windows.size(); ++w) {
      for (const Tensor& t : graph_.windows[w].tensors) {
        auto values =
            random_floats(t.elements, seed++, t.init == Init::normal ? scale * float(t.init_std) : 0.1f);
        if (t.init == Init::ones)
          for (float& x : values) x += 1.0f;
        std::copy(values.begin(), values.end(), weights[w].begin() + i64(t.window_offset));
      }
    }
    upload();
  }

  // Copies `weights` into the windows.
  void upload() {
    for (u32 w = 0; w < weights.size(); ++w) {
      if (graph_.precision == Precision::fp32) {
        std::memcpy(params_[w].get(), weights[w].data(), weights[w].size() * sizeof(float));
      } else {
        const HalfCopy copy(weights[w], graph_.precision);
        std::memcpy(params_[w].get(), copy.bits.data(), copy.bits.size() * sizeof(u16));
      }
    }
  }

  // RETURNS: sum of losses over the targets.
  double loss(const i32* tokens, const i32* targets, RunOptions options = {}) {
    options.keep = false;
    forward(tokens, targets, options, 0);
    Sums& sums = no_sums();
    head(tokens, targets, options, &sums, nullptr, 0);
    EXPECT_TRUE(kernels_->finish());
    return sums[Sum::loss];
  }

  std::vector<float> logits(const i32* tokens, u32 row) {
    const RunOptions options = {.keep = false, .training = false};
    forward(tokens, nullptr, options, 0);
    std::vector<float> out(graph_.config.head_rows());
    head(tokens, nullptr, options, nullptr, out.data(), row);
    return out;
  }

  // Runs one micro-batch. Accumulates unless the micro-batch is the first.
  double forward_backward(const i32* tokens, const i32* targets, double inverse_targets,
                          RunOptions options = {}, u32 micro_batch = 0) {
    forward(tokens, targets, options, micro_batch);
    Sums& sums = no_sums();
    for (u32 b = u32(graph_.blocks.size()); b-- > last_backward_block(graph_);) {
      const auto windows = windows_of(b);
      std::vector<float*> accumulators;
      for (u32 i = 0; i < graph_.blocks[b].windows.size(); ++i)
        accumulators.push_back(trained(b, i) ? accumulators_[b][i].floats() : nullptr);
      const Streams streams = streams_of(graph_.blocks[b].backward_streams);
      if (graph_.blocks[b].past.value > 0)
        block_recall(context(b, options, micro_batch), {.windows = windows,
                                                        .batch = batch_of(tokens, targets, options),
                                                        .input = streams.input,
                                                        .shared_keys = streams.shared_keys,
                                                        .kept = kept_or_null(b, options),
                                                        .past = past_.get(),
                                                        .workspace = scratch_.get()});
      block_backward(context(b, options, micro_batch),
                     {.windows = windows,
                      .batch = batch_of(tokens, targets, options),
                      .input = streams.input,
                      .layer_inputs = streams.layer_inputs,
                      .shared_keys = streams.shared_keys,
                      .experts = streams.experts,
                      .kept = kept_or_null(b, options),
                      .grad = streams.grad,
                      .layer_inputs_grad = streams.layer_inputs_grad,
                      .shared_keys_grad = streams.shared_keys_grad,
                      .grad_accum = accumulators,
                      .accumulate = micro_batch > 0,
                      .past = past_.get(),
                      .workspace = scratch_.get(),
                      .objective = {.sums = &sums,
                                    .inverse_targets = inverse_targets,
                                    .router_losses = experts() != 0 ? &router_losses() : nullptr,
                                    .expert_tokens = expert_tokens_at()}});
    }
    EXPECT_TRUE(kernels_->finish());
    return sums[Sum::loss];
  }
  // Those of the last call.
  const Sums& sums() { return *reinterpret_cast<const Sums*>(loss_sum_.get()); }

  // RETURNS: gradients of every use of every window, concatenated, padding included.
  std::vector<float> all_gradients() {
    std::vector<float> out;
    for (u32 b = 0; b < graph_.blocks.size(); ++b) {
      for (u32 i = 0; i < graph_.blocks[b].windows.size(); ++i) {
        if (!trained(b, i)) continue;
        const u64 n = graph_.windows[graph_.blocks[b].windows[i]].elements;
        out.insert(out.end(), accumulators_[b][i].floats(), accumulators_[b][i].floats() + n);
      }
    }
    return out;
  }

  // RETURNS: gradients by tensor name, summed over uses.
  std::map<std::string, std::vector<float>> gradients() {
    std::map<std::string, std::vector<float>> out;
    for (u32 b = 0; b < graph_.blocks.size(); ++b) {
      for (u32 i = 0; i < graph_.blocks[b].windows.size(); ++i) {
        if (!trained(b, i)) continue;
        for (const Tensor& t : graph_.windows[graph_.blocks[b].windows[i]].tensors) {
          auto& sum = out.try_emplace(t.name, t.elements, 0.0f).first->second;
          const float* from = accumulators_[b][i].floats() + t.window_offset;
          for (u64 e = 0; e < t.elements; ++e) sum[e] += from[e];
        }
      }
    }
    return out;
  }

 private:
  u64 experts() const { return u64{graph_.config.layers} * graph_.config.experts.count; }
  i64* expert_tokens_at() { return reinterpret_cast<i64*>(expert_tokens_.get()); }
  bool trained(u32 block, u32 window) const {
    return graph_.windows[graph_.blocks[block].windows[window]].trainable;
  }
  struct Streams {
    Values input, output, grad, layer_inputs, layer_inputs_grad, shared_keys, shared_keys_grad;
    ExpertStreams experts;
  };
  Streams streams_of(const std::vector<StreamUse>& uses) {
    Streams s;
    for (const StreamUse& use : uses) {
      std::byte* const data = streams_[use.stream].get();
      const Values values = {data, graph_.activations};
      switch (graph_.streams[use.stream].kind) {
        case Kind::activation:
          (use.access == Access::read ? s.input : s.output) = values;
          break;
        case Kind::post_attention:
          s.experts.post_attention = values;
          break;
        case Kind::normed:
          s.experts.normed = values;
          break;
        case Kind::routes:
          s.experts.routes = data;
          break;
        case Kind::expert_sum:
          s.experts.sum = reinterpret_cast<float*>(data);
          break;
        case Kind::router_sums:
          s.experts.router_sums = data;
          break;
        case Kind::branches:
          s.experts.branches = values;
          break;
        case Kind::branches_grad:
          s.experts.branches_grad = values;
          break;
        case Kind::shared_keys:
          s.shared_keys = values;
          break;
        case Kind::shared_keys_grad:
          s.shared_keys_grad = values;
          break;
        case Kind::layer_inputs:
          s.layer_inputs = values;
          break;
        case Kind::layer_inputs_grad:
          s.layer_inputs_grad = values;
          break;
        case Kind::normed_grad:
          s.experts.normed_grad = reinterpret_cast<float*>(data);
          break;
        case Kind::routes_grad:
          s.experts.routes_grad = reinterpret_cast<float*>(data);
          break;
        default:
          s.grad = values;
      }
    }
    return s;
  }
  std::byte* kept_or_null(u32 block, const RunOptions& o) {
    return o.keep && graph_.blocks[block].kept.value > 0 ? kept_[block].get() : nullptr;
  }
  Sums& no_sums() { return *reinterpret_cast<Sums*>(loss_sum_.get()) = {}; }
  static BatchView batch_of(const i32* tokens, const i32* targets, const RunOptions& o) {
    return {tokens,      targets,  o.starts,     o.holes,     tokens,
            o.sequences, o.values, o.references, o.old_logps, o.distributions};
  }
  u64 workspace_bytes() const {
    u64 bytes = 0;
    for (const Block& b : graph_.blocks) {
      bytes = std::max({bytes, b.forward_workspace.value, b.backward_workspace.value});
    }
    return bytes;
  }

  BlockContext context(u32 block, const RunOptions& o, u32 micro_batch) {
    return {.kernels = *kernels_,
            .graph = graph_,
            .block = block,
            .seed = o.seed,
            .step = o.step,
            .micro_batch = micro_batch,
            .training = o.training};
  }

  std::vector<const std::byte*> windows_of(u32 block) {
    std::vector<const std::byte*> out;
    for (u32 w : graph_.blocks[block].windows) out.push_back(params_[w].get());
    return out;
  }

  void forward(const i32* tokens, const i32* targets, const RunOptions& options, u32 micro_batch) {
    for (u32 b = 0; b + 1 < graph_.blocks.size(); ++b) {
      const auto windows = windows_of(b);
      const Streams streams = streams_of(graph_.blocks[b].forward_streams);
      block_forward(context(b, options, micro_batch), {.windows = windows,
                                                       .batch = batch_of(tokens, targets, options),
                                                       .input = streams.input,
                                                       .output = streams.output,
                                                       .layer_inputs = streams.layer_inputs,
                                                       .shared_keys = streams.shared_keys,
                                                       .experts = streams.experts,
                                                       .kept = kept_or_null(b, options),
                                                       .past = past_.get(),
                                                       .workspace = scratch_.get()});
    }
  }

  void head(const i32* tokens, const i32* targets, const RunOptions& options, Sums* sums, float* logits,
            u32 row) {
    const u32 b = u32(graph_.blocks.size()) - 1;
    const auto windows = windows_of(b);
    block_forward(context(b, options, 0), {.windows = windows,
                                           .batch = batch_of(tokens, targets, options),
                                           .input = streams_of(graph_.blocks[b].forward_streams).input,
                                           .workspace = scratch_.get(),
                                           .head = {.sums = sums, .logits = logits, .logits_row = row}});
  }

  ModelGraph graph_;
  std::unique_ptr<Kernels> kernels_;
  Frame scratch_, past_, loss_sum_, router_losses_, expert_tokens_;
  std::deque<Frame> params_, streams_, kept_;   // by window; by stream; by block
  std::deque<std::deque<Frame>> accumulators_;  // by block, use
};
using ModelRunner = BasicModelRunner<FrameBuffer>;

}  // namespace tidepool::test
