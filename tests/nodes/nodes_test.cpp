// Nodes under real launchers: messages, exchange and agreement; a node that is killed, stopped or fails is
// named by the others, which end by themselves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "net/mpi_wire.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

extern char** environ;

namespace tidepool::nodes_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string in_path(const std::string& program) {
  std::istringstream folders(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return folder + "/" + program;
  return {};
}

// Waits until the process ends; one that nobody has waited for yet counts as ended.
void wait_for_end(pid_t pid) {
  while (true) {
    const std::string stat = test::file_text("/proc/" + std::to_string(pid) + "/stat");
    if (stat.empty() || stat.find(") Z ") != std::string::npos) return;
    sleep_ms(5);
  }
}

// A command with its output in files of a fresh folder; what is left of it at the end is killed.
class Job {
 public:
  Job(Words command, const Words& variables) {
    std::string pattern = (fs::current_path() / "nodes_test_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    for (std::string& word : command)
      if (word == "FOLDER") word = folder_;
    Words environment = variables;
    environment.push_back("NODES_OUT=" + folder_);
    for (char** at = environ; *at != nullptr; ++at) environment.emplace_back(*at);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, (folder_ + "/log").c_str(), O_WRONLY | O_CREAT, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    EXPECT_EQ(posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                          pointers(environment).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Job() {
    for (const pid_t node : nodes()) ::kill(node, SIGKILL);
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Job(const Job&) = delete;

  // A job that hangs is ended by the test's own time limit.
  // RETURNS: the exit code; 128 + n after signal n.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) != pid_) {
    }
    ended_ = true;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  std::string log() const { return test::file_text(folder_ + "/log"); }
  std::string said_by(const std::string& node) const { return test::file_text(folder_ + "/out." + node); }
  // Waits until the node has said something.
  std::string wait_for_words(const std::string& node) const {
    while (said_by(node).find("error") == std::string::npos) sleep_ms(5);
    return said_by(node);
  }
  // RETURNS: process numbers by node, of those that have written them.
  std::vector<pid_t> nodes() const {
    std::vector<pid_t> out;
    for (u32 node = 0; fs::exists(folder_ + "/pid." + std::to_string(node)); ++node)
      out.push_back(std::stoi(test::file_text(folder_ + "/pid." + std::to_string(node))));
    return out;
  }
  // Waits until so many nodes exchange messages.
  std::vector<pid_t> wait_for_nodes(size_t count) const {
    while (nodes().size() < count) sleep_ms(5);
    sleep_ms(200);
    return nodes();
  }

 private:
  static std::vector<char*> pointers(Words& words) {
    std::vector<char*> out;
    for (std::string& word : words) out.push_back(word.data());
    out.push_back(nullptr);
    return out;
  }

  std::string folder_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

class Nodes : public ::testing::TestWithParam<MpiLibrary> {
 protected:
  void SetUp() override {
    if (launcher().empty()) GTEST_SKIP() << "SKIPPED: no " << program() << " (scripts/setup.sh installs it)";
    if (!fs::exists(fs::path(built_file("")) / module_file(GetParam())))
      GTEST_SKIP() << "SKIPPED: " << module_file(GetParam()) << " was not built";
  }
  static bool open_mpi() { return GetParam() == MpiLibrary::open_mpi; }
  static std::string program() { return open_mpi() ? "mpirun.openmpi" : "mpiexec.mpich"; }
  static std::string launcher() { return in_path(program()); }

  std::unique_ptr<Job> start(u32 nodes, const Words& mode, const Words& variables = {},
                             const Words& options = {}, const std::string& modules = built_file("")) {
    Words command = {launcher()};
    if (open_mpi()) command.insert(command.end(), {"--oversubscribe", "--allow-run-as-root"});
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"-n", std::to_string(nodes), built_file("tests/nodes_program"), modules});
    command.insert(command.end(), mode.begin(), mode.end());
    Words all = variables;
    all.emplace_back("NODES_PIECE=65536");
    return std::make_unique<Job>(command, all);
  }
};

// MPICH's launcher kills all nodes as soon as one has ended with an error, also before the others could say
// why they end. So some of them may be silent; those that are not must be right.
void expect_said(const Job& job, const Words& nodes, const ::testing::Matcher<std::string>& expected,
                 size_t silent_max) {
  size_t silent = 0;
  for (const pid_t pid : job.nodes()) wait_for_end(pid);
  for (const std::string& node : nodes) {
    const std::string said = job.said_by(node);
    silent += said.empty();
    if (said.empty()) continue;
    EXPECT_THAT(said, expected) << "node " << node << "\n" << job.log();
  }
  EXPECT_LE(silent, silent_max) << job.log();
}

TEST_P(Nodes, MoveMessagesInAnyOrder) {
  for (const u32 nodes : {2u, 4u}) {
    const auto job = start(nodes, {"transfer", "7", "150"});
    EXPECT_EQ(job->wait(), 0) << job->log();
    for (u32 node = 0; node < nodes; ++node)
      EXPECT_THAT(job->said_by(std::to_string(node)), HasSubstr(", 0 wrong, ")) << job->log();
    EXPECT_THAT(job->said_by("0"), HasSubstr(open_mpi() ? "Open MPI" : "MPICH"));
  }
}

TEST_P(Nodes, Exchange) {
  const auto job = start(3, {"exchange"});
  EXPECT_EQ(job->wait(), 0) << job->log();
  for (const char* node : {"0", "1", "2"}) EXPECT_THAT(job->said_by(node), HasSubstr("exchanged"));
}

TEST_P(Nodes, AgreeOrNameTheNodeThatDiffers) {
  EXPECT_EQ(start(2, {"agree", "same"})->wait(), 0);
  const auto job = start(2, {"agree", "differs"});
  EXPECT_EQ(job->wait(), 2) << job->log();
  expect_said(
      *job, {"0", "1"},
      AllOf(HasSubstr("error 2: the nodes differ in config: node 0 (host"), HasSubstr("says 'other'")),
      open_mpi() ? 0 : 1);
}

TEST_P(Nodes, ARefusalOfOneNodeReachesAll) {
  const auto job = start(2, {"agree", "refuses"});
  EXPECT_EQ(job->wait(), 3) << job->log();
  expect_said(*job, {"0", "1"}, AllOf(HasSubstr("error 3: node 1"), HasSubstr("too little memory")), 0);
}

TEST_P(Nodes, AKilledNodeIsNamedByTheOthers) {
  const auto job = start(3, {"go_on", "FOLDER"});
  const std::vector<pid_t> pids = job->wait_for_nodes(3);
  ASSERT_EQ(pids.size(), 3u);
  ::kill(pids[1], SIGKILL);
  EXPECT_GT(job->wait(), 0) << job->log();
  expect_said(*job, {"0", "2"}, AllOf(HasSubstr("error 75: "), HasSubstr("node 1 (host")),
              open_mpi() ? 0 : 2);
  for (const pid_t pid : {pids[0], pids[2]}) wait_for_end(pid);
}

// The timeouts of stopped nodes are long enough for the others to be heard on a busy machine.
TEST_P(Nodes, AStoppedNodeIsNamedInTime) {
  const auto job = start(3, {"go_on", "FOLDER"}, {"NODES_TIMEOUT=15"});
  const std::vector<pid_t> pids = job->wait_for_nodes(3);
  ASSERT_EQ(pids.size(), 3u);
  ::kill(pids[2], SIGSTOP);
  EXPECT_GT(job->wait(), 0) << job->log();  // launchers mix the codes of several nodes
  expect_said(*job, {"0", "1"},
              AllOf(HasSubstr("error 75: node 2 (host"), HasSubstr("has not answered for 15 s")),
              open_mpi() ? 0 : 1);
}

TEST_P(Nodes, AStoppedNodeThatWakesUpLearnsThatTheOthersAreGone) {
  const Words options = open_mpi() ? Words{"--enable-recovery"} : Words{"-disable-auto-cleanup"};
  const auto job = start(2, {"go_on", "FOLDER"}, {"NODES_TIMEOUT=4"}, options);
  const std::vector<pid_t> pids = job->wait_for_nodes(2);
  ASSERT_EQ(pids.size(), 2u);
  ::kill(pids[1], SIGSTOP);
  EXPECT_THAT(job->wait_for_words("0"), HasSubstr("node 1 (host"));
  EXPECT_THAT(job->said_by("1"), Not(HasSubstr("error")));
  ::kill(pids[1], SIGCONT);
  EXPECT_THAT(job->wait_for_words("1"), HasSubstr("error 75: "));
  job->wait();
}

TEST_P(Nodes, ANodeThatFailsTellsTheOthersWhy) {
  const auto job = start(3, {"go_on", "FOLDER", "fail"});
  EXPECT_GT(job->wait(), 0) << job->log();
  EXPECT_THAT(job->said_by("1"), HasSubstr("the disk is full"));
  expect_said(*job, {"0", "2"}, AllOf(HasSubstr("error 6: node 1 (host"), HasSubstr("the disk is full")),
              open_mpi() ? 0 : 2);
}

TEST_P(Nodes, AMissingModuleIsNamed) {
  const auto job = start(2, {"exchange"}, {}, {}, "/nowhere");
  EXPECT_EQ(job->wait(), 2) << job->log();
  EXPECT_THAT(job->said_by("0"), AllOf(HasSubstr("/nowhere/libtidepool_"), HasSubstr("apt install")));
}

TEST_P(Nodes, VariablesOfTwoLaunchersThatDisagreeAreNamed) {
  const auto job = start(2, {"exchange"},
                         {open_mpi() ? "PMI_RANK=5" : "OMPI_COMM_WORLD_RANK=5",
                          open_mpi() ? "PMI_SIZE=8" : "OMPI_COMM_WORLD_SIZE=8"});
  EXPECT_EQ(job->wait(), 2) << job->log();
  EXPECT_THAT(job->said_by("-"), AllOf(HasSubstr("Open MPI's mpirun"), HasSubstr("MPICH's mpiexec")));
}

INSTANTIATE_TEST_SUITE_P(All, Nodes, ::testing::Values(MpiLibrary::open_mpi, MpiLibrary::mpich),
                         [](const auto& info) {
                           return info.param == MpiLibrary::open_mpi ? "OpenMpi" : "Mpich";
                         });

// The program looks at its own memory map before it looks for MPI's module.
TEST(NodesAlone, LoadNoMpi) {
  Job job({built_file("tests/nodes_program"), built_file(""), "exchange"}, {});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.log(), "alone\n");
}

}  // namespace tidepool::nodes_test
