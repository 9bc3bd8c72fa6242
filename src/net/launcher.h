// Launcher is the program that started this process as one of several nodes: mpirun, mpiexec or srun. It is
// found from environment variables, before any MPI library is loaded.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class LauncherKind : u8 {
  none,      // the process was started alone: one node
  open_mpi,  // mpirun of Open MPI
  mpich,     // mpiexec of MPICH, Intel MPI or another launcher that speaks PMI
  slurm,     // srun
};

// MpiLibrary names a family of MPI libraries that share a binary interface.
enum class MpiLibrary : u8 { open_mpi, mpich };

struct Launcher {
  LauncherKind kind = LauncherKind::none;
  u32 rank = 0;
  u32 size = 1;        // processes that were started together: nodes
  u32 local_rank = 0;  // among the processes of this host
  bool library_known = false;
  MpiLibrary library{};  // the library that the launcher can connect; REQUIRES: library_known

  bool operator==(const Launcher&) const = default;
};

inline constexpr u32 ranks_max = 1024;

// RETURNS: the value of a variable, or null, as getenv does.
using Environment = std::function<const char*(const char* name)>;

// Errors: ErrorKind::usage if variables make no sense, if two launchers disagree (the message names both), or
// if only a launcher is found that cannot start Tidepool.
Result<Launcher> find_launcher(const Environment&);

// "Open MPI's mpirun"
std::string launcher_name(LauncherKind);
// "Open MPI"
std::string library_name(MpiLibrary);

}  // namespace tidepool
