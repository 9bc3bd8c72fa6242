// Shared parts of disk tests: a directory on a real disk, patterns, and a sink that can be waited for.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "io/arena.h"
#include "io/disk.h"

namespace tidepool::test {

// A fresh directory below the working directory (the build tree, so a disk), removed at the end.
class ScratchDir {
 public:
  ScratchDir() {
    // The child of a death test never removes its directory, so that directory lies inside its parent's.
    const char* parent = ::testing::internal::InDeathTestChild() ? getenv(of_parent) : nullptr;
    const std::filesystem::path below = parent != nullptr ? parent : std::filesystem::current_path();
    std::string pattern = (below / "io_test_XXXXXX").string();
    path_ = mkdtemp(pattern.data()) != nullptr ? pattern : "";
    EXPECT_FALSE(path_.empty());
    setenv(of_parent, path_.c_str(), 1);
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  static constexpr const char* of_parent = "TIDEPOOL_TEST_PARENT_DIR";
  std::string path_;
};

// Completions collects completions.
// REQUIRES: it outlives the disk that uses `sink()`.
class Completions {
 public:
  DiskSink sink() {
    return [this](const DiskCompletion& completion) {
      std::scoped_lock lock(mutex_);
      all_.push_back(completion);
      arrived_.notify_all();
    };
  }
  // Waits until `count` completions have arrived since the last call, and takes them.
  std::vector<DiskCompletion> take(u64 count) {
    std::unique_lock lock(mutex_);
    bool enough = arrived_.wait_for(lock, std::chrono::seconds(60), [&] { return all_.size() >= count; });
    EXPECT_TRUE(enough) << all_.size() << " of " << count << " completions after 60 s";
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<DiskCompletion> all_;
};

inline void fill_random(std::span<std::byte> memory, u64 seed) {
  std::mt19937_64 random(seed);
  for (u64 at = 0; at + 8 <= memory.size(); at += 8) {
    u64 word = random();
    std::memcpy(memory.data() + at, &word, 8);
  }
}

inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

inline std::unique_ptr<Arena> make_arena(u64 bytes) {
  auto arena = Arena::create({.name = "test", .bytes = Bytes{bytes}});
  EXPECT_TRUE(arena) << arena.error().message;
  return std::move(arena).value();
}

}  // namespace tidepool::test
