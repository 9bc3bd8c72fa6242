// Fuzzes adapter_config.json, followed by adapter_model.safetensors. An accepted adapter can be added to
// weights of its shapes, and to no others.
#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/adapters/lora_merge.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

constexpr std::string_view prefix = "base_model.model.", a_suffix = ".lora_A.weight",
                           b_suffix = ".lora_B.weight";

void add(AdapterMerge& merge, const std::string& weight, u64 rows, u64 columns) {
  CHECK(merge.changes(weight), weight);
  const Result<void> other = merge.apply(weight, std::array{rows, columns + 1}, 0, {});
  CHECK(!other.has_value(), weight, rows, columns);
  check_refusal(other.error());
  std::vector<float> values(std::min<u64>(rows * columns, 4096));
  const Result<void> added =
      merge.apply(weight, std::array{rows, columns}, rows * columns - values.size(), values);
  CHECK(added.has_value(), added.error().message);
}

}  // namespace

void adapter(std::string_view input) {
  const std::string directory = folder("adapter");
  const auto files = parts(input, 2);
  file("adapter/adapter_config.json", files[0]);
  const std::string weights = file("adapter/adapter_model.safetensors", files[1]);
  const std::string base = folder("adapter_base");
  file("adapter_base/config.json", "{}");  // of no known family: the adapter's own flag counts
  const auto merge = AdapterMerge::open(directory, base);
  if (!merge) return check_refusal(merge.error());
  const AdapterConfig config = read_adapter_config(directory, ErrorKind::bad_input).value();
  const auto stored = SafetensorsFile::open(weights, ErrorKind::bad_input).value();
  for (const StoredTensor& a : stored->tensors()) {
    if (!a.name.ends_with(a_suffix)) continue;
    const std::string stem = a.name.substr(0, a.name.size() - a_suffix.size());
    const u64 in = a.shape[1], out = stored->find(stem + std::string(b_suffix))->shape[0];
    add(**merge, stem.substr(prefix.size()) + ".weight", config.fan_in_fan_out ? in : out,
        config.fan_in_fan_out ? out : in);
  }
  CHECK((*merge)->finish().has_value());
}

}  // namespace tidepool::fuzz
