// SmallDisk is a file system of a given small size for one test. Needs root and CAP_SYS_ADMIN.
#pragma once

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace tidepool::test {

class SmallDisk {
 public:
  explicit SmallDisk(std::string path, const std::string& size = "5m") : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ = ::mount("tidepool-test", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  void enlarge() { EXPECT_EQ(::mount("", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0); }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace tidepool::test
