#include "net/launcher.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

namespace tidepool {
namespace {

struct Variables {
  LauncherKind kind{};
  const char* rank;
  const char* size;
  const char* local_rank;
};

// Slurm sets SLURM_PROCID and SLURM_NTASKS in batch scripts too, which it starts once. Only srun sets the
// number of a step's tasks.
constexpr Variables launchers[] = {
    {LauncherKind::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {LauncherKind::mpich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {LauncherKind::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

// Launchers that we recognise only to refuse them.
struct Refused {
  const char* variable;
  const char* name;
};
constexpr Refused refused_launchers[] = {
    {"TORCHELASTIC_RUN_ID", "torchrun"},
    {"MV2_COMM_WORLD_RANK", "MVAPICH2's mpirun_rsh"},
    {"FLUX_TASK_RANK", "Flux"},
};

Result<u32> number_of(const char* name, const char* text) {
  u32 out = 0;
  const char* const end = text + std::strlen(text);
  const auto [at, fault] = std::from_chars(text, end, out);
  if (fault != std::errc() || at != end)
    return usage_error(
        fmt::format("the environment variable {}={} is not a number: a launcher sets it; unset it to "
                    "run alone",
                    name, text));
  return out;
}

struct Found {
  Launcher launcher;
  std::string shown;  // "OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=4"
};

Result<std::optional<Found>> find_one(const Variables& v, const Environment& get) {
  const char* const rank = get(v.rank);
  const char* const size = get(v.size);
  if (rank == nullptr || size == nullptr) return std::optional<Found>();
  Found out{.launcher = {.kind = v.kind}, .shown = fmt::format("{}={}, {}={}", v.rank, rank, v.size, size)};
  TRY_ASSIGN(out.launcher.rank, number_of(v.rank, rank));
  TRY_ASSIGN(out.launcher.size, number_of(v.size, size));
  if (const char* const local = get(v.local_rank); local != nullptr) {
    TRY_ASSIGN(out.launcher.local_rank, number_of(v.local_rank, local));
  }
  if (out.launcher.size == 0 || out.launcher.size > ranks_max || out.launcher.rank >= out.launcher.size)
    return usage_error(fmt::format("{} says {}: a rank is less than the size, which is at most {}",
                                   launcher_name(v.kind), out.shown, ranks_max));
  return std::optional<Found>(std::move(out));
}

// Slurm starts one daemon of mpirun per host, and the daemon's children inherit the daemon's SLURM_PROCID. So
// inside Slurm, a launcher with more processes than Slurm's step has its own, right numbers. With fewer,
// every task of the step started a launcher of its own, which is a mistake.
bool agree(const Launcher& a, const Launcher& b) {
  if (b.kind == LauncherKind::slurm && a.size > b.size) return true;
  return a.rank == b.rank && a.size == b.size;
}

void find_library(Launcher& launcher, const Environment& get) {
  const auto know = [&launcher](MpiLibrary library) {
    launcher.library_known = true;
    launcher.library = library;
  };
  if (launcher.kind == LauncherKind::open_mpi) know(MpiLibrary::open_mpi);
  if (launcher.kind == LauncherKind::mpich) know(MpiLibrary::mpich);
  if (launcher.kind != LauncherKind::slurm) return;
  // srun --mpi=pmix is what Debian's Open MPI can use; --mpi=pmi2 is for MPICH.
  if (get("PMIX_RANK") != nullptr || get("PMIX_NAMESPACE") != nullptr) return know(MpiLibrary::open_mpi);
  if (get("PMI_FD") != nullptr || get("PMI_RANK") != nullptr) return know(MpiLibrary::mpich);
}

Result<Launcher> none_found(const Environment& get) {
  for (const Refused& refused : refused_launchers)
    if (get(refused.variable) != nullptr)
      return usage_error(
          fmt::format("{} started this process ({} is set) and cannot start Tidepool on several nodes: "
                      "use mpirun, mpiexec or srun; unset {} to run alone",
                      refused.name, refused.variable, refused.variable));
  return Launcher{};
}

}  // namespace

std::string launcher_name(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::open_mpi:
      return "Open MPI's mpirun";
    case LauncherKind::mpich:
      return "MPICH's mpiexec";
    case LauncherKind::slurm:
      return "Slurm's srun";
    case LauncherKind::none:
      break;
  }
  return "no launcher";
}

std::string library_name(MpiLibrary library) {
  return library == MpiLibrary::open_mpi ? "Open MPI" : "MPICH";
}

Result<Launcher> find_launcher(const Environment& get) {
  std::vector<Found> found;
  for (const Variables& variables : launchers) {
    TRY_ASSIGN(std::optional<Found> one, find_one(variables, get));
    if (one) found.push_back(std::move(*one));
  }
  if (found.empty()) return none_found(get);
  for (size_t i = 1; i < found.size(); ++i) {
    const Found &a = found[0], &b = found[i];
    // srun --mpi=pmi2 itself sets PMI_RANK and PMI_SIZE, with the same numbers.
    if (!agree(a.launcher, b.launcher))
      return usage_error(
          fmt::format("two launchers disagree: {} says {}, {} says {}. Start Tidepool with one of them "
                      "(inside Slurm: srun, or mpirun once from the batch script), or unset the "
                      "variables of the other",
                      launcher_name(a.launcher.kind), a.shown, launcher_name(b.launcher.kind), b.shown));
  }
  Launcher out = found[0].launcher;
  const Launcher& last = found.back().launcher;
  // PMI_RANK under srun is Slurm's own; the local rank is then in SLURM_LOCALID.
  if (out.kind == LauncherKind::mpich && last.kind == LauncherKind::slurm && out.size == last.size)
    out = last;
  find_library(out, get);
  return out;
}

}  // namespace tidepool
