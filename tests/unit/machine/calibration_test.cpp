// Derives block_efficiency of configs/machines: published step times, minus the memory-bound kernels of those
// programs. Their kernels are counted here one by one; docs/8xv100.md and docs/1x4090.md give the
// conclusions.
#include <gtest/gtest.h>

#include "kernels/attention/attention_cost.h"
#include "kernels/cross_entropy/cross_entropy_cost.h"
#include "kernels/matmul/matmul_cost.h"
#include "machine/machine_file.h"
#include "machine/roofline.h"
#include "tests/support/places.h"

namespace tidepool::calibration_test {

using Kernels = std::vector<KernelCost>;

Machine known(const std::string& name) {
  return load_machine(source_file("configs/machines/") + name + ".yaml").value();
}

void append(Kernels& out, const Kernels& more) { out.insert(out.end(), more.begin(), more.end()); }

// ---- PatrickStar on V100

// PatrickStar's benchmark trains BertForSequenceClassification of the transformers library: eager fp16
// kernels, scores of T x T in memory, dropout on, every layer checkpointed; no product over the vocabulary.
// It counts 8 N flops per token, with N all parameters, embeddings included.
struct Bert {
  u64 h, layers;
  double measured;  // TFLOPS per GPU, on eight
  static constexpr u64 heads = 16, tokens = 1024, sequences = 8, vocabulary = 30522;
  u64 rows() const { return sequences * tokens; }
  u64 scores() const { return rows() * heads * tokens; }
  double parameters() const {
    const double d = static_cast<double>(h);
    return static_cast<double>(layers) * (12 * d * d + 13 * d) + d * (vocabulary + tokens + 4) + d * d;
  }
};

KernelCost moves(u64 elements, u64 mask_bytes = 0) { return {.elements = elements, .bytes = mask_bytes}; }
KernelCost linear(const Bert& b, u64 n, u64 k) { return matmul_cost(b.rows(), n, k, 2); }
// One batched product over the scores: as many flops as one product with the rows of all heads.
KernelCost over_scores(const Bert& b) {
  return {.m = b.rows() * b.heads,
          .n = b.tokens,
          .k = b.h / b.heads,
          .product_flops = 2 * b.scores() * (b.h / b.heads),
          .elements = b.scores() + 2 * b.rows() * b.h};
}
KernelCost gradient(const Bert& b, u64 n, u64 k) {  // in fp16, not accumulated
  KernelCost c = weight_gradient_cost(b.rows(), n, k);
  c.bytes = 2 * n * k;
  return c;
}

Kernels forward(const Bert& b) {
  const u64 unit = b.rows() * b.h, scores = b.scores();
  const Kernels add_and_norm = {moves(2 * unit, unit), moves(3 * unit), moves(2 * unit)};  // with dropout
  Kernels out = {linear(b, b.h, b.h), linear(b, b.h, b.h), linear(b, b.h, b.h)};
  out.push_back(moves(6 * unit));  // q, k, v by heads
  out.push_back(over_scores(b));
  out.push_back(moves(2 * scores));          // / sqrt(D)
  out.push_back(moves(2 * scores));          // + mask
  out.push_back(moves(2 * scores));          // softmax
  out.push_back(moves(2 * scores, scores));  // dropout
  out.push_back(over_scores(b));
  out.push_back(moves(2 * unit));  // concatenates heads
  out.push_back(linear(b, b.h, b.h));
  append(out, add_and_norm);
  append(out, {linear(b, 4 * b.h, b.h), moves(8 * unit), linear(b, b.h, 4 * b.h)});
  append(out, add_and_norm);
  return out;
}

Kernels backward(const Bert& b) {
  const u64 unit = b.rows() * b.h, scores = b.scores();
  const Kernels add_and_norm = {moves(3 * unit), moves(2 * unit, unit), moves(3 * unit)};
  Kernels out = add_and_norm;
  append(out, {linear(b, 4 * b.h, b.h), gradient(b, b.h, 4 * b.h), moves(unit), moves(12 * unit),
               linear(b, b.h, 4 * b.h), gradient(b, 4 * b.h, b.h), moves(4 * unit)});
  append(out, add_and_norm);
  append(out, {linear(b, b.h, b.h), gradient(b, b.h, b.h), moves(unit), moves(2 * unit)});
  append(out, {over_scores(b), over_scores(b), moves(2 * scores, scores), moves(3 * scores),
               moves(2 * scores), over_scores(b), over_scores(b), moves(6 * unit)});
  for (int i = 0; i < 3; ++i) append(out, {linear(b, b.h, b.h), gradient(b, b.h, b.h), moves(unit)});
  return out;
}

Kernels layer_step(const Bert& b) {
  Kernels out = forward(b);
  append(out, forward(b));  // checkpointed, so recomputed
  append(out, backward(b));
  return out;
}

double tflops(const Bert& b, const Machine& m) {
  const double seconds = static_cast<double>(b.layers) * kernel_seconds(layer_step(b), m, Precision::fp16);
  return 8 * b.parameters() * static_cast<double>(b.rows()) / seconds / 1e12;
}

// The only calibrated number: their row of 1B on one GPU, 54.6 TFLOPS.
TEST(Calibration, V100ProductsReachWhatPatrickStarsOneGpuRowSays) {
  for (const char* name : {"1xv100-32g", "8xv100-32g-240g"}) {
    const Machine m = known(name);
    const Bert one{2048, 20, 54.6};
    const double step = 8 * one.parameters() * static_cast<double>(one.rows()) / 54.6e12;
    const double found =
        efficiency_of(layer_step(one), step / static_cast<double>(one.layers), m, Precision::fp16);
    EXPECT_NEAR(m.device.block_efficiency, found, 5e-4) << name;
    EXPECT_NEAR(tflops(one, m), 54.6, 0.1);
  }
}

// Their other rows follow, which one constant for all widths cannot achieve. 15B and 18B are left out: they
// wait for more than kernels.
TEST(Calibration, PatrickStarsOtherRowsFollow) {
  const Machine m = known("8xv100-32g-240g");
  for (const Bert& b : {Bert{2048, 40, 53.1}, Bert{2304, 64, 53.3}, Bert{3072, 53, 60.3},
                        Bert{3072, 72, 58.4}, Bert{4096, 50, 61.8}, Bert{4096, 60, 60.3}}) {
    EXPECT_NEAR(tflops(b, m) / b.measured, 1, 0.045) << b.h << " x " << b.layers;
  }
}

// ---- llmq on the 4090

// Qwen 2.5: RMS norms fused with the residual, rotary embedding, grouped heads, SwiGLU.
struct Qwen {
  u64 h, layers, inner, heads, groups, vocabulary, rows;
  bool recompute;
  static constexpr u64 head = 128, tokens = 1024;
  u64 q() const { return heads * head; }
  u64 kv() const { return 2 * groups * head; }
};

KernelCost attention_of(const Qwen& w, bool backward) {
  const AttentionShape s{.sequences = static_cast<u32>(w.rows / w.tokens),
                         .tokens = w.tokens,
                         .heads = static_cast<u32>(w.heads),
                         .head_size = w.head};
  KernelCost c = backward ? attention_backward_cost(s) : attention_cost(s);
  c.elements = (backward ? 2 : 1) * w.rows * (2 * w.q() + w.kv());
  return c;
}

Kernels qwen_forward(const Qwen& w) {
  const u64 r = w.rows;
  return {moves(4 * r * w.h),
          matmul_cost(r, w.q() + w.kv(), w.h, 2),
          moves(2 * r * (w.q() + w.kv() / 2)),
          attention_of(w, false),
          matmul_cost(r, w.h, w.q(), 2),
          moves(4 * r * w.h),
          matmul_cost(r, 2 * w.inner, w.h, 2),
          moves(3 * r * w.inner),
          matmul_cost(r, w.h, w.inner, 2)};
}

Kernels qwen_backward(const Qwen& w) {
  const u64 r = w.rows, qkv = w.q() + w.kv();
  return {matmul_cost(r, w.inner, w.h, 2),
          weight_gradient_cost(r, w.h, w.inner),
          moves(5 * r * w.inner),
          matmul_cost(r, w.h, 2 * w.inner, 2),
          weight_gradient_cost(r, 2 * w.inner, w.h),
          moves(4 * r * w.h),
          matmul_cost(r, w.q(), w.h, 2),
          weight_gradient_cost(r, w.h, w.q()),
          attention_of(w, true),
          moves(2 * r * (w.q() + w.kv() / 2)),
          moves(r * qkv),
          matmul_cost(r, w.h, qkv, 2),
          weight_gradient_cost(r, qkv, w.h),
          moves(4 * r * w.h)};
}

Kernels micro_batch(const Qwen& w) {
  Kernels out;
  for (u64 layer = 0; layer < w.layers; ++layer) {
    append(out, qwen_forward(w));
    if (w.recompute) append(out, qwen_forward(w));
    append(out, qwen_backward(w));
  }
  const KernelCost logits = matmul_cost(w.rows, w.vocabulary, w.h, 2);
  append(out, {logits, cross_entropy_gradient_cost(w.rows, w.vocabulary),
               matmul_cost(w.rows, w.h, w.vocabulary, 2), weight_gradient_cost(w.rows, w.h, w.vocabulary)});
  return out;
}

// Resident 1.5B in bf16 without recompute: 14,070 tokens a second in its benchmark file. 14B with recomputed
// blocks and its state in host memory: 1,349.
TEST(Calibration, A4090sProductsReachWhatLlmqsResidentModelSays) {
  const Machine m = known("1x4090-24g-128g");
  const Qwen small{1536, 28, 8960, 12, 2, 151936, 4 * 1024, false};
  const double found =
      efficiency_of(micro_batch(small), static_cast<double>(small.rows) / 14070, m, Precision::bf16);
  EXPECT_NEAR(m.device.block_efficiency, found, 5e-4);
  const Qwen large{5120, 48, 13824, 40, 8, 152064, 32 * 1024, true};
  const double speed =
      static_cast<double>(large.rows) / kernel_seconds(micro_batch(large), m, Precision::bf16);
  EXPECT_NEAR(speed / 1349, 1, 0.05);
}

}  // namespace tidepool::calibration_test
