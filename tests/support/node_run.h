// NodeRun trains on several nodes of this host under a real launcher, and keeps what each node said.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/json_file.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::test {

enum class NodeLauncher : u8 { open_mpi, mpich };

inline std::string program_of(NodeLauncher launcher) {
  return launcher == NodeLauncher::open_mpi ? "mpirun.openmpi" : "mpiexec.mpich";
}
inline std::string name_of(NodeLauncher launcher) {
  return launcher == NodeLauncher::open_mpi ? "OpenMpi" : "Mpich";
}

// RETURNS: empty if `program` is not in the PATH.
inline std::string found_in_path(const std::string& program) {
  std::istringstream folders(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return folder + "/" + program;
  return {};
}

// RETURNS: why no test can run under the launcher; empty: it can.
inline std::string why_not_under(NodeLauncher launcher) {
  if (found_in_path(program_of(launcher)).empty())
    return "no " + program_of(launcher) + " (scripts/setup.sh installs it)";
  const std::string module =
      launcher == NodeLauncher::open_mpi ? "libtidepool_openmpi.so" : "libtidepool_mpich.so";
  if (!std::filesystem::exists(std::filesystem::path(program_file()).parent_path() / module))
    return module + " was not built";
  return {};
}

struct NodeRunOptions {
  u32 nodes = 2;
  NodeLauncher launcher = NodeLauncher::open_mpi;
  std::string resume;  // empty: the run begins anew
  // If true, the launcher lets the other nodes live on when one has died.
  bool others_live_on = false;
  // Overrides of single nodes, by node: "memory.host=24MiB".
  std::map<u32, std::vector<std::string>> overrides;
  std::vector<std::string> environment = {};  // of all nodes, beside that of the test: "NAME=value"
  // If true, nodes print to the launcher, which passes it on to said_by_launcher().
  bool through_launcher = false;
};

class NodeRun {
 public:
  // REQUIRES: machine.executor names cores.
  NodeRun(const Config& config, NodeRunOptions options)
      : options_(std::move(options)), dir_(config.output.dir), folder_(config.output.dir + ".nodes") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/config.yaml") << to_yaml(config);
    start(words());
  }
  ~NodeRun() {
    for (u32 node = 0; node < options_.nodes; ++node)
      if (const pid_t pid = this->pid(node); pid > 0) ::kill(pid, SIGKILL);
    if (ended_) return;
    ::kill(launcher_, SIGKILL);
    ::waitpid(launcher_, nullptr, 0);
  }
  NodeRun(const NodeRun&) = delete;

  // A run that hangs is ended by the test's own time limit.
  // RETURNS: the launcher's exit code; 128 + n after signal n.
  int wait() {
    int status = 0;
    while (::waitpid(launcher_, &status, 0) != launcher_) {
    }
    ended_ = true;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  // RETURNS: the node's own exit code; -1 if it has none: it runs, or its launcher killed it.
  int code(u32 node) const {
    const std::string text = file_text(fmt::format("{}/code.{}", folder_, node));
    return text.empty() ? -1 : std::stoi(text);
  }
  // A launcher may kill the other nodes when node 0 has ended with a code, which is after they have ended.
  bool ended_well(u32 node) const { return code(node) == 0 || (code(node) == -1 && pid(node) == 0); }
  std::string said(u32 node) const { return file_text(fmt::format("{}/log.{}", folder_, node)); }
  std::string said_by_all() const {
    std::string out = file_text(folder_ + "/launcher");
    for (u32 node = 0; node < options_.nodes; ++node)
      out += fmt::format("--- node {}, exit code {}\n{}\n", node, code(node), said(node));
    return out;
  }
  // RETURNS: the process of a node; 0 if it does not run.
  pid_t pid(u32 node) const {
    const std::string shell = file_text(fmt::format("{}/pid.{}", folder_, node));
    if (shell.empty()) return 0;
    const pid_t number = std::stoi(shell);
    const std::string child = file_text(fmt::format("/proc/{0}/task/{0}/children", number));
    return child.empty() ? 0 : std::stoi(child);
  }
  std::string said_by_launcher() const { return file_text(folder_ + "/launcher"); }
  // RETURNS: the launcher's process that reads what a node prints.
  pid_t reader_of(u32 node) const {
    const std::string shell = file_text(fmt::format("{}/pid.{}", folder_, node));
    const std::string status = file_text(fmt::format("/proc/{}/status", std::stoi(shell)));
    return std::stoi(status.substr(status.find("PPid:") + 5));
  }
  std::string folder_of(u32 node) const { return node == 0 ? dir_ : fmt::format("{}/node-{}", dir_, node); }
  // RETURNS: steps in a node's metrics.jsonl.
  u64 steps_logged(u32 node) const {
    const std::string text = file_text(folder_of(node) + "/metrics.jsonl");
    u64 steps = 0;
    for (u64 at = text.find("\"loss\""); at != std::string::npos; at = text.find("\"loss\"", at + 1)) ++steps;
    return steps;
  }
  // RETURNS: false if the run ends first.
  bool wait_for_steps(u64 steps) {
    for (; steps_logged(0) < steps; pause()) {
      int status = 0;
      if (::waitpid(launcher_, &status, WNOHANG) != launcher_) continue;
      ended_ = true;
      return false;
    }
    return true;
  }

 private:
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

  // The shell notes the exit code of a node, which a launcher gives for one node only. It ignores the signal
  // by which MPICH's launcher tells of a node's death.
  std::vector<std::string> words_of_node(const std::vector<std::string>& overrides) const {
    std::vector<std::string> out = {
        "/bin/sh",
        "-c",
        "trap : USR1; node=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; folder=$1; shift; echo $$ "
        ">\"$folder/pid.$node\"; " +
            std::string(options_.through_launcher ? "\"$@\"" : "\"$@\" >\"$folder/log.$node\" 2>&1") +
            "; code=$?; echo $code >\"$folder/code.$node\"; exit $code",
        "sh",
        folder_,
        "/usr/bin/env"};
    out.insert(out.end(), options_.environment.begin(), options_.environment.end());
    out.insert(out.end(), {program_file(), "train", folder_ + "/config.yaml"});
    out.insert(out.end(), overrides.begin(), overrides.end());
    if (!options_.resume.empty()) out.insert(out.end(), {"--resume", options_.resume});
    return out;
  }
  std::vector<std::string> words() const {
    const bool open_mpi = options_.launcher == NodeLauncher::open_mpi;
    std::vector<std::string> out = {found_in_path(program_of(options_.launcher))};
    if (open_mpi) out.insert(out.end(), {"--oversubscribe", "--allow-run-as-root"});
    if (options_.others_live_on) out.emplace_back(open_mpi ? "--enable-recovery" : "-disable-auto-cleanup");
    const auto add = [&](u32 count, const std::vector<std::string>& overrides) {
      const std::vector<std::string> node = words_of_node(overrides);
      out.insert(out.end(), {"-n", std::to_string(count)});
      out.insert(out.end(), node.begin(), node.end());
    };
    if (options_.overrides.empty()) {
      add(options_.nodes, {});
      return out;
    }
    for (u32 node = 0; node < options_.nodes; ++node) {
      if (node > 0) out.emplace_back(":");
      const auto found = options_.overrides.find(node);
      add(1, found != options_.overrides.end() ? found->second : std::vector<std::string>());
    }
    return out;
  }
  void start(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, (folder_ + "/launcher").c_str(), O_WRONLY | O_CREAT, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int spawned = posix_spawn(&launcher_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(spawned == 0, spawned);
  }

  const NodeRunOptions options_;
  const std::string dir_, folder_;
  pid_t launcher_ = 0;
  bool ended_ = false;
};

// RETURNS: the numbers of a node's report. Only node 0 has weights.
inline Numbers numbers_in(const std::string& folder) {
  Numbers out;
  const boost::json::value report = json_of_file(folder + "/report.json");
  const boost::json::object& o = report.as_object();
  for (const auto& loss : o.at("losses").as_array()) out.losses.push_back(loss.to_number<double>());
  if (const auto* losses = o.if_contains("eval_losses"))
    for (const auto& loss : losses->as_array()) out.eval_losses.push_back(loss.to_number<double>());
  if (const auto* hash = o.if_contains("weights_xxh3")) out.weights_xxh3 = string_of(*hash);
  if (const auto* scale = o.if_contains("loss_scale")) out.loss_scale = scale->to_number<double>();
  if (const auto* skipped = o.if_contains("skipped_steps")) out.skipped_steps = skipped->to_number<u64>();
  return out;
}

// Trains on nodes to the end, and checks what holds for every run: all nodes know the same losses, and bytes
// are as planned on each. RETURNS: node 0's numbers.
inline Numbers train_on_nodes(const Config& config, const NodeRunOptions& options) {
  NodeRun run(config, options);
  const int code = run.wait();
  EXPECT_EQ(code, 0) << run.said_by_all();
  if (code != 0) return {};
  const Numbers leads = numbers_in(run.folder_of(0));
  for (u32 node = 0; node < options.nodes; ++node) {
    SCOPED_TRACE(fmt::format("node {} of {}", node, options.nodes));
    Numbers own = numbers_in(run.folder_of(node));
    EXPECT_EQ(own.weights_xxh3.empty(), node > 0);
    own.weights_xxh3 = leads.weights_xxh3;
    EXPECT_EQ(own, leads);
    const boost::json::value report = json_of_file(run.folder_of(node) + "/report.json");
    for (const auto& [link, use] : report.at("links").as_object())
      EXPECT_EQ(use.at("measured_bytes"), use.at("planned_bytes")) << std::string(link);
  }
  return leads;
}

}  // namespace tidepool::test
