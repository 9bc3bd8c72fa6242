// Muon: Jordan et al. (2024), as torch.optim.Muon has it. Its direction is made nearly orthogonal, matrix by
// matrix (kernels/orthogonalize). It is for the matrices of layers; the rest takes AdamW.
//
// Per element of the direction; rounded as AdamW is:
//   m = fma(momentum, m, grad_to_momentum * grad)
//   u = fma(momentum, m, grad_to_momentum * grad), or m without Nesterov's step
// Per element of the step, in which x is the orthogonalized direction times the factor on the learning rate:
//   param = fms(decay, param, lr * x)
#pragma once

#include "optimizers/optimizer.h"

namespace tidepool {

// The scalars by name: grad_to_momentum is 1 - momentum, `decay` is 1 - lr * weight_decay. `restored` undoes
// the factors of the gradient: an fp16 direction has the range that the gradient had.
struct MuonScalars {
  float momentum, learning_rate, grad_to_momentum, restored;
  bool nesterov;

  explicit constexpr MuonScalars(const UpdateScalars& s)
      : momentum(s.factors[0]),
        learning_rate(s.factors[2]),
        grad_to_momentum(s.of_gradient[0]),
        restored(s.factors[1] / s.of_gradient[0]),
        nesterov(s.factors[3] != 0) {}

  // No format of its slots has codes.
  constexpr float bound(u32, float, float) const { return 0; }
};
inline constexpr float direction_most = 65504;  // of fp16

// True for matrices of layers. Embeddings, heads, vectors and adapters are not.
bool takes_orthogonal(const Tensor&);

UpdateStep muon_step(const OptimizerSettings&, u64 t);
u32 muon_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 muon_direction_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 muon_bf16_direction_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);

inline constexpr std::array<StateSlot, 1> muon_slots = {{
    {.name = "momentum", .file_prefix = "momentum_buffer.", .meaning = "Muon's momentum", .letter = 'M'},
}};
inline constexpr std::array<std::string_view, 4> muon_keys = {"muon_momentum", "muon_nesterov",
                                                              "muon_ns_steps", "muon_adjust_lr_fn"};
inline constexpr Optimizer muon = {.title = "Muon",
                                   .slots = muon_slots,
                                   .keys = muon_keys,
                                   .step = muon_step,
                                   .tile = muon_tile,
                                   .direction = muon_direction_tile,
                                   .unit = UnitKind::tensor,
                                   .place = UpdatePlace::streamed,
                                   .takes = takes_orthogonal,
                                   .base = Optim::muon};

inline constexpr std::array<StateSlot, 1> muon_bf16_slots = {bf16_slot(muon_slots[0])};
inline constexpr Optimizer muon_bf16 = {.title = "Muon with a bf16 momentum",
                                        .slots = muon_bf16_slots,
                                        .keys = muon_keys,
                                        .step = muon_step,
                                        .tile = muon_tile,
                                        .direction = muon_bf16_direction_tile,
                                        .unit = UnitKind::tensor,
                                        .place = UpdatePlace::streamed,
                                        .takes = takes_orthogonal,
                                        .base = Optim::muon};

}  // namespace tidepool
