// Fuzzes model.safetensors.index.json beside two shards with one tensor each: a, and b.
#include <array>

#include "base/check.h"
#include "huggingface/weights/safetensors.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

void write_shard(const std::string& tensor) {
  std::array<StoredTensor, 1> tensors = {{{.name = tensor, .dtype = Dtype::f32, .shape = {2}}}};
  assign_offsets(tensors);
  file(tensor + ".safetensors", safetensors_header(tensors) + std::string(8, '\0'));
}

}  // namespace

void index(std::string_view input) {
  static const bool written = (write_shard("a"), write_shard("b"), true);
  CHECK(written);
  file("model.safetensors.index.json", input);
  const auto model = SafetensorsModel::open(directory(), ErrorKind::bad_input);
  if (!model) return check_refusal(model.error());
  for (const auto& shard : (*model)->files())
    for (const StoredTensor& t : shard->tensors()) CHECK((*model)->find(t.name), t.name);
}

}  // namespace tidepool::fuzz
