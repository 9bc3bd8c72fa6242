// Child runs the tidepool binary as a process that tests may signal and kill.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "config/config.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

extern char** environ;

namespace tidepool::test {

// Runs `tidepool` with the given words and writes its output to a log. The destructor kills a running
// process.
class Child {
 public:
  struct Streams {
    int output = 1, error = 2;  // of the test, for the child
  };

  Child(const std::vector<std::string>& words, const std::string& log) : Child(words, log, {}) {}
  Child(const std::vector<std::string>& words, Streams streams) : Child(words, "", streams) {}
  ~Child() {
    if (!done_) kill_now();
  }
  Child(const Child&) = delete;

  std::string log() const { return log_; }  // empty: the child writes to streams of the test
  std::string output() const { return file_text(log_); }

  bool ended() {
    if (!done_) done_ = ::wait4(pid_, &status_, WNOHANG, &usage_) == pid_;
    return done_;
  }
  pid_t pid() const { return pid_; }
  void signal(int number) { ::kill(pid_, number); }
  // Stops the process for a while: its clock goes on, its work does not. It wakes up with the signal `then`,
  // if any.
  void suspend(std::chrono::milliseconds duration, int then = 0) {
    signal(SIGSTOP);
    std::this_thread::sleep_for(duration);
    signal(then);
    signal(SIGCONT);
  }
  // RETURNS: the exit code, or 128 + n after signal n.
  int wait() {
    if (!done_) ::wait4(pid_, &status_, 0, &usage_);
    done_ = true;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }
  // REQUIRES: it has ended. RETURNS: the most memory that it had resident.
  u64 peak_bytes() const { return static_cast<u64>(usage_.ru_maxrss) * kib; }
  int kill_now() {
    signal(SIGKILL);
    return wait();
  }

 private:
  Child(std::vector<std::string> words, const std::string& log, Streams streams) : log_(log) {
    words.insert(words.begin(), program_file());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (!log.empty())
      posix_spawn_file_actions_addopen(&actions, 1, log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    else
      posix_spawn_file_actions_adddup2(&actions, streams.output, 1);
    posix_spawn_file_actions_adddup2(&actions, log.empty() ? streams.error : 1, 2);
    // Default signal handling, as from a plain shell, even if the test runner ignores signals.
    sigset_t plain;
    sigemptyset(&plain);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) sigaddset(&plain, number);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &plain);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int spawned =
        posix_spawn(&pid_, program_file().c_str(), &actions, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(spawned == 0, spawned);
  }

  std::string log_;
  pid_t pid_ = 0;
  int status_ = 0;
  rusage usage_ = {};
  bool done_ = false;
};

// Runs `tidepool train` on a config, with output in <output.dir>.log.
class ChildRun : public Child {
 public:
  explicit ChildRun(const Config& config, const std::string& resume = "")
      : Child(words_of(config, resume), config.output.dir + ".log"), dir_(config.output.dir) {}

  // RETURNS: number of steps in metrics.jsonl, those of earlier processes included.
  u64 steps_logged() const {
    const std::string text = file_text(dir_ + "/metrics.jsonl");
    u64 steps = 0;
    for (u64 at = text.find("\"loss\""); at != std::string::npos; at = text.find("\"loss\"", at + 1)) ++steps;
    return steps;
  }
  // Waits until `steps` are logged.
  // RETURNS: false if the process ends first.
  bool wait_for_steps(u64 steps) {
    while (steps_logged() < steps) {
      if (ended()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return !ended();
  }

 private:
  static std::vector<std::string> words_of(const Config& config, const std::string& resume) {
    const std::string yaml = config.output.dir + ".yaml";
    std::ofstream(yaml) << to_yaml(config);
    std::vector<std::string> words = {"train", yaml};
    if (!resume.empty()) words.insert(words.end(), {"--resume", resume});
    return words;
  }

  std::string dir_;
};

}  // namespace tidepool::test
