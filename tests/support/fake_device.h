// FakeDevice is a device in virtual time: work takes time by its rates and computes nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "executor/device.h"
#include "probe/device_timer.h"

namespace tidepool::test {

struct FakeRates {
  double fp32 = 50e9, bf16 = 800e9;  // FLOP/s of products; all other kernels take no time
  double memory = 4e9;               // bytes/s of gradients and Adam
  double h2d = 50e9, d2h = 40e9, both = 80e9;
  double kernel = 0, copy = 0;  // extra seconds per kernel and per copy
  double wait = 20e-6;          // delay until a wait notices the end
};

class FakeDevice final : public MeasuredDevice {
 public:
  FakeDevice(const FakeRates& rates, const DeviceFacts& facts, Bytes memory, Bytes host_memory)
      : rates_(rates), facts_(facts), memory_(memory.value), host_(host_memory.value), kernels_(*this) {}

  // RETURNS: a clock that only the device's work advances.
  Clock clock() {
    return [this] { return now_; };
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::span<std::byte> memory() override { return memory_; }
  std::span<std::byte> host_memory() override { return host_; }
  Kernels& kernels() override { return kernels_; }
  void finish_gradient(const float*, std::byte*, Precision, u64 elements) override {
    kernel(6.0 * static_cast<double>(elements) / rates_.memory);
  }
  void update(const UpdateChunk& chunk, const StateSlots&, Optim, const UpdateScalars*) override {
    kernel(26.0 * static_cast<double>(chunk.elements) / rates_.memory);
  }
  void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) override {
    EXPECT_TRUE(within(to, memory_) && within(from, host_) && to.size() == from.size());
    up_ += static_cast<double>(to.size()), up_copies_ += 1;
  }
  void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) override {
    EXPECT_TRUE(within(to, host_) && within(from, memory_) && to.size() == from.size());
    down_ += static_cast<double>(to.size()), down_copies_ += 1;
  }
  Result<void> wait() override {
    const double up = up_ / rates_.h2d + up_copies_ * rates_.copy;
    const double down = down_ / rates_.d2h + down_copies_ * rates_.copy;
    now_ += rates_.wait + std::max({compute_, up, down, (up_ + down_) / rates_.both});
    compute_ = up_ = down_ = up_copies_ = down_copies_ = 0;
    if (failure.message.empty()) return {};
    return failure;
  }

  Error failure;  // returned by every wait

 private:
  static bool within(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
  }
  void kernel(double seconds) { compute_ += seconds + rates_.kernel; }
  void product(double m, double n, double k, Precision precision) {
    kernel(2 * m * n * k / (precision == Precision::fp32 ? rates_.fp32 : rates_.bf16));
  }

