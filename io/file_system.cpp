#include "io/file_system.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include <cerrno>
#include <filesystem>

#include "io/disk_error.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

struct Known {
  u64 magic;  // statfs(2)
  const char* name;
  bool pseudo = false;  // an interface of the kernel: holds no user files
};
// Raw numbers are those for which <linux/magic.h> of Debian 12 has no name.
constexpr Known known_file_systems[] = {
    {EXT4_SUPER_MAGIC, "ext4"},
    {XFS_SUPER_MAGIC, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"},
    {0x2fc12fc1, "zfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},
    {TMPFS_MAGIC, "tmpfs"},
    {RAMFS_MAGIC, "ramfs"},
    {NFS_SUPER_MAGIC, "nfs"},
    {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {CIFS_SUPER_MAGIC, "cifs"},
    {FUSE_SUPER_MAGIC, "fuse"},
    {PROC_SUPER_MAGIC, "proc", true},
    {SYSFS_MAGIC, "sysfs", true},
    {CGROUP2_SUPER_MAGIC, "cgroup", true},
    {DEVPTS_SUPER_MAGIC, "devpts", true},
};

Known known_as(u64 magic) {
  for (const Known& known : known_file_systems)
    if (known.magic == magic) return known;
  return {magic, "another file system"};
}

}  // namespace

std::string existing_parent(const std::string& dir) {
  std::error_code unused;
  fs::path path = fs::absolute(dir, unused).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "." ends in a slash
  while (!fs::is_directory(path, unused) && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

Result<FileSystem> look_at_file_system(const std::string& dir) {
  FileSystem out{.dir = existing_parent(dir)};
  struct statfs status {};
  if (::statfs(out.dir.c_str(), &status) != 0)
    return file_error("cannot examine the file system of", out.dir, errno);
  const u64 magic = static_cast<u64>(status.f_type);
  const Known known = known_as(magic);
  out.name = known.name;
  out.pseudo = known.pseudo;
  out.in_memory = magic == TMPFS_MAGIC || magic == RAMFS_MAGIC;
  out.free = Bytes{static_cast<u64>(status.f_bavail) * static_cast<u64>(status.f_bsize)};
  return out;
}

}  // namespace tidepool
