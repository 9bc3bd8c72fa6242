// Probes that are disturbed: the right exit code, useful messages, and no leftovers.
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <filesystem>

#include "machine/machine_file.h"
#include "tests/support/child_run.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::probe_fault_test {

namespace fs = std::filesystem;
using test::Child;
using ::testing::HasSubstr;

class FaultInProbe : public ::testing::Test {
 protected:
  FaultInProbe() { fs::create_directory(disk_); }

  std::vector<std::string> words(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> out = {"probe", "--seconds", "1", "--output", file_, "--disk", disk_};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  struct Outcome {
    int code;
    std::string output;
  };
  Outcome run(const std::vector<std::string>& words) const {
    Child child(words, log_);
    const int code = child.wait();
    return {code, child.output()};
  }
  // Waits until the disk's file exists, and some time longer.
  Child& begin(std::unique_ptr<Child>& child, int milliseconds) {
    child = std::make_unique<Child>(words({"--seconds", "30"}), log_);
    while (!fs::exists(disk_ + "/tidepool-probe/tidepool.swap") && !child->ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    return *child;
  }
  bool littered() const { return !fs::is_empty(disk_); }

  const test::ScratchDir dir_;
  const std::string disk_ = dir_ / "disk", file_ = dir_ / "box.yaml", log_ = dir_ / "log";
};

TEST_F(FaultInProbe, WithoutAFaultItWritesAMachineFile) {
  const Outcome first = run(words());
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_FALSE(littered());
  const auto machine = load_machine(file_);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, "box");
  EXPECT_EQ(machine->date.size(), 10u);
  EXPECT_EQ(machine->disk.points.size(), 12u);
  EXPECT_GT(machine->disk.capacity.value, 0u);

  // Runs again over its own file, now with JSON output.
  const Outcome second = run(words({"--json"}));
  ASSERT_EQ(second.code, 0) << second.output;
  const auto json = boost::json::parse(second.output.substr(second.output.find("\n{") + 1));
  EXPECT_EQ(json.at("rates").at("host.adam").at("samples").as_array().size(), json.at("rounds").as_int64());
}

TEST_F(FaultInProbe, WithoutADiskTheFileHasNoDiskSection) {
  const Outcome r = run({"probe", "--seconds", "1", "--output", file_, "--no-disk"});
  ASSERT_EQ(r.code, 0) << r.output;
  EXPECT_EQ(load_machine(file_).value().disk, DiskRates{});
}

TEST_F(FaultInProbe, ASignalCleansUpAndEndsTheProcess) {
  for (const auto& [number, milliseconds] : {std::pair{SIGINT, 0}, {SIGINT, 1500}, {SIGTERM, 300}}) {
    std::unique_ptr<Child> child;
    begin(child, milliseconds).signal(number);
    EXPECT_EQ(child->wait(), 128 + number) << child->output();
    EXPECT_THAT(child->output(), HasSubstr("nothing was written"));
    EXPECT_FALSE(littered());
    EXPECT_FALSE(fs::exists(file_));
  }
}

TEST_F(FaultInProbe, TheNextProbeClearsLitterOfAKilledOne) {
  std::unique_ptr<Child> child;
  begin(child, 100).kill_now();
  EXPECT_TRUE(littered());
  const Outcome r = run(words());
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_THAT(r.output, HasSubstr("that a dead job"));
  EXPECT_FALSE(littered());
}

TEST_F(FaultInProbe, ASecondProbeInADirectoryIsRefused) {
  std::unique_ptr<Child> child;
  begin(child, 0);
  const Outcome r = run(words());
  EXPECT_EQ(r.code, 6) << r.output;
  EXPECT_THAT(r.output, HasSubstr("in use by the job with pid"));
  child->signal(SIGINT);
  EXPECT_EQ(child->wait(), 128 + SIGINT);
  EXPECT_FALSE(littered());
}

TEST_F(FaultInProbe, WrongOptionsAreNamedBeforeAnythingIsMeasured) {
  std::ofstream(dir_ / "mine.yaml") << "name: mine\n";
  struct Case {
    std::vector<std::string> words;
    int code;
    const char* says;
  };
  const Case cases[] = {
      {{"probe", "--disk", dir_ / "none", "--output", file_}, 2, "no such directory"},
      {{"probe", "--disk", dir_ / "mine.yaml", "--output", file_}, 2, "no such directory"},
      {{"probe", "--output", std::string(dir_ / "none") + "/box.yaml"}, 2, "there is no directory"},
      {{"probe", "--output", disk_}, 2, "is a directory"},
      {{"probe", "--output", dir_ / "mine.yaml"}, 2, "no probe wrote it"},
      {{"probe", "--seconds", "0"}, 2, "--seconds: 0 is not 1 to 3600"},
      {{"probe", "--seconds", "soon"}, 2, "--seconds"},
      {{"probe", "now"}, 2, "'now': probe takes options only"},
      {{"probe", "--disc", "."}, 2, "did you mean '--disk'?"},
  };
  for (const Case& c : cases) {
    const Outcome r = run(c.words);
    EXPECT_EQ(r.code, c.code) << r.output;
    EXPECT_THAT(r.output, HasSubstr(c.says));
  }
  EXPECT_EQ(test::file_text(dir_ / "mine.yaml"), "name: mine\n");
  EXPECT_FALSE(littered());
}

TEST_F(FaultInProbe, TmpfsIsRefusedAsADisk) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "SKIPPED: there is no /dev/shm";
  const Outcome r = run({"probe", "--output", file_, "--disk", "/dev/shm"});
  EXPECT_EQ(r.code, 6) << r.output;  // tmpfs, or too small to test
  EXPECT_THAT(r.output, HasSubstr("--no-disk"));
  EXPECT_FALSE(fs::exists("/dev/shm/tidepool-probe"));
}

}  // namespace tidepool::probe_fault_test
