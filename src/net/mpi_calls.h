// The C interface between the program and its MPI modules.
//
// The program is bound to no MPI library. A module is compiled against one library, and loaded only if a
// launcher started the program. No C++ type crosses the interface. All calls come from one thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Changes with any change below.
#define TIDEPOOL_MPI_CALLS_VERSION 1

struct TidepoolMpi;

struct TidepoolMpiEvent {
  uint32_t slot;
  int fault;  // 0, or MPI's error code
  uint64_t bytes;
};

// Results of type int are 0 or MPI's error code.
struct TidepoolMpiCalls {
  uint32_t version;
  // Initialises MPI and makes a communicator of all processes. Blocks until all processes have called it.
  // `out` is null only if MPI cannot start at all.
  int (*open)(TidepoolMpi** out);
  int (*rank)(const TidepoolMpi*);
  int (*size)(const TidepoolMpi*);
  int (*tag_max)(const TidepoolMpi*);
  // Takes memory for so many requests. RETURNS: 0 if there is none.
  int (*reserve)(TidepoolMpi*, uint32_t slots);
  int (*send)(TidepoolMpi*, uint32_t slot, int peer, int tag, const void* memory, int bytes);
  int (*receive)(TidepoolMpi*, uint32_t slot, int peer, int tag, void* memory, int bytes);
  // RETURNS: the number of ended requests, written to `events`; -1 and `fault` if MPI failed.
  int (*poll)(TidepoolMpi*, TidepoolMpiEvent* events, int events_max, int* fault);
  void (*close)(TidepoolMpi*);  // MPI_Finalize
  void (*fault_text)(int fault, char* text, size_t text_bytes);
  void (*library)(char* text, size_t text_bytes);
};

// The only symbol of a module.
#define TIDEPOOL_MPI_CALLS_SYMBOL "tidepool_mpi_calls"
typedef const TidepoolMpiCalls* (*TidepoolMpiCallsFunction)(void);

}  // extern "C"
