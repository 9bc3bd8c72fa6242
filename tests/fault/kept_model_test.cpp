// Kept files of a model directory: verified and repaired when the run resumes, never sealed damaged. Links in
// model directories and run directories never lead outside them.
#include "run/weights/kept_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/files/file_list.h"
#include "config_files/load_config.h"
#include "huggingface/directory/carried.h"
#include "huggingface/directory/hf_config.h"
#include "io/directory_lock.h"
#include "tests/support/file_text.h"
#include "tests/support/kept_model_fixture.h"

namespace tidepool::kept_model_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KeptModel : public test::KeptModelTest {
 protected:
  void stop_after_two() {
    const auto stopped = test::run(config_, {.stop_after = 2});
    ASSERT_FALSE(stopped);
    ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  }
  static void flip(const std::string& path, u64 at) {
    std::string text = test::file_text(path);
    text[at] = static_cast<char>(text[at] ^ 4);
    test::write_file(path, text);
  }
  std::vector<std::string> mended() {
    const auto lines = mend_kept_model(config_);
    EXPECT_TRUE(lines) << lines.error().message;
    return lines ? *lines : std::vector<std::string>();
  }
};

// Repair of kept files.
TEST_F(KeptModel, IsRepairedFromTheNewestGoodCheckpointWithANote) {
  stop_after_two();
  EXPECT_TRUE(mended().empty());
  const std::string moved = dir_ / "gone";
  fs::rename(model_, moved);  // only the checkpoint is left to repair from
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    const std::string good = test::file_text(kept_ + "/" + name);
    for (const u64 at : {u64{0}, good.size() / 2, good.size() - 1}) {
      flip(kept_ + "/" + name, at);
      EXPECT_THAT(mended(), ElementsAre(AllOf(HasSubstr(kept_ + "/" + name + ": XXH3 is"),
                                              HasSubstr("restored from " + run_ + "/checkpoint-2"))));
      EXPECT_EQ(test::file_text(kept_ + "/" + name), good);
    }
    fs::remove(kept_ + "/" + name);
    EXPECT_EQ(mended().size(), 1u);
    EXPECT_EQ(test::file_text(kept_ + "/" + name), good);
  }
  // A checkpoint holds config.json in another form, with the same meaning.
  flip(kept_ + "/config.json", 30);
  EXPECT_THAT(mended(), ElementsAre(HasSubstr("restored from " + run_ + "/checkpoint-2")));
  EXPECT_TRUE(mended().empty());
  fs::rename(moved, model_);
  const auto resumed = test::run(config_, {.resume = "auto"});
  ASSERT_TRUE(resumed) << resumed.error().message;
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_EQ(test::file_text(run_ + "/checkpoint-4/" + name),
              test::file_text(run_ + "/checkpoint-2/" + name))
        << name;
}

TEST_F(KeptModel, OfAnOlderVersionIsComparedWithTheNewestCheckpoint) {
  stop_after_two();
  const std::string list = kept_ + "/checksums.json", good = test::file_text(list);
  fs::remove(list);
  EXPECT_TRUE(mended().empty());
  EXPECT_TRUE(read_kept_list(kept_).value());
  fs::remove(list);
  flip(kept_ + "/tokenizer.json", 50);
  // Flips a bit in the part that checkpoints take over: the run's own keys override the rest.
  flip(kept_ + "/config.json", test::file_text(kept_ + "/config.json").find("bos_token_id") + 2);
  EXPECT_EQ(mended().size(), 2u);
  EXPECT_EQ(test::file_text(kept_ + "/tokenizer.json"), test::file_text(model_ + "/tokenizer.json"));
  flip(list, 40);
  EXPECT_THAT(mended(), ElementsAre(HasSubstr("does not match its own checksum")));
  EXPECT_TRUE(mended().empty());
}

TEST_F(KeptModel, WithoutAWholeCopyIsAnErrorWithAdvice) {
  stop_after_two();
  flip(kept_ + "/tokenizer.json", 50);
  flip(run_ + "/checkpoint-2/tokenizer.json", 60);
  EXPECT_THAT(mended(), ElementsAre(HasSubstr("restored from " + model_)));
  flip(kept_ + "/tokenizer.json", 50);
  flip(model_ + "/tokenizer.json", 70);
  const auto lost = mend_kept_model(config_);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::corrupt_checkpoint);
  EXPECT_THAT(lost.error().message, AllOf(HasSubstr(kept_ + "/tokenizer.json: XXH3 is"),
                                          HasSubstr("put a good copy there, or move " + kept_ + " away")));
}