  class FakeKernels final : public Kernels {
   public:
    explicit FakeKernels(FakeDevice& device) : device_(device) {}
    void zero(float*, u64) override {}  // a fill does not count as a kernel
    void matmul(const Matmul& p) override { device_.product(p.m, p.n, p.k, p.x.precision); }
    void weight_gradient(const WeightGradient& p) override { device_.product(p.m, p.n, p.k, p.x.precision); }
    void layer_norm(const LayerNorm&) override { device_.kernel(0); }
    void layer_norm_backward(const LayerNormBackward&) override { device_.kernel(0); }
    void rms_norm(const RmsNorm&) override { device_.kernel(0); }
    void rms_norm_backward(const RmsNormBackward&) override { device_.kernel(0); }
    void rotary(const Rotary&) override { device_.kernel(0); }
    void rotary_backward(const RotaryBackward&) override { device_.kernel(0); }
    void sigmoid_gate(const SigmoidGate&) override { device_.kernel(0); }
    void sigmoid_gate_backward(const SigmoidGateBackward&) override { device_.kernel(0); }
    void glu(const Glu&) override { device_.kernel(0); }
    void glu_backward(const GluBackward&) override { device_.kernel(0); }
    void attention(const Attention&) override { device_.kernel(0); }
    void attention_backward(const AttentionBackward&) override { device_.kernel(0); }
    void router(const Router&) override { device_.kernel(0); }
    void router_backward(const RouterBackward&) override { device_.kernel(0); }
    void router_totals(const RouterTotals&) override { device_.kernel(0); }
    void sort_by_expert(const SortByExpert&) override { device_.kernel(0); }
    void gather_rows(const GatherRows&) override { device_.kernel(0); }
    void grouped_matmul(const GroupedMatmul&) override { device_.kernel(0); }
    void grouped_weight_gradient(const GroupedWeightGradient&) override { device_.kernel(0); }
    void combine_experts(const CombineExperts&) override { device_.kernel(0); }
    void route_bias_gradient(const RouteBiasGradient&) override { device_.kernel(0); }
    void latent_rows(const LatentRows&) override { device_.kernel(0); }
    void latent_rows_backward(const LatentRowsBackward&) override { device_.kernel(0); }
    void copy_columns(const CopyColumns&) override { device_.kernel(0); }
    void delta_convolution(const DeltaConvolution&) override { device_.kernel(0); }
    void delta_convolution_backward(const DeltaConvolutionBackward&) override { device_.kernel(0); }
    void gated_delta(const GatedDelta&) override { device_.kernel(0); }
    void gated_delta_backward(const GatedDeltaBackward&) override { device_.kernel(0); }
    void gated_norm(const GatedNorm&) override { device_.kernel(0); }
    void gated_norm_backward(const GatedNormBackward&) override { device_.kernel(0); }
    void group_norm(const GroupNorm&) override { device_.kernel(0); }
    void group_norm_backward(const GroupNormBackward&) override { device_.kernel(0); }
    void unpack(const Unpack&) override { device_.kernel(0); }
    void normalize_matrix(const NormalizeMatrix&) override { device_.kernel(0); }
    void add_product(const AddProduct&) override { device_.kernel(0); }
    void scale_matrix(const ScaleMatrix&) override { device_.kernel(0); }
    void embedding(const Embedding&) override { device_.kernel(0); }
    void embedding_backward(const EmbeddingBackward&) override { device_.kernel(0); }
    void dropout(const Dropout&, ConstValues, Values, u64) override { device_.kernel(0); }
    void cross_entropy_slice(const LogitsSlice&) override { device_.kernel(0); }
    void cross_entropy_loss(RowLoss*, const i32*, u32, const LossSums&) override { device_.kernel(0); }
    void cross_entropy_gradient(const LogitsSlice&, const LossFactors&) override { device_.kernel(0); }
    void target_outputs(const RowLoss*, const i32*, u32, TargetOutput, float*) override { device_.kernel(0); }
    void unit_losses(const UnitLosses&) override { device_.kernel(0); }
    void take_teacher_tokens(const LogitsSlice&, const TeacherTokens&) override { device_.kernel(0); }
    void divergence_losses(const DivergenceLosses&) override { device_.kernel(0); }
    void add_teacher_gradients(const LogitsSlice&, const TeacherTokens&, const LossFactors&) override {
      device_.kernel(0);
    }
    void select_top(const LogitsSlice&, TopToken*, u32) override { device_.kernel(0); }
    void top_distributions(const RowLoss*, const i32*, const TopToken*, u32, u32, float*) override {
      device_.kernel(0);
    }
    void soft_cap(const SoftCap&) override { device_.kernel(0); }
    void scale_values(const ScaleValues&) override { device_.kernel(0); }
    Result<void> finish() override { return device_.wait(); }

   private:
    FakeDevice& device_;
  };

  const FakeRates rates_;
  const DeviceFacts facts_;
  std::vector<std::byte> memory_, host_;
  FakeKernels kernels_;
  double now_ = 100;
  double compute_ = 0, up_ = 0, down_ = 0, up_copies_ = 0, down_copies_ = 0;
};

}  // namespace tidepool::test
