// Flips one bit, chosen by a seed, in one file of a run directory, its token cache or its model directory;
// then runs eval, generate, export and a resume, each as a process. Either the file makes no difference, or
// the file is named: damaged content is never used or sealed silently. A sample always runs;
// TIDEPOOL_FLIPS=300 runs all that docs/checkpoint-format.md mentions, TIDEPOOL_FLIP_SEED chooses other bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <regex>

#include "base/text/hash.h"
#include "checkpoint/manifest.h"
#include "tests/support/cases.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::flipped_bits_test {

namespace fs = std::filesystem;
using Tree = std::map<std::string, std::string>;  // path relative to its root -> content

constexpr u64 flips_of_a_sample = 12;

u64 number_from(const char* variable, u64 otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

Tree tree_of(const std::string& directory) {
  Tree out;
  if (!fs::exists(directory)) return out;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && !entry.is_symlink())
      out[fs::relative(entry.path(), directory).string()] = test::file_text(entry.path().string());
  return out;
}

// Outcome of a command: the text that it prints, without times, and the files that it writes.
struct Outcome {
  int code = 0;
  std::string text;  // printed results
  std::string said;  // all printed text
  Tree left;
};

std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("\"(seconds|tokens_per_second)\": [^,\n}]*"), "");
}

// Keeps the files of checkpoints that contain no times.
void keep_sealed(Tree& tree) {
  std::erase_if(tree, [](const auto& file) {
    return file.first.ends_with("trainer_state.json") || file.first.ends_with("manifest.json");
  });
}

enum class Kind : u8 { whole, adapters };

