// Runs the fuzzers of tests/fuzz without libFuzzer: their seeds, and each seed corrupted in a hundred seeded
// ways. TIDEPOOL_FUZZ_FACTOR=100 corrupts a hundred times as often.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/types.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::seeds_test {

namespace fs = std::filesystem;

struct Fuzzer {
  const char* name;
  void (*run)(std::string_view);
};
constexpr Fuzzer fuzzers[] = {{"adapter", fuzz::adapter},
                              {"config", fuzz::config},
                              {"generation_config", fuzz::generation_config},
                              {"hf_config", fuzz::hf_config},
                              {"index", fuzz::index},
                              {"machine", fuzz::machine},
                              {"manifest", fuzz::manifest},
                              {"npy", fuzz::npy},
                              {"packed", fuzz::packed},
                              {"quantization", fuzz::quantization},
                              {"records", fuzz::records},
                              {"run_files", fuzz::run_files},
                              {"safetensors", fuzz::safetensors},
                              {"template", fuzz::template_},
                              {"token_cache", fuzz::token_cache},
                              {"tokenizer", fuzz::tokenizer},
                              {"tokenizer_config", fuzz::tokenizer_config},
                              {"trainer_state", fuzz::trainer_state}};

std::vector<fs::path> seeds_of(const std::string& name) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(source_file("tests/fuzz/seeds/") + name))
    out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

class Spoiler {
 public:
  explicit Spoiler(u64 seed) : random_(seed) {}
  std::string operator()(std::string text) {
    for (u64 times = 1 + below(3); times > 0; --times) spoil(text);
    return text;
  }

 private:
  u64 below(u64 end) { return end == 0 ? 0 : random_() % end; }
  void spoil(std::string& text) {
    static constexpr const char* words[] = {
        "null", "[]", "{}", "-1", "1e400", "\"", "\xff", "0", "9999999999999999999", "\\ud800", ":", "\n"};
    const u64 at = below(text.size()), length = std::min<u64>(1 + below(8), text.size() - at);
    switch (below(6)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, words[below(std::size(words))]);
        break;
      case 4:
        text.replace(at, length, words[below(std::size(words))]);
        break;
      case 5:
        text.resize(at);
        break;
    }
  }
  std::mt19937_64 random_;
};

class FuzzSeeds : public ::testing::TestWithParam<Fuzzer> {};

TEST_P(FuzzSeeds, AreRefusedOrTakenWithoutACrash) {
  const char* factor = std::getenv("TIDEPOOL_FUZZ_FACTOR");
  const u64 times = 100 * (factor != nullptr ? std::strtoull(factor, nullptr, 10) : 1);
  const std::vector<fs::path> seeds = seeds_of(GetParam().name);
  ASSERT_FALSE(seeds.empty());
  for (const fs::path& path : seeds) {
    SCOPED_TRACE(path.string());
    const std::string seed = test::file_text(path);
    GetParam().run(seed);
    Spoiler spoil(seed.size());
    for (u64 i = 0; i < times; ++i) GetParam().run(spoil(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzSeeds, ::testing::ValuesIn(fuzzers),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::seeds_test
