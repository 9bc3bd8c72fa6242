// Files that users name may be pipes, devices or sockets: read if that ends, otherwise refused, never waited
// for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/open_file.h"
#include "base/read_file.h"
#include "base/write_file.h"
#include "config_files/load_config.h"
#include "io/directory_lock.h"
#include "machine/machine_file.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::read_written_file_test {

using test::TemporaryDirectory;
using test::write_text;
using ::testing::HasSubstr;

constexpr Nanos no_time{0};

Result<std::string> read_with(const std::string& path, u64 bytes_max = mib) {
  return read_written_file(
      path, {.what = "the text", .advice = "name one", .bytes_max = bytes_max, .patience = no_time});
}

std::string fault(const Result<std::string>& read, ErrorKind kind = ErrorKind::usage) {
  if (read) return "was read";
  EXPECT_EQ(read.error().kind, kind);
  return read.error().message;
}

// A pipe as `<(command)` passes it: the path of its read end.
struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    out = Fd(ends[0]), in = Fd(ends[1]);
  }
  void write(std::string_view text) {
    EXPECT_EQ(::write(in.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string path() const { return "/dev/fd/" + std::to_string(out.get()); }
  Fd out, in;
};

TEST(ReadWrittenFile, ReadsRegularFilesUpToTheLimit) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/a";
  for (const std::string& text : {std::string(), std::string("a"), std::string(200'000, 'b')}) {
    write_text(path, text);
    EXPECT_EQ(read_with(path).value(), text);
    EXPECT_EQ(read_with(path, text.size()).value(), text);
  }
  EXPECT_EQ(fault(read_with(path, 199'999)),
            path + ": is not the text: it is larger than 199999 bytes; name one");
  EXPECT_THAT(fault(read_with(dir.path() + "/b")), HasSubstr("/b: cannot open the text: No such file"));
}

TEST(ReadWrittenFile, APipeIsReadToItsEnd) {
  Pipe done;
  done.write("abc");
  done.in.close();
  EXPECT_EQ(read_with(done.path()).value(), "abc");

  Pipe large;  // more than one read returns
  std::string text(60'000, 'x');
  large.write(text);
  large.in.close();
  EXPECT_EQ(read_with(large.path()).value(), text);
}

TEST(ReadWrittenFile, APipeWithANameIsRefusedAndOneWithoutAnEndTimesOut) {
  const TemporaryDirectory dir;
  const std::string fifo = dir.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(fault(read_with(fifo)), fifo + ": is a pipe; name one");
  const Fd writer(::open(fifo.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  EXPECT_EQ(fault(read_with(fifo)), fifo + ": is a pipe; name one");
  Pipe silent;
  EXPECT_THAT(fault(read_with(silent.path())), HasSubstr("nothing came"));
  silent.write("abc");
  EXPECT_THAT(fault(read_with(silent.path())), HasSubstr("neither more nor its end came"));
}

TEST(ReadWrittenFile, AnEndlessPipeIsTooLarge) {
  Pipe endless;
  endless.write(std::string(60'000, 'y'));
  EXPECT_THAT(fault(read_with(endless.path(), 1000)), HasSubstr("larger than 1000 bytes"));
}

TEST(ReadWrittenFile, DirectoriesAndDevicesAreNamedAsSuch) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/socket";
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(fault(read_with(path)), path + ": is a socket; name one");
  EXPECT_EQ(fault(read_with("/dev/zero")), "/dev/zero: is a device; name one");
  EXPECT_EQ(fault(read_with(dir.path())), dir.path() + ": is a directory; name one");
  EXPECT_EQ(irregular_file(path), "a socket");
  EXPECT_EQ(irregular_file(dir.path() + "/absent"), "");
}

TEST(ReadWrittenFile, ConfigsAndMachineFilesAreReadThisWay) {
  EXPECT_EQ(load_config("/dev/zero", {}).error().message, "/dev/zero: is a device; name a YAML file");
  EXPECT_THAT(load_machine("/dev/zero").error().message, HasSubstr("/dev/zero: is a device; name one of"));
  const std::string quickstart = source_file("configs/quickstart.yaml");
  Pipe pipe;
  pipe.write(test::file_text(quickstart));
  pipe.in.close();
  const auto config = load_config(pipe.path(), {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(*config, *load_config(quickstart, {}));
}

TEST(ReadWrittenFile, APipeInThePlaceOfAFileIsNeitherWaitedForNorReplaced) {
  const TemporaryDirectory dir;
  const std::string fifo = dir.path() + "/lock";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto lock =
      DirectoryLock::take({.dir = dir.path(), .file = "lock", .what = "run directory", .remedy = "x"});
  ASSERT_FALSE(lock);
  EXPECT_THAT(lock.error().message, HasSubstr(fifo + " is a pipe; remove it"));
  const auto replaced = replace_file(fifo, "text", FileUse::other);
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().kind, ErrorKind::io);
  EXPECT_EQ(irregular_file(fifo), "a pipe");  // still
}

}  // namespace tidepool::read_written_file_test