class Place {
 public:
  explicit Place(Kind kind) {
    fs::create_directories(dir_ / "place");
    ModelConfig model = test::small_model(Family::llama);
    model.vocab_size = 258;
    test::write_model_directory(dir_ / "place/model", model, Precision::bf16);
    test::write_byte_tokenizer(dir_ / "place/model");
    test::write_file(dir_ / "place/model/vocab.txt", "a\nb\n");
    std::string lines;
    for (u32 i = 0; i < 40; ++i)
      lines += fmt::format("{{\"text\": \"{}\"}}\n", test::made_up_text(90 + i).substr(0, 80 + i).substr(i));
    lines.erase(std::remove(lines.begin(), lines.end(), '\r'), lines.end());
    std::string clean;
    for (size_t i = 0; i < lines.size(); ++i)  // the generated text contains line ends
      if (lines[i] != '\n' || (i > 0 && lines[i - 1] == '}')) clean += lines[i];
    test::write_file(dir_ / "data.jsonl", clean);
    const std::string adapters = kind == Kind::adapters ? "lora: {r: 4, lora_alpha: 16}\n" : "";
    test::write_file(
        dir_ / "c.yaml",
        fmt::format("model: {}\ndata: {{train: {}, cache: {}, validation_fraction: 0.2}}\n{}"
                    "train: {{precision: fp32, sequence_length: 32, per_device_train_batch_size: 2, "
                    "max_steps: 4, learning_rate: 0.005, eval_batches: 4}}\n"
                    "memory: {{device: 16MiB, host: 16MiB, disk: 64MiB}}\n"
                    "machine: {{threads: 2, executor: cpu}}\noutput: {{dir: {}, save_steps: 2}}\n",
                    dir_ / "place/model", dir_ / "data.jsonl", dir_ / "place/cache", adapters,
                    dir_ / "place/run"));
    EXPECT_EQ(run({"train", dir_ / "c.yaml"}).code, 0) << said_;
    fs::copy(dir_ / "place", dir_ / "good", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  void restore() const {
    fs::remove_all(dir_ / "place");
    fs::remove_all(dir_ / "out");
    fs::copy(dir_ / "good", dir_ / "place", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& [path, content] : tree_of(dir_ / "good"))
      if (!content.empty()) out.push_back(path);
    return out;
  }
  void flip(const std::string& file, u64 bit) const {
    std::string text = test::file_text(dir_ / "place/" + file);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    test::write_file(dir_ / "place/" + file, text);
  }
  // Writes a manifest that matches the file's current content.
  void seal(const std::string& checkpoint, const std::string& file) const {
    const std::string directory = dir_ / ("place/" + checkpoint);
    Manifest manifest = read_manifest(directory).value();
    for (ListedFile& entry : manifest.files)
      if (entry.file == file) entry.xxh3 = hash_of(test::file_text(directory + "/" + file));
    test::write_file(directory + "/manifest.json", to_text(manifest));
  }
  u64 bits(const std::string& file) const { return 8 * fs::file_size(dir_ / "good/" + file); }

  // Runs one after the other: a resumed run repairs some files that the others read.
  std::map<std::string, Outcome> outcomes() {
    std::map<std::string, Outcome> out;
    out["eval"] = run({"eval", dir_ / "place/run", "--json", "machine.threads=2"});
    out["generate"] = run({"generate", dir_ / "place/run", "--max-new-tokens", "6", "--temperature", "0",
                           "--prompt", "the tide", "--threads", "2"});
    out["export"] = run({"export", dir_ / "place/run", dir_ / "out"});
    out["export"].left = tree_of(dir_ / "out");
    out["export"].text.clear();
    Outcome& resume = out["resume"] = run({"train", dir_ / "c.yaml", "--resume", "auto", "max_steps=6"});
    resume.text.clear();
    resume.left = tree_of(dir_ / "place/run/checkpoint-6");
    keep_sealed(resume.left);
    return out;
  }

 private:
  Outcome run(const std::vector<std::string>& words) {
    const std::string command = fmt::format("{} >{} 2>{}", join(words), dir_ / "stdout", dir_ / "stderr");
    const int status = std::system(command.c_str());
    Outcome out;
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    out.text = without_times(test::file_text(dir_ / "stdout"));
    out.said = test::file_text(dir_ / "stdout") + test::file_text(dir_ / "stderr");
    said_ = out.said;
    return out;
  }
  static std::string join(const std::vector<std::string>& words) {
    std::string out = program_file();
    for (const std::string& word : words) out += " '" + word + "'";
    return out;
  }

  test::ScratchDir dir_;
  std::string said_;
};

std::string difference(const Outcome& good, const Outcome& bad) {
  if (bad.code != good.code) return fmt::format("exit {} in the place of {}", bad.code, good.code);
  if (bad.text != good.text) return "other results";
  for (const auto& [file, content] : good.left)
    if (!bad.left.contains(file) || bad.left.at(file) != content) return "another " + file;
  return bad.left.size() == good.left.size() ? "" : "other files";
}

// Weight files are hashed together, so the message names their directory.
bool names_weights(const std::string& file, const std::string& said) {
  return file == "model/model.safetensors" && said.find("/place/model") != std::string::npos &&
         said.find("weights") != std::string::npos;
}

class FlippedBits : public ::testing::TestWithParam<Kind> {};

TEST_P(FlippedBits, AreNamedOrMakeNoDifference) {
  Place place(GetParam());
  const std::map<std::string, Outcome> good = place.outcomes();
  for (const auto& [command, outcome] : good) ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.said;
  ASSERT_FALSE(good.at("export").left.empty());
  ASSERT_FALSE(good.at("resume").left.empty());
  const std::vector<std::string> files = place.files();
  const u64 seed = number_from("TIDEPOOL_FLIP_SEED", 19),
            flips = number_from("TIDEPOOL_FLIPS", test::random_cases(flips_of_a_sample));
  std::mt19937_64 random(seed);
  u64 named = 0, without_effect = 0;
  for (u64 i = 0; i < flips; ++i) {
    const std::string file = files[random() % files.size()];
    const u64 bit = random() % place.bits(file);
    place.restore();
    place.flip(file, bit);
    const std::string name = fs::path(file).filename().string();
    for (const auto& [command, outcome] : place.outcomes()) {
      const std::string what = difference(good.at(command), outcome);
      const bool is_named = outcome.said.find(name) != std::string::npos || names_weights(file, outcome.said);
      (what.empty() ? without_effect : named) += 1;
      EXPECT_LT(outcome.code, 128) << command << " after bit " << bit << " of " << file << "\n"
                                   << outcome.said;
      EXPECT_TRUE(what.empty() || is_named)
          << command << " after bit " << bit << " of " << file << ": " << what
          << ", and nothing names it (flip " << i << " of seed " << seed << ")\n"
          << outcome.said;
      if (command != "resume" || outcome.code != 0) continue;
      // Even with a message, files that a run keeps are never sealed damaged.
      for (const auto& [sealed, content] : good.at(command).left) {
        if (sealed.ends_with(".safetensors")) continue;
        EXPECT_EQ(outcome.left.at(sealed), content) << sealed << " after bit " << bit << " of " << file;
      }
    }
  }
  fmt::print("{} flips: {} commands had another outcome and named the file, {} had the same\n", flips, named,
             without_effect);
}

// The canary: weights damaged under a manifest made to match them pass every check, and the test above must
// notice them.
TEST(FlippedBitsTest, SeesAChangeThatNoMessageNames) {
  Place place(Kind::whole);
  const std::map<std::string, Outcome> good = place.outcomes();
  place.restore();
  const std::string file = "run/checkpoint-4/model.safetensors";
  place.flip(file, place.bits(file) - 2);  // a bit of an exponent
  place.seal("run/checkpoint-4", "model.safetensors");
  const std::map<std::string, Outcome> bad = place.outcomes();
  for (const char* command : {"eval", "export"}) {
    EXPECT_EQ(bad.at(command).code, 0) << bad.at(command).said;
    EXPECT_NE(difference(good.at(command), bad.at(command)), "") << command;
    EXPECT_EQ(bad.at(command).said.find("model.safetensors"), std::string::npos) << bad.at(command).said;
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, FlippedBits, ::testing::Values(Kind::whole, Kind::adapters),
                         [](const auto& info) { return info.param == Kind::whole ? "whole" : "adapters"; });

}  // namespace tidepool::flipped_bits_test
