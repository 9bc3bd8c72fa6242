#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "data/batches/dataset.h"
#include "data/files/find_files.h"
#include "data/files/source_files.h"
#include "data/files/token_file.h"

namespace tidepool::files_test {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class DataFiles : public testing::Test {
 protected:
  DataFiles() {
    std::string name = (fs::temp_directory_path() / "tidepool_data_XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
  }
  ~DataFiles() override { fs::remove_all(dir_); }

  std::string write(const std::string& name, std::string_view bytes) {
    const fs::path path = dir_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  template <class T>
  static std::string bytes_of(const std::vector<T>& v) {
    return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
  }
  static std::string llmc_header(i32 magic, i32 version, i32 tokens) {
    std::vector<i32> header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = tokens;
    return bytes_of(header);
  }
  static std::string fault_of(const std::vector<std::string>& train, u32 vocab = 256, u32 length = 8,
                              DataFormat format = DataFormat::automatic) {
    const auto data = Dataset::open({.train = train, .format = format}, vocab, length, 1);
    if (data) return "no error";
    EXPECT_EQ(data.error().kind, ErrorKind::bad_input);
    return data.error().message;
  }

  fs::path dir_;
};

TEST_F(DataFiles, FindsFilesDirectoriesAndGlobsInOrder) {
  const std::string b = write("d/b.txt", "b"), a = write("d/sub/a.txt", "a"), hidden = write("d/.h/x", "x");
  const std::string z = write("z.txt", "z"), y = write("y.txt", "y");
  const auto found = find_files({z, (dir_ / "d").string(), (dir_ / "[xy].txt").string()});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, testing::ElementsAre(FoundFile{z, FoundBy::name}, FoundFile{b}, FoundFile{a},
                                           FoundFile{y, FoundBy::pattern}));
  const auto deep = find_files({(dir_ / "**" / "*.txt").string()});
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message, testing::HasSubstr("name the directory"));
}

// Regression: files of such a pattern were trained as raw JSON text, and held out as records.
TEST_F(DataFiles, AGlobNamesWhatItFinds) {
  const std::string a = write("j/a.json", "{}"), b = write("j/b.json.gz", "{}"), c = write("j/c.jsonl", "{}");
  const std::string text = write("t.txt", "t");
  const auto records = [&](const std::string& entry) {
    return files_of(find_files({entry}).value(), {}, false).value().kinds ==
           std::vector<FileKind>{FileKind::records};
  };
  for (const char* entry : {"j/*.json", "j/*.json.*", "j/b*", "j/a.json"})
    EXPECT_TRUE(records(dir_ / entry)) << entry;
  const auto beside_text = [&](const std::string& entry) {
    return files_of(find_files({text, entry}).value(), {}, false);
  };
  for (const char* entry : {"j/*.jsonl", "j/*.json", "j"})
    EXPECT_THAT(beside_text(dir_ / entry).error().message, testing::HasSubstr("a run takes only one kind"));
  EXPECT_THAT(beside_text(dir_ / "j/b*").error().message, testing::HasSubstr("data.format"));
  write("t/empty.jsonl", "");  // harmless
  write("t/a.txt", "a");
  EXPECT_EQ(beside_text(dir_ / "t").value().kinds, std::vector<FileKind>(2, FileKind::tokens));
  EXPECT_THAT(beside_text(write("u/x.txt.gz", "\x1f\x8b\x08")).error().message,
              testing::HasSubstr("unpack the text"));
}

// Regression: a link that led back gave 41 copies of each file, and two such links never ended.
TEST_F(DataFiles, LinksThatLeadInCirclesGiveEachFileOnce) {
  std::filesystem::create_directories(dir_ / "c/in");
  const std::string a = write("c/a.txt", "a"), b = write("c/in/b.txt", "b");
  std::filesystem::create_directory_symlink(".", dir_ / "c/loop");
  std::filesystem::create_directory_symlink("..", dir_ / "c/in/up");
  std::filesystem::create_directory_symlink("in", dir_ / "c/zzz");
  const auto found = find_files({dir_ / "c"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, (std::vector<FoundFile>{{a}, {b}}));
}

TEST_F(DataFiles, RefusesALinkThatLeadsOutOfADataDirectory) {
  write("outside/secret.txt", "123456789");
  const std::string d = dir_ / "d", a = write("d/a.txt", "123456789");
  for (const char* target : {"/", "..", "../outside", "../d2"}) {
    if (std::string_view(target) == "../d2")
      fs::create_directories(dir_ / "d2");  // not below d, though its name begins so
    fs::create_directory_symlink(target, d + "/out");
    const std::string says = d + "/out: is a link to the directory " + fs::canonical(d + "/out").string() +
                             ", which is not below " + d;
    EXPECT_THAT(fault_of({d}), HasSubstr(says));
    EXPECT_THAT(fault_of({d + "/*"}), HasSubstr(says));
    fs::remove(d + "/out");
  }
  // A link that is named itself is followed.
  fs::create_directory_symlink("d", dir_ / "named");
  EXPECT_EQ(find_files({dir_ / "named"}).value(), (std::vector<FoundFile>{{dir_ / "named/a.txt"}}));
}

TEST_F(DataFiles, ReadsLinksToFilesAsAHubsCacheHasThem) {
  const std::string blob = write("hub/blobs/0123", "123456789"), snapshot = dir_ / "hub/snapshots/1";
  fs::create_directories(snapshot + "/part");
  fs::create_symlink("../../blobs/0123", snapshot + "/a.txt");
  fs::create_symlink("../../../blobs/0123", snapshot + "/part/b.txt");
  EXPECT_EQ(find_files({snapshot}).value(),
            (std::vector<FoundFile>{{snapshot + "/a.txt"}, {snapshot + "/part/b.txt"}}));
  EXPECT_EQ(fault_of({snapshot}), "no error");
  EXPECT_EQ(fault_of({snapshot + "/*.txt"}), "no error");
  fs::remove(blob);
  EXPECT_THAT(fault_of({snapshot}), HasSubstr(snapshot + "/a.txt: is a link that leads nowhere"));
}

TEST_F(DataFiles, RefusesPipesAndDevicesInADirectory) {
  write("d/a.txt", "123456789");
  const std::string pipe = dir_ / "d/pipe", device = dir_ / "d/zero";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(fault_of({dir_ / "d"}), HasSubstr(pipe + ": is neither a regular file nor a directory"));
  EXPECT_THAT(fault_of({pipe}), HasSubstr(pipe + ": is neither a regular file nor a directory"));
  fs::remove(pipe);
  fs::create_symlink("/dev/zero", device);
  EXPECT_THAT(fault_of({dir_ / "d"}), HasSubstr(device + ": is neither a regular file nor a directory"));
}

TEST_F(DataFiles, MissingFilesAreNamed) {
  EXPECT_THAT(fault_of({(dir_ / "none.txt").string()}), HasSubstr("none.txt: no such data file"));
  EXPECT_THAT(fault_of({(dir_ / "*.txt").string()}), HasSubstr("*.txt: the pattern matches no file"));
  fs::create_directory(dir_ / "empty");
  EXPECT_THAT(fault_of({(dir_ / "empty").string()}), HasSubstr("holds no files"));
  EXPECT_THAT(fault_of({"/dev/null"}), HasSubstr("neither a regular file"));
}

TEST_F(DataFiles, EmptyAndShortFilesAreNamed) {
  EXPECT_THAT(fault_of({write("e.txt", "")}), HasSubstr("e.txt: the data file is empty"));
  EXPECT_THAT(fault_of({write("s.txt", "12345678")}),
              HasSubstr("s.txt: 8 tokens are too few for one sequence; at least 9"));
  EXPECT_EQ(fault_of({write("ok.txt", "123456789")}), "no error");
  // An empty file in a directory is skipped.
  write("d/e", "");
  write("d/f", "123456789");
  EXPECT_EQ(fault_of({(dir_ / "d").string()}), "no error");
}

TEST_F(DataFiles, TextMustBeUtf8) {
  EXPECT_THAT(fault_of({write("bad.txt", "ascii text \xff more")}),
              HasSubstr("bad.txt: not UTF-8 at byte offset 11 (0xff)"));
  EXPECT_THAT(fault_of({write("latin.txt", "h\xe9llo ascii text")}),
              HasSubstr("latin.txt: not UTF-8 at byte offset 1 (0xe9)"));
  EXPECT_THAT(fault_of({write("cut.txt", "ascii text \xe2\x82")}), HasSubstr("began at byte offset 11"));
  EXPECT_EQ(fault_of({write("ok.txt",
                            "Gr\xc3\xbc\xc3\x9f"
                            "e \xe2\x82\xac \xf0\x9f\x98\x80")}),
            "no error");
  // A character across two scan pieces, and an error in the second piece.
  std::string big(TokenFile::scan_piece.value - 1, 'a');
  EXPECT_EQ(fault_of({write("big.txt", big + "\xe2\x82\xac")}), "no error");
  EXPECT_THAT(fault_of({write("big.txt", big + "a\xe2z")}), HasSubstr("byte offset 1048576 (0xe2)"));
}

TEST_F(DataFiles, TextNeedsAByteVocabulary) {
  const auto data = Dataset::open({.train = {write("a.txt", "0123456789")}}, 200, 4, 1);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().kind, ErrorKind::usage);
  EXPECT_THAT(data.error().message, HasSubstr("model.vocab_size must be at least 256"));
}

TEST_F(DataFiles, ReadsLlmcAndNanogpt) {
  std::vector<u16> small(100);
  std::iota(small.begin(), small.end(), 1000);
  const std::vector<u32> wide(small.begin(), small.end());
  const std::vector<std::string> paths = {
      write("nano.bin", bytes_of(small)),
      write("gpt2.bin", llmc_header(20240520, 1, 100) + bytes_of(small)),
      write("llama.bin", llmc_header(20240801, 7, 100) + bytes_of(wide)),
  };
  for (const std::string& path : paths) {
    const auto file = TokenFile::open(path, DataFormat::automatic);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->tokens(), 100u);
    std::vector<i32> out(50);
    ASSERT_TRUE(file->read(25, out, 2000));
    EXPECT_EQ(out.front(), 1025);
    EXPECT_EQ(out.back(), 1074);
  }
}

