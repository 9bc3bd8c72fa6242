#include "base/check.h"
#include "kernels/attention/attention_launch.h"
#include "kernels/cuda/precisions.h"

namespace tidepool::cuda {

void check_attention(const AttentionShape& s, AttentionUnits units, const AttentionTile& tile,
                     std::initializer_list<ConstValues> arrays) {
  CHECK(!tile.past || s.sequences == 1, s.sequences);
  CHECK(s.head_size >= 1 && attention_width(s) <= attention_head_size_max, s.head_size, s.value_size);
  // delta lies at the place of a head's dq; where there is none, it must be one product.
  CHECK(s.head_size > 1 || s.value_head_size() == 1, s.value_size);
  CHECK(s.key_heads() >= 1 && s.heads % s.key_heads() == 0, s.heads, s.kv_heads);
  check_same_precision(arrays);
  if (units == AttentionUnits::fma) return;
  // Frames and workspaces are aligned to 64 bytes. There is no fallback for other addresses, because bits
  // would depend on addresses.
  for (const ConstValues& array : arrays) {
    CHECK(rows_of_vectors(s.head_size, array) && rows_of_vectors(s.value_head_size(), array), s.head_size,
          s.value_size);
  }
}

}  // namespace tidepool::cuda
