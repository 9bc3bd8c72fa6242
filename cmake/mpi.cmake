# MPI modules: src/net/mpi/mpi_module.cpp, compiled once for each MPI library that is installed, beside the
# program, which loads one of them if a launcher started it. The program itself is bound to no MPI.

set(TIDEPOOL_MPI_LIBRARIES "")  # names of modules that are built: openmpi, mpich

# tidepool_mpi_module(NAME TITLE PACKAGE): PACKAGE is pkg-config's name.
function(tidepool_mpi_module name title package)
  pkg_check_modules(mpi_${name} QUIET IMPORTED_TARGET ${package})
  if(NOT mpi_${name}_FOUND)
    message(STATUS "${title} was not found: several nodes cannot be started with it (docs/several-nodes.md)")
    return()
  endif()
  message(STATUS "${title} ${mpi_${name}_VERSION}: tidepool_${name} is built")
  add_library(tidepool_${name} MODULE ${PROJECT_SOURCE_DIR}/src/net/mpi/mpi_module.cpp)
  target_include_directories(tidepool_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tidepool_${name} PRIVATE tidepool_flags PkgConfig::mpi_${name})
  # Hidden: the two libraries and the program share no names.
  set_target_properties(tidepool_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_options(tidepool_${name} PRIVATE -Wl,--exclude-libs,ALL)
  set(TIDEPOOL_MPI_LIBRARIES ${TIDEPOOL_MPI_LIBRARIES} ${name} PARENT_SCOPE)
endfunction()

# The program finds a module when it runs, so nothing else depends on one.
tidepool_mpi_module(openmpi "Open MPI" ompi-c)
tidepool_mpi_module(mpich "MPICH" mpich)
