// Fuzzes generation_config.json, followed by config.json; either may be absent. The generation config written
// for a model without one has the same tokens as its config.json.
#include <limits>

#include "base/check.h"
#include "huggingface/directory/hf_config.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

Result<std::vector<u32>> ids_of(std::string_view generation, std::string_view model) {
  const std::string directory = folder("generation");
  file_if_any("generation/generation_config.json", generation);
  file_if_any("generation/config.json", model);
  Result<std::vector<u32>> ids = end_token_ids(directory);
  if (!ids) return check_refusal(ids.error()), ids;
  for (const u32 id : *ids) CHECK(id <= std::numeric_limits<i32>::max(), id);
  return ids;
}

}  // namespace

void generation_config(std::string_view input) {
  const auto files = parts(input, 2);
  (void)ids_of(files[0], files[1]);
  const Result<std::string> made = generation_config_text(files[1], "fuzz.json");
  if (!made) return check_refusal(made.error());
  const Result<std::vector<u32>> ids = ids_of("", files[1]);
  if (ids) CHECK(ids_of(*made, "").value() == *ids, *made);
  const std::string halves = with_dtype(files[1], Precision::bf16, "fuzz.json").value();
  CHECK(with_dtype(halves, Precision::bf16, "fuzz.json").value() == halves, halves);
}

}  // namespace tidepool::fuzz
