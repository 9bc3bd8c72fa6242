#include "net/connect_nodes.h"

#include <filesystem>

#include "net/mpi_wire.h"
#include "net/wire_transport.h"

namespace tidepool {
namespace {

std::string folder_of_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path().string();
}

}  // namespace

Result<std::unique_ptr<Transport>> connect_nodes(const Launcher& launcher, const TransportOptions& options,
                                                 const std::string& module_folder) {
  const std::string folder = module_folder.empty() ? folder_of_program() : module_folder;
  TRY_ASSIGN(const MpiLibrary library, choose_library(launcher, folder));
  return create_wire_transport([=] { return open_mpi_wire(launcher, library, folder); }, ProcessPlace::here(),
                               options);
}

}  // namespace tidepool