// A run may last for weeks, and reads the files at each save.
TEST_F(KeptModel, IsNotSealedIfItIsDamagedDuringTraining) {
  stop_after_two();
  const ModelGraph graph = test::tiny_graph(Precision::fp32);
  test::MemoryState state(graph);
  auto store = CheckpointStore::create(
                   {.run_dir = dir_ / "other", .carried = files_for_checkpoints(config_).value()}, graph)
                   .value();
  flip(kept_ + "/tokenizer.json", 50);
  const auto refused = store->save(test::some_state(1), state);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::corrupt_checkpoint);
  EXPECT_THAT(refused.error().message, HasSubstr(kept_ + "/tokenizer.json: XXH3 is"));
  EXPECT_EQ(mended().size(), 1u);
  EXPECT_TRUE(store->save(test::some_state(1), state));
}

// Links.
TEST_F(KeptModel, ALinkThatLeadsOutOfTheModelDirectoryIsRefused) {
  test::write_file(dir_ / "secret", "password");
  fs::create_symlink(dir_ / "secret", model_ + "/vocab.txt");
  const auto refused = test::run(config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr(model_ + "/vocab.txt: is a link to "), HasSubstr("/secret, outside"),
                    HasSubstr("replace the link by a copy of the file")));
  EXPECT_FALSE(fs::exists(kept_ + "/vocab.txt"));
  fs::remove(model_ + "/vocab.txt");
  fs::create_directory(dir_ / "templates");
  test::write_file(dir_ / "templates/x.jinja", "secret");
  fs::create_directory_symlink(dir_ / "templates", model_ + "/additional_chat_templates");
  EXPECT_THAT(test::run(config_).error().message, HasSubstr("additional_chat_templates/x.jinja: is a link"));
}

// Regression: such files were sealed into checkpoints, which were then unusable.
TEST_F(KeptModel, APointerOrDamageInThePlaceOfASmallFileIsRefusedBeforeTheFirstStep) {
  const std::string path = model_ + "/generation_config.json";
  for (const auto& [text, says] :
       {std::pair{"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 116\n",
                  "is a Git LFS pointer"},
        std::pair{"{\"eos_token_id\": ", "generation_config.json: not valid JSON"}}) {
    test::write_file(path, text);
    const auto refused = test::run(config_);
    ASSERT_FALSE(refused) << says;
    EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(refused.error().message, HasSubstr(says));
    EXPECT_EQ(newest_checkpoint(run_), "");
  }
}

TEST_F(KeptModel, LinksOfHuggingFacesCacheAreFollowedIntoItsRepository) {
  const std::string repository = dir_ / "hub/models--a--b", snapshot = repository + "/snapshots/0123";
  fs::create_directories(snapshot);
  fs::create_directories(repository + "/blobs");
  for (const auto& entry : fs::directory_iterator(model_)) {
    const std::string name = entry.path().filename();
    fs::rename(entry.path(), repository + "/blobs/" + name);
    fs::create_symlink("../../blobs/" + name, snapshot + "/" + name);
  }
  config_.model_directory = snapshot;
  const auto report = test::run(config_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(test::file_text(run_ + "/checkpoint-4/tokenizer.json"),
            test::file_text(repository + "/blobs/tokenizer.json"));
  EXPECT_FALSE(fs::is_symlink(run_ + "/checkpoint-4/tokenizer.json"));
  test::write_file(dir_ / "secret", "password");
  fs::create_symlink("../../../../secret", snapshot + "/vocab.txt");
  config_.output.dir = dir_ / "second";
  EXPECT_THAT(test::run(config_).error().message, HasSubstr("vocab.txt: is a link to "));
}

TEST_F(KeptModel, FilesKeepTheirModes) {
  ::chmod((model_ + "/tokenizer.json").c_str(), 0600);
  const auto report = test::run(config_);
  ASSERT_TRUE(report) << report.error().message;
  for (const std::string& directory : {kept_, run_ + "/checkpoint-4"}) {
    struct stat st {};
    ASSERT_EQ(::stat((directory + "/tokenizer.json").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u) << directory;
  }
}

TEST_F(KeptModel, ALockThatIsALinkIsRefusedAndItsTargetStays) {
  fs::create_directories(run_);
  test::write_file(dir_ / "secret", "password");
  fs::create_symlink(dir_ / "secret", run_ + "/tidepool.run");
  const auto refused = test::run(config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_THAT(refused.error().message, HasSubstr(run_ + "/tidepool.run: it is a link to " + dir_ / "secret"));
  EXPECT_EQ(test::file_text(dir_ / "secret"), "password");
  fs::remove(dir_ / "secret");  // a dangling link creates no file
  EXPECT_FALSE(test::run(config_));
  EXPECT_FALSE(fs::exists(dir_ / "secret"));
}

}  // namespace tidepool::kept_model_test