TEST_F(DataFiles, DamagedTokenFilesAreNamed) {
  std::vector<u16> ids(100, 7);
  ids[40] = 300;
  const std::string body = bytes_of(ids);
  EXPECT_THAT(fault_of({write("a.bin", body)}), HasSubstr("a.bin: token 40 at byte offset 80 is 300"));
  EXPECT_THAT(fault_of({write("b.bin", llmc_header(20240520, 1, 100) + body)}),
              HasSubstr("token 40 at byte offset 1104"));
  EXPECT_THAT(fault_of({write("c.bin", llmc_header(20240520, 1, 101) + body)}),
              HasSubstr("promises 101 tokens"));
  EXPECT_THAT(fault_of({write("d.bin", llmc_header(20240520, 2, 100) + body)}),
              HasSubstr("version 2 is not an llm.c"));
  EXPECT_THAT(fault_of({write("e.bin", body + "x")}), HasSubstr("not a whole number of uint16"));
  EXPECT_THAT(fault_of({write("f.txt", "text that is no llm.c file")}, 256, 8, DataFormat::llmc),
              HasSubstr("too few"));
  EXPECT_THAT(fault_of({write("t.txt", "plain text here"), write("g.bin", bytes_of(std::vector<u16>(9, 1)))}),
              HasSubstr("cannot be mixed"));
}

TEST_F(DataFiles, AFileThatShrinksIsAnIoError) {
  const std::string path = write("a.txt", "0123456789");
  const auto file = TokenFile::open(path, DataFormat::text);
  ASSERT_TRUE(file);
  write("a.txt", "012");
  std::vector<i32> out(5);
  const auto read = file->read(2, out, 256);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::io);
  EXPECT_THAT(read.error().message, HasSubstr("a.txt: ends at byte 3"));
}

}  // namespace tidepool::files_test
