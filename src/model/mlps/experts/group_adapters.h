// GroupAdapters adds the low-rank products of LoRA to the linear layers of a group of experts, and computes
// their gradients. An expert's adapters see the rows that chose the expert.
#pragma once

#include <span>

#include "model/blocks.h"
#include "model/mlps/experts/expert_layouts.h"

namespace tidepool {

// The experts' products that adapters are added to.
enum class ExpertProduct : u8 { gate_up, down };

class GroupAdapters {
 public:
  // `windows`: the windows of the group's block.
  GroupAdapters(const BlockContext&, const SortedRows&, std::span<const std::byte* const> windows,
                const GroupAdapterScratch&);

  // y += scale (x A^T) B^T, for each adapter of the product in its columns of y [M, columns].
  void add_to(ExpertProduct, ConstValues x, Values y, u32 columns) const;
  // dx += scale (dy B) A. Leaves scale dy B in the scratch.
  // REQUIRES: the product has at most one adapter.
  void input_gradient(ExpertProduct, ConstValues dy, Values dx, u32 columns) const;
  // dB = dy^T (scale x A^T), dA = (scale dy B)^T x
  // REQUIRES: the last call was input_gradient() of the same product and dy.
  void weight_gradients(ExpertProduct, ConstValues x, ConstValues dy, u32 columns,
                        const AdapterGradients&) const;
  // Both, for any number of adapters.
  void gradients(ExpertProduct, ConstValues x, ConstValues dy, Values dx, u32 columns,
                 const AdapterGradients&) const;

 private:
  template <class Fn>
  void for_adapters(ExpertProduct, Fn) const;
  Param param(u32 tensor) const;
  GroupedMatmul product(const ExpertAdapter&) const;
  void make_low(u32 number, ConstValues x) const;
  void make_low_grad(u32 number, ConstValues dy, u32 columns) const;
  void add_low_grad(u32 number, Values dx) const;
  void adapter_gradients(u32 number, ConstValues x, ConstValues dy, u32 columns,
                         const AdapterGradients&) const;

  const BlockContext& c_;
  const ExpertRange range_;
  const SortedRows& sorted_;
  const GroupAdapterScratch scratch_;
  const ExpertAdapters* adapters_ = nullptr;  // null: none
  const Window* window_ = nullptr;
  const std::byte* data_ = nullptr;
  u64 stride_ = 0;  // elements from expert to expert
};

}  // namespace tidepool
