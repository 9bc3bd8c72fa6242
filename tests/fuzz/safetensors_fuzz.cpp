// Fuzzes whole safetensors files.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "huggingface/weights/safetensors.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {

void safetensors(std::string_view input) {
  const std::string path = file("fuzz.safetensors", input);
  const auto opened = SafetensorsFile::open(path, ErrorKind::bad_input);
  if (!opened) return check_refusal(opened.error());
  for (const StoredTensor& t : (*opened)->tensors()) {
    CHECK((*opened)->offset_of(t) + t.bytes() <= input.size(), t.name);
    CHECK((*opened)->find(t.name) != nullptr, t.name);
    std::vector<std::byte> out(std::min<u64>(t.bytes(), 4096));
    CHECK((*opened)->read(t, t.bytes() - out.size(), out).has_value(), t.name);
  }
}

}  // namespace tidepool::fuzz
