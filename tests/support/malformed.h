// Gives one malformed file to the built program, which must end with exit code 4 and name the file, the place
// and the reason.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/child_run.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"

namespace tidepool::test {

struct BadFile {
  const char* name;  // test name, one word
  const char* file;  // file name in the directory
  std::string content;
  std::string place;  // byte, line, key or tensor; with the file's name if another file is named
  std::string reason;
};

inline void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.name; }

inline std::string little_endian(u64 value, u32 bytes) {
  std::string out(bytes, '\0');
  for (u32 i = 0; i < bytes; ++i) out[i] = static_cast<char>(value >> (8 * i));
  return out;
}

inline std::string ids(u32 first, u32 count) {
  std::string out;
  for (u32 i = 0; i < count; ++i) out += little_endian(first + i, 2);
  return out;
}

// A directory with a model directory `model` of vocabulary 53 and tokens for it. Gives the words to train
// that model, or a model of bytes, on a file.
class BadPlace {
 public:
  BadPlace() {
    std::filesystem::create_directory(dir_ / "model");
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(test::family_directory("llama_tied") + "/" + file, dir_ / "model/" + file);
    std::filesystem::copy_file(test::family_directory("held_out_a.bin"), dir_ / "good.bin");
  }
  std::string operator/(const std::string& name) const { return dir_ / name; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(dir_ / name, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }

  std::vector<std::string> train_model() const {
    write("c.yaml", fmt::format("model: {}\ndata: {{train: {}}}\n", dir_ / "model", dir_ / "good.bin"));
    return words("train");
  }
  std::vector<std::string> train_on(const std::string& file, const std::string& more = "") const {
    write("c.yaml",
          fmt::format("model: {{model_type: llama, vocab_size: 300, hidden_size: 16, intermediate_size: 16, "
                      "num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 16}}\n"
                      "data: {{train: {}, cache: {}{}}}\n",
                      dir_ / file, dir_ / "cache", more));
    return words("train");
  }

  // Runs the program and checks how it ends.
  void expect_refusal(const BadFile& bad, const std::vector<std::string>& words) const {
    Child child(words, dir_ / "log");
    EXPECT_EQ(child.wait(), 4) << child.output();
    const std::string output = child.output();
    const size_t at = output.rfind("tidepool: ");  // may follow the printed plan
    ASSERT_NE(at, std::string::npos) << output;
    const std::string message = output.substr(at);
    EXPECT_THAT(message, ::testing::HasSubstr(bad.file));
    EXPECT_THAT(message, ::testing::HasSubstr(bad.place));
    EXPECT_THAT(message, ::testing::HasSubstr(bad.reason));
    EXPECT_FALSE(std::filesystem::exists(dir_ / "run/swap"));
  }

 private:
  std::vector<std::string> words(const std::string& command) const {
    return {command,
            dir_ / "c.yaml",
            "memory.device=4MiB",
            "memory.host=4MiB",
            "max_steps=1",
            "sequence_length=8",
            "precision=fp32",
            "machine.threads=1",
            "output.dir=" + (dir_ / "run")};
  }
  test::ScratchDir dir_;
};

}  // namespace tidepool::test
