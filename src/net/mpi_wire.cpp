#include "net/mpi_wire.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "base/check.h"
#include "net/mpi_calls.h"

namespace tidepool {
namespace {

constexpr u32 events_max = 64;

const char* packages_of(MpiLibrary library) {
  return library == MpiLibrary::open_mpi ? "libopenmpi-dev openmpi-bin" : "libmpich-dev mpich";
}

Error no_module(MpiLibrary library, const std::string& path, const std::string& why) {
  return usage_error(
      fmt::format("several nodes need {}, and {} {}: install {} (apt install {}), then build again with "
                  "cmake --preset release && ninja -C build/release, on every node",
                  library_name(library), path, why, library_name(library), packages_of(library)));
}

std::string path_of(MpiLibrary library, const std::string& folder) {
  return fmt::format("{}/{}", folder, module_file(library));
}

bool is_there(MpiLibrary library, const std::string& folder) {
  return ::access(path_of(library, folder).c_str(), R_OK) == 0;
}

// "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\nMPICH Release date: ..."
std::string short_version(const TidepoolMpiCalls& calls) {
  std::array<char, 256> text{};
  calls.library(text.data(), text.size());
  std::string out(text.data());
  out = out.substr(0, out.find_first_of(",\n"));
  const size_t word = out.find(" Version:\t");
  return word == std::string::npos ? out : out.replace(word, 10, " v");
}

// MPICH explains an error in a line for each function that it passed; the last line has the cause.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  text.erase(0, text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

class MpiWire final : public Wire {
 public:
  MpiWire(const TidepoolMpiCalls& calls, TidepoolMpi* mpi)
      : calls_(calls), mpi_(mpi), describe_(short_version(calls)) {}

  u32 node() const override { return static_cast<u32>(calls_.rank(mpi_)); }
  u32 nodes() const override { return static_cast<u32>(calls_.size(mpi_)); }
  u32 tag_max() const override { return static_cast<u32>(calls_.tag_max(mpi_)); }
  void reserve(u32 slots) override { CHECK(calls_.reserve(mpi_, slots) != 0, slots); }
  int send(u32 slot, u32 peer, u32 tag, std::span<const std::byte> bytes) override {
    return calls_.send(mpi_, slot, static_cast<int>(peer), static_cast<int>(tag), bytes.data(),
                       static_cast<int>(bytes.size()));
  }
  int receive(u32 slot, u32 peer, u32 tag, std::span<std::byte> bytes) override {
    return calls_.receive(mpi_, slot, static_cast<int>(peer), static_cast<int>(tag), bytes.data(),
                          static_cast<int>(bytes.size()));
  }
  int poll(std::span<WireEvent> ended, int& fault) override {
    std::array<TidepoolMpiEvent, events_max> events;
    const int room = static_cast<int>(std::min<size_t>(ended.size(), events.size()));
    const int count = calls_.poll(mpi_, events.data(), room, &fault);
    for (size_t i = 0; static_cast<int>(i) < count; ++i)
      ended[i] = {events[i].slot, events[i].fault, events[i].bytes};
    return count;
  }
  std::string fault_text(int fault) const override {
    std::array<char, 2048> text{};
    calls_.fault_text(fault, text.data(), text.size());
    return last_line(text.data());
  }
  void close() override { calls_.close(mpi_); }
  std::string describe() const override { return describe_; }

 private:
  const TidepoolMpiCalls& calls_;
  TidepoolMpi* mpi_;  // never freed: MPI may write into it until the process ends
  std::string describe_;
};

Result<const TidepoolMpiCalls*> load(MpiLibrary library, const std::string& folder) {
  const std::string path = path_of(library, folder);
  if (!is_there(library, folder)) return no_module(library, path, "is missing");
  // Never closed: MPI's threads and handlers stay. Local: no symbol of MPI reaches other libraries.
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return no_module(library, path, fmt::format("cannot be loaded ({})", ::dlerror()));
  const auto function =
      reinterpret_cast<TidepoolMpiCallsFunction>(::dlsym(module, TIDEPOOL_MPI_CALLS_SYMBOL));
  if (function == nullptr || function()->version != TIDEPOOL_MPI_CALLS_VERSION)
    return no_module(library, path, "belongs to another version of Tidepool");
  return function();
}

// MPICH's launcher sends SIGUSR1 to the other processes when one has died and they are to live on
// (-disable-auto-cleanup). Unhandled, the signal would end them.
void outlive_notices() {
  struct sigaction now {};
  if (::sigaction(SIGUSR1, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  now.sa_handler = SIG_IGN;
  ::sigaction(SIGUSR1, &now, nullptr);
}

const char* advice_for(const Launcher& launcher, MpiLibrary library) {
  if (launcher.kind == LauncherKind::slurm)
    return library == MpiLibrary::open_mpi ? "start with srun --mpi=pmix" : "start with srun --mpi=pmi2";
  return library == MpiLibrary::open_mpi ? "start with Open MPI's mpirun (mpirun.openmpi)"
                                         : "start with MPICH's mpiexec (mpiexec.mpich)";
}

}  // namespace

std::string module_file(MpiLibrary library) {
  return library == MpiLibrary::open_mpi ? "libtidepool_openmpi.so" : "libtidepool_mpich.so";
}

Result<MpiLibrary> choose_library(const Launcher& launcher, const std::string& folder) {
  if (launcher.library_known) {
    if (!is_there(launcher.library, folder))
      return no_module(launcher.library, path_of(launcher.library, folder), "is missing");
    return launcher.library;
  }
  for (const MpiLibrary library : {MpiLibrary::open_mpi, MpiLibrary::mpich})
    if (is_there(library, folder)) return library;
  return no_module(MpiLibrary::open_mpi, path_of(MpiLibrary::open_mpi, folder), "is missing");
}

Result<std::unique_ptr<Wire>> open_mpi_wire(const Launcher& launcher, MpiLibrary library,
                                            const std::string& folder) {
  TRY_ASSIGN(const TidepoolMpiCalls* const calls, load(library, folder));
  if (library == MpiLibrary::mpich) outlive_notices();
  TidepoolMpi* mpi = nullptr;
  if (const int fault = calls->open(&mpi); fault != 0)
    return usage_error(fmt::format("{} cannot start (error {}): {}", library_name(library), fault,
                                   advice_for(launcher, library)));
  auto wire = std::make_unique<MpiWire>(*calls, mpi);
  if (wire->node() != launcher.rank || wire->nodes() != launcher.size)
    return usage_error(fmt::format("{} says that this is rank {} of {}, and {} that it is rank {} of {}: {}",
                                   wire->describe(), wire->node(), wire->nodes(),
                                   launcher_name(launcher.kind), launcher.rank, launcher.size,
                                   advice_for(launcher, library)));
  return std::unique_ptr<Wire>(std::move(wire));
}

}  // namespace tidepool
