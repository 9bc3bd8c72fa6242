// The MPI module: the calls of net/mpi_calls.h over one MPI library. Compiled once for each library.
//
// Requests in progress lie without gaps in one array, so that a poll looks at no other.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/mpi_calls.h"

struct TidepoolMpi {
  MPI_Comm comm;
  int rank, size, tag_max;
  uint32_t slots;
  int in_progress;
  MPI_Request* requests;    // [slots], the first in_progress are in use; so are the arrays below
  uint32_t* slot_of;        // [slots] by request
  int* indices;             // [slots] scratch of test()
  MPI_Status* statuses;     // [slots] scratch of test()
  TidepoolMpiEvent* ended;  // [slots], of which ended_count are set, and ended_told have been told
  int ended_count, ended_told;
};

namespace {

int open_mpi(TidepoolMpi** out) {
  // UCX reads other processes' memory through the kernel where nodes share a host, and ends this process if
  // the other one has died.
  setenv("UCX_TLS", "^cma", 0);
  // Pieces over sockets go as messages: the end of a put needs the other node once more, which may be gone.
  setenv("UCX_TCP_PUT_ENABLE", "n", 0);
  int provided = 0;
  // One thread makes all calls, and it is this one.
  int fault = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (fault != MPI_SUCCESS) return fault;
  TidepoolMpi* mpi = static_cast<TidepoolMpi*>(calloc(1, sizeof(TidepoolMpi)));
  if (mpi == nullptr) return MPI_ERR_NO_MEM;
  *out = mpi;
  // Errors come back as values: the default is to end all processes.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  fault = MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
  if (fault != MPI_SUCCESS) return fault;
  MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(mpi->comm, &mpi->rank);
  MPI_Comm_size(mpi->comm, &mpi->size);
  int* tag_max = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &known);
  mpi->tag_max = known != 0 ? *tag_max : 32767;  // which every MPI has
  return MPI_SUCCESS;
}

int rank_of(const TidepoolMpi* mpi) { return mpi->rank; }
int size_of(const TidepoolMpi* mpi) { return mpi->size; }
int tag_max_of(const TidepoolMpi* mpi) { return mpi->tag_max; }

template <class T>
bool take(T*& out, uint32_t count) {
  out = static_cast<T*>(calloc(count, sizeof(T)));
  return out != nullptr;
}

int reserve(TidepoolMpi* mpi, uint32_t slots) {
  mpi->slots = slots;
  return take(mpi->requests, slots) && take(mpi->slot_of, slots) && take(mpi->indices, slots) &&
         take(mpi->statuses, slots) && take(mpi->ended, slots);
}

int begun(TidepoolMpi* mpi, uint32_t slot, int fault) {
  if (fault != MPI_SUCCESS) return fault;
  mpi->slot_of[mpi->in_progress++] = slot;
  return MPI_SUCCESS;
}

int send(TidepoolMpi* mpi, uint32_t slot, int peer, int tag, const void* memory, int bytes) {
  return begun(mpi, slot,
               MPI_Isend(memory, bytes, MPI_BYTE, peer, tag, mpi->comm, &mpi->requests[mpi->in_progress]));
}

int receive(TidepoolMpi* mpi, uint32_t slot, int peer, int tag, void* memory, int bytes) {
  return begun(mpi, slot,
               MPI_Irecv(memory, bytes, MPI_BYTE, peer, tag, mpi->comm, &mpi->requests[mpi->in_progress]));
}

// Takes the ended requests out of the array. Their order does not matter, so the gaps are closed.
void close_gaps(TidepoolMpi* mpi) {
  int kept = 0;
  for (int i = 0; i < mpi->in_progress; ++i) {
    if (mpi->requests[i] == MPI_REQUEST_NULL) continue;
    mpi->requests[kept] = mpi->requests[i];
    mpi->slot_of[kept++] = mpi->slot_of[i];
  }
  mpi->in_progress = kept;
}

TidepoolMpiEvent event_of(TidepoolMpi* mpi, int i, int result) {
  const int at = mpi->indices[i];
  int bytes = 0;
  TidepoolMpiEvent out = {mpi->slot_of[at], 0, 0};
  // The error of a status is set only if some request failed.
  if (result == MPI_ERR_IN_STATUS) out.fault = mpi->statuses[i].MPI_ERROR;
  if (out.fault == MPI_SUCCESS && MPI_Get_count(&mpi->statuses[i], MPI_BYTE, &bytes) == MPI_SUCCESS &&
      bytes > 0)
    out.bytes = static_cast<uint64_t>(bytes);
  mpi->requests[at] = MPI_REQUEST_NULL;  // also of a request that failed
  return out;
}

int test(TidepoolMpi* mpi) {
  mpi->ended_count = mpi->ended_told = 0;
  int count = 0;
  const int result = MPI_Testsome(mpi->in_progress, mpi->requests, &count, mpi->indices, mpi->statuses);
  if (result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS) return result;
  if (count == MPI_UNDEFINED || count <= 0) return MPI_SUCCESS;
  for (int i = 0; i < count; ++i) mpi->ended[i] = event_of(mpi, i, result);
  mpi->ended_count = count;
  close_gaps(mpi);
  return MPI_SUCCESS;
}

int poll(TidepoolMpi* mpi, TidepoolMpiEvent* events, int events_max, int* fault) {
  if (mpi->ended_told == mpi->ended_count) {
    *fault = test(mpi);
    if (*fault != MPI_SUCCESS) return -1;
  }
  int count = mpi->ended_count - mpi->ended_told;
  if (count > events_max) count = events_max;
  if (count > 0) memcpy(events, mpi->ended + mpi->ended_told, static_cast<size_t>(count) * sizeof(*events));
  mpi->ended_told += count;
  return count;
}

#ifdef MPICH_VERSION
// Leaves without MPI_Finalize: over sockets, MPICH 4.0 with UCX hangs there if the nodes end at the same
// time, because a node that closes its connections first leaves the others waiting for them. Its launcher
// only needs to be told, in PMI's protocol, or it takes the end of the process for a crash and kills the
// others.
void close(TidepoolMpi*) {
  const char* const number = getenv("PMI_FD");
  if (number == nullptr || getenv("SLURM_STEP_ID") != nullptr) return;
  const char words[] = "cmd=finalize\n";
  char answer[64];
  if (write(atoi(number), words, sizeof(words) - 1) > 0 && read(atoi(number), answer, sizeof(answer)) < 0)
    return;
}
#else
// The receives that still listen are given back first: MPI may wait for them.
void close(TidepoolMpi* mpi) {
  for (int i = 0; i < mpi->in_progress; ++i) {
    MPI_Cancel(&mpi->requests[i]);
    MPI_Request_free(&mpi->requests[i]);
  }
  mpi->in_progress = 0;
  MPI_Comm_free(&mpi->comm);
  MPI_Finalize();
}
#endif

void fault_text(int fault, char* text, size_t text_bytes) {
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(fault, words, &length) != MPI_SUCCESS)
    snprintf(words, sizeof(words), "error %d", fault);
  snprintf(text, text_bytes, "%s", words);
}

void library(char* text, size_t text_bytes) {
  char words[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(words, &length);
  snprintf(text, text_bytes, "%s", words);
}

const TidepoolMpiCalls calls = {
    TIDEPOOL_MPI_CALLS_VERSION,
    open_mpi,
    rank_of,
    size_of,
    tag_max_of,
    reserve,
    send,
    receive,
    poll,
    close,
    fault_text,
    library,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const TidepoolMpiCalls* tidepool_mpi_calls(void) {
  return &calls;
}
