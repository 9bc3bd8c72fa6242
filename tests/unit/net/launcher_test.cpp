// Launchers from environment variables: which one, rank and size, and variables that contradict each other.
#include "net/launcher.h"

#include <gmock/gmock.h>

#include <map>

namespace tidepool::launcher_test {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<Launcher> find(const Variables& variables) {
  return find_launcher([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables open_mpi(const std::string& rank, const std::string& size, const std::string& local = "0") {
  return {
      {"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_LOCAL_RANK", local}};
}
Variables pmi(const std::string& rank, const std::string& size) {
  return {{"PMI_RANK", rank}, {"PMI_SIZE", size}, {"MPI_LOCALRANKID", "0"}};
}
Variables slurm(const std::string& rank, const std::string& size) {
  return {{"SLURM_PROCID", rank}, {"SLURM_STEP_NUM_TASKS", size}, {"SLURM_LOCALID", "1"}};
}
Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

std::string refusal(const Variables& variables) {
  const Result<Launcher> found = find(variables);
  EXPECT_FALSE(found);
  if (found) return "found";
  EXPECT_EQ(found.error().kind, ErrorKind::usage);
  return found.error().message;
}

TEST(Launcher, NoVariablesMeanOneNode) {
  EXPECT_EQ(find({}).value(), Launcher{});
  EXPECT_EQ(find({{"PATH", "/bin"}}).value().kind, LauncherKind::none);
}

TEST(Launcher, OpenMpiGivesRankSizeAndLocalRank) {
  const Launcher expected{LauncherKind::open_mpi, 3, 4, 1, true, MpiLibrary::open_mpi};
  EXPECT_EQ(find(open_mpi("3", "4", "1")).value(), expected);
}

TEST(Launcher, PmiMeansMpich) {
  const Launcher expected{LauncherKind::mpich, 1, 2, 0, true, MpiLibrary::mpich};
  EXPECT_EQ(find(pmi("1", "2")).value(), expected);
}

TEST(Launcher, SlurmSaysWhichLibraryItCanConnect) {
  EXPECT_EQ(find(slurm("2", "3") + Variables{{"PMIX_RANK", "2"}}).value(),
            (Launcher{LauncherKind::slurm, 2, 3, 1, true, MpiLibrary::open_mpi}));
  EXPECT_EQ(find(slurm("2", "3") + Variables{{"PMI_FD", "7"}}).value(),
            (Launcher{LauncherKind::slurm, 2, 3, 1, true, MpiLibrary::mpich}));
  EXPECT_FALSE(find(slurm("2", "3")).value().library_known);
}

TEST(Launcher, PmiOfSlurmIsSlurm) {
  EXPECT_EQ(find(slurm("1", "2") + pmi("1", "2")).value(),
            (Launcher{LauncherKind::slurm, 1, 2, 1, true, MpiLibrary::mpich}));
}

// A batch script and a shell of salloc have SLURM_PROCID and SLURM_NTASKS, and run once.
TEST(Launcher, ASlurmBatchScriptStartsNothing) {
  EXPECT_EQ(find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}}).value(), Launcher{});
}

TEST(Launcher, OpenMpiInsideSlurmAgrees) {
  EXPECT_EQ(find(open_mpi("1", "2") + slurm("1", "2")).value().kind, LauncherKind::open_mpi);
}

// Slurm starts a daemon of mpirun per host; the ranks inherit the daemon's variables.
TEST(Launcher, RanksOfADaemonThatSlurmStartedAreMpiruns) {
  const Launcher found = find(open_mpi("5", "8") + slurm("0", "3")).value();
  EXPECT_EQ(found.kind, LauncherKind::open_mpi);
  EXPECT_EQ(found.rank, 5u);
}

TEST(Launcher, AnMpirunInEachTaskOfSlurmIsRefused) {
  EXPECT_THAT(refusal(open_mpi("0", "1") + slurm("2", "4")),
              AllOf(HasSubstr("Open MPI's mpirun says OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1"),
                    HasSubstr("Slurm's srun says SLURM_PROCID=2, SLURM_STEP_NUM_TASKS=4")));
}

TEST(Launcher, TwoLaunchersThatDisagreeAreBothNamed) {
  EXPECT_THAT(refusal(open_mpi("0", "2") + pmi("1", "2")),
              AllOf(HasSubstr("Open MPI's mpirun"), HasSubstr("PMI_RANK=1"), HasSubstr("MPICH's mpiexec")));
}

TEST(Launcher, VariablesThatMakeNoSenseAreNamed) {
  EXPECT_THAT(refusal(open_mpi("two", "4")), HasSubstr("OMPI_COMM_WORLD_RANK=two"));
  EXPECT_THAT(refusal(open_mpi("-1", "4")), HasSubstr("OMPI_COMM_WORLD_RANK=-1"));
  EXPECT_THAT(refusal(open_mpi("4", "4")), HasSubstr("OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_THAT(refusal(open_mpi("0", "0")), HasSubstr("OMPI_COMM_WORLD_SIZE=0"));
  EXPECT_THAT(refusal(open_mpi("0", "5000")), HasSubstr("at most 1024"));
}

TEST(Launcher, OtherLaunchersAreRefusedByName) {
  EXPECT_THAT(refusal({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}}), HasSubstr("torchrun"));
  EXPECT_THAT(refusal({{"FLUX_TASK_RANK", "0"}}), HasSubstr("Flux"));
}

}  // namespace tidepool::launcher_test
