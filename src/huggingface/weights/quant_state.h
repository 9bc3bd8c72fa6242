// Reads the JSON that bitsandbytes stores beside a matrix of 4 bits, in X.quant_state.bitsandbytes__nf4.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct QuantState {
  u32 block = 0;  // elements per absmax
  std::vector<u64> shape;
  bool nested = false;
  u32 nested_block = 0;     // values of absmax per nested_absmax
  float nested_offset = 0;  // added to each absmax
};

inline constexpr u64 quant_state_bytes_max = 64 * kib;

// `where` names the file and the tensor.
// Error: bad_input, naming `where` and the key.
Result<QuantState> parse_quant_state(std::string_view text, std::string_view where);

}  // namespace tidepool
