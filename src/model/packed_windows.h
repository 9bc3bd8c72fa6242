// Packed windows keep the matrices of a frozen model in the bytes they were published in. Before a block's
// code runs, they are unpacked to its workspace, so block code never sees a packed matrix
// (docs/decisions/0043-packed-windows-are-unpacked-before-a-block.md).
#pragma once

#include <array>
#include <span>

#include "model/blocks.h"

namespace tidepool {

// Packs the layers' windows as ModelConfig::quantization says, and freezes them.
// Error: usage, naming the model's key, if a matrix cannot have the format.
Result<void> pack_windows(ModelGraph&);

// RETURNS: bytes of all packed windows of a block after unpacking.
Bytes unpacked_bytes(const ModelGraph&, const Block&);

// RETURNS: true if two windows store their tensors alike.
bool packed_alike(const Window&, const Window&);

inline constexpr u32 block_windows_max = 4;
// Data of a block's windows, as the block's code reads them.
struct UnpackedWindows {
  std::array<const std::byte*, block_windows_max> data{};
  u32 count = 0;
  std::span<const std::byte* const> all() const { return std::span(data).first(count); }
};
// Unpacks the block's packed windows to the beginning of `workspace`, which has Block::unpacked bytes for
// them.
UnpackedWindows unpack_windows(const BlockContext&, std::span<const std::byte* const> windows,
                               std::byte* workspace);

}  // namespace tidepool
