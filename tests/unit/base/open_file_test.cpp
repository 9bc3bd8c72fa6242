// A path is looked at before it is opened: only regular files are opened, and links only to read.
#include "base/open_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>

#include "base/files/files.h"
#include "base/read_file.h"
#include "base/write_file.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::open_file_test {

namespace fs = std::filesystem;
using test::TemporaryDirectory;
using test::write_text;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  std::string read, own, written;  // what each way to open says that is there; empty: it is opened
};

class OpenFile : public ::testing::Test {
 protected:
  OpenFile() {
    write_text(at("file"), "text");
    EXPECT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    fs::create_directory(at("directory"));
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    at("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    for (const char* to : {"file", "pipe", "directory", "socket", "nothing"})
      fs::create_symlink(to, at(std::string("to-") + to));
    fs::create_symlink("loop", at("loop"));
    fs::create_symlink("/dev/zero", at("zero"));
  }
  std::string at(const std::string& name) const { return dir_.path() + "/" + name; }

  const TemporaryDirectory dir_;
};

TEST_F(OpenFile, OpensRegularFilesAndNamesEverythingElse) {
  const Case cases[] = {
      {"file", "", "", ""},
      {"pipe", "a pipe", "a pipe", "a pipe"},
      {"directory", "a directory", "a directory", "a directory"},
      {"socket", "a socket", "a socket", "a socket"},
      {"to-file", "", "a link to file", "a link to file"},
      {"to-pipe", "a pipe", "a link to pipe", "a link to pipe"},
      {"to-directory", "a directory", "a link to directory", "a link to directory"},
      {"to-socket", "a socket", "a link to socket", "a link to socket"},
      {"to-nothing", "a link that leads nowhere", "a link to nothing", "a link to nothing"},
      {"loop", "a link that leads back to itself", "a link to loop", "a link to loop"},
      {"zero", "a device", "a link to /dev/zero", "a link to /dev/zero"},
  };
  for (const Case& c : cases) {
    const auto expect = [&](const RegularFile& file, const std::string& irregular, const char* how) {
      EXPECT_EQ(static_cast<bool>(file), irregular.empty()) << c.name << ' ' << how;
      EXPECT_EQ(file.irregular, irregular) << c.name << ' ' << how;
      if (file) EXPECT_EQ(::fcntl(file.fd.get(), F_GETFL) & O_NONBLOCK, 0) << c.name << ' ' << how;
    };
    expect(open_to_read(at(c.name)), c.read, "to read");
    expect(open_own_to_read(at(c.name)), c.own, "own");
    expect(open_to_write(at(c.name), O_CREAT | O_TRUNC), c.written, "to write");
    expect(open_to_write(at(c.name), O_RDWR | O_CREAT), c.written, "to read and write");
    EXPECT_EQ(irregular_file(at(c.name)), c.written);
  }
  EXPECT_FALSE(fs::exists(at("nothing")));
}

TEST_F(OpenFile, SaysWhatTheSystemSaysOfAnAbsentFile) {
  const RegularFile file = open_to_read(at("absent"));
  EXPECT_FALSE(file);
  EXPECT_EQ(file.irregular, "");
  EXPECT_EQ(file.error_number, ENOENT);
  EXPECT_EQ(irregular_file(at("absent")), "");
  EXPECT_EQ(open_to_write(at("file"), O_CREAT | O_EXCL).error_number, EEXIST);
  EXPECT_TRUE(open_to_write(at("new"), O_CREAT | O_EXCL));
}

TEST_F(OpenFile, WritersOfFilesNameWhatIsInTheirWay) {
  for (const char* name : {"pipe", "to-file", "to-nothing", "zero", "directory"}) {
    const auto expect = [&](const auto& result) {
      ASSERT_FALSE(result) << name;
      EXPECT_EQ(result.error().kind, ErrorKind::io);
      EXPECT_THAT(result.error().message, HasSubstr("cannot write " + at(name) + ": it is a"));
      EXPECT_THAT(result.error().message, HasSubstr("; move it away, or name another file"));
    };
    expect(AppendLog::open(at(name), FileUse::run));
    expect(replace_file(at(name), "other", FileUse::run));
    expect(create_posix_files()->create(at(name), Bytes{0}));
  }
  EXPECT_EQ(test::file_text(at("file")), "text");
  EXPECT_FALSE(fs::exists(at("nothing")));
}

TEST_F(OpenFile, ReadersOfInputsFollowLinksToFilesAlone) {
  EXPECT_EQ(read_small_file(at("to-file"), 100, ErrorKind::bad_input).value(), "text");
  for (const char* name : {"pipe", "to-pipe", "zero", "directory", "to-nothing", "loop"}) {
    const auto read = read_small_file(at(name), 100, ErrorKind::bad_input);
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(read.error().message, HasSubstr(at(name) + ": is not a regular file but a"));
  }
}

}  // namespace tidepool::open_file_test
