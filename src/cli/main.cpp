#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/process/out_of_memory.h"
#include "base/result.h"
#include "base/version.h"
#include "base/write_within.h"
#include "cli/cli.h"
#include "cli/standard_streams.h"
#include "io/sudden_end.h"
#include "run/saves/save_moments.h"

#ifdef TIDEPOOL_HAS_CUDA
#include "executor/cuda/cuda_devices.h"
#endif

namespace {

int run(const std::vector<std::string>& words) {
  const auto internal = [](const std::exception& e) {
    tidepool::write_within(STDERR_FILENO, std::string("tidepool: internal failure: ") + e.what() + "\n");
    return static_cast<int>(tidepool::ErrorKind::internal);
  };
  try {
    return tidepool::run_cli(words);
  } catch (const std::system_error& e) {  // fmt throws it if a write failed
    const bool output = std::ferror(stdout) != 0 || std::ferror(stderr) != 0;
    return output ? tidepool::output_lost(e.code().value()) : internal(e);
  } catch (const std::bad_alloc&) {
    tidepool::end_out_of_memory();
  } catch (const std::exception& e) {  // thrown by the standard library: our code does not throw
    return internal(e);
  }
}

void be_ready() {
  tidepool::SaveSignal::hear_early();
  tidepool::end_when_out_of_memory(tidepool::remove_leftovers);
}
// Runs before the static objects of the program and its libraries are constructed, because those allocate,
// too, and take time in which a signal may come.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = be_ready;

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` then fails with an error
  tidepool::fill_missing_streams();
  tidepool::set_commit(TIDEPOOL_COMMIT);
#ifdef TIDEPOOL_HAS_CUDA
  tidepool::register_cuda();
#endif
  return tidepool::flush_output(run(std::vector<std::string>(argv + 1, argv + argc)));
}
