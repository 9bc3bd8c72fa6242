// The NCCL stand-in is faithful: exchanges wait for all ranks, and calls that would hang on real GPUs are
// reported.
#include <functional>
#include <future>

#include "executor/cuda/nccl_library.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/places.h"

namespace tidepool::test::emulated_nccl_test {

constexpr int ranks = 2;

class EmulatedNccl : public ::testing::Test {
 protected:
  EmulatedNccl() {
    ::setenv("TIDEPOOL_NCCL", built_file("tests/libemulated_nccl.so").c_str(), 1);
    emulated_cuda::reset({.devices = ranks});
    library_ = NcclLibrary::load().value();
    constexpr int devices[] = {0, 1};
    EXPECT_EQ(nccl().init_all(comms_, ranks, devices), 0);
    for (int r = 0; r < ranks; ++r) {
      cudaSetDevice(r);
      for (cudaStream_t* stream : {&first_[r], &second_[r]})
        EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
      EXPECT_EQ(cudaMalloc(&memory_[r], 64), cudaSuccess);
    }
  }
  ~EmulatedNccl() override {
    emulated_cuda::set_faults({});
    for (int r = 0; r < ranks; ++r) {
      for (cudaStream_t stream : {first_[r], second_[r]}) cudaStreamDestroy(stream);
      if (comms_[r] != nullptr) nccl().destroy(comms_[r]);
      cudaFree(memory_[r]);
    }
  }

  const NcclLibrary::Calls& nccl() const { return library_->calls(); }
  int broadcast(int rank, std::size_t bytes, cudaStream_t stream, int root = 1) {
    return nccl().broadcast(memory_[rank], memory_[rank], bytes, NcclLibrary::type_byte, root, comms_[rank],
                            stream);
  }
  void broadcast_to_all(const cudaStream_t (&streams)[ranks]) {
    nccl().group_start();
    for (int r = 0; r < ranks; ++r) broadcast(r, 4, streams[r]);
    EXPECT_EQ(nccl().group_end(), 0);
  }

  std::unique_ptr<NcclLibrary> library_;
  ncclComm* comms_[ranks] = {};
  cudaStream_t first_[ranks] = {}, second_[ranks] = {};
  std::byte* memory_[ranks] = {};
};
using EmulatedNcclDeath = EmulatedNccl;

void wait_for_signal(void* signal) { static_cast<std::promise<void>*>(signal)->get_future().wait(); }

TEST_F(EmulatedNccl, NothingArrivesBeforeAllStreamsHaveCome) {
  std::promise<void> signal;
  cudaLaunchHostFunc(first_[1], wait_for_signal, &signal);
  cudaMemsetAsync(memory_[1], 7, 4, first_[1]);
  broadcast_to_all(first_);
  EXPECT_EQ(cudaStreamQuery(first_[0]), cudaErrorNotReady) << "its peer has not come";
  signal.set_value();
  EXPECT_EQ(cudaStreamSynchronize(first_[0]), cudaSuccess);
  EXPECT_EQ(memory_[0][3], std::byte{7}) << "what the root had when it came";
  EXPECT_EQ(cudaStreamSynchronize(first_[1]), cudaSuccess);
}

TEST_F(EmulatedNccl, SendsMeetReceives) {
  cudaMemsetAsync(memory_[0], 1, 64, first_[0]);
  cudaMemsetAsync(memory_[1], 2, 64, first_[1]);
  nccl().group_start();
  for (int r = 0; r < ranks; ++r) {
    nccl().send(memory_[r], 4, NcclLibrary::type_float, 1 - r, comms_[r], first_[r]);
    nccl().recv(memory_[r] + 32, 4, NcclLibrary::type_float, 1 - r, comms_[r], first_[r]);
  }
  EXPECT_EQ(nccl().group_end(), 0);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(cudaStreamSynchronize(first_[r]), cudaSuccess);
    EXPECT_EQ(memory_[r][47], std::byte(2 - r));
    EXPECT_EQ(memory_[r][48], std::byte(1 + r));
  }
}

TEST_F(EmulatedNccl, AnExchangeThatNeverEndsIsReportedAndCanBeAborted) {
  emulated_cuda::set_faults({.exchange = 1});
  broadcast_to_all(first_);
  int error = 0;
  while (error == 0) nccl().async_error(comms_[0], &error);  // ends once both have arrived
  EXPECT_EQ(error, 6);
  EXPECT_EQ(cudaStreamQuery(first_[0]), cudaErrorNotReady);
  for (ncclComm*& comm : comms_) nccl().abort(std::exchange(comm, nullptr));
  for (cudaStream_t stream : first_) EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST_F(EmulatedNcclDeath, CallsThatWouldHangStopTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto group = [&](const std::function<void()>& body) {
    nccl().group_start();
    body();
    nccl().group_end();
  };
  EXPECT_DEATH(group([&] { broadcast(0, 4, first_[0]); }), "rank 1 is not in a group of 2");
  EXPECT_DEATH(group([&] {
                 broadcast(0, 4, first_[0]);
                 broadcast(1, 8, first_[1]);
               }),
               "rank 0 has 4 bytes from 1, rank 1 has 8 from 1");
  EXPECT_DEATH(group([&] {
                 broadcast(0, 4, first_[0]);
                 broadcast(1, 4, first_[1]);
                 nccl().send(memory_[0], 4, NcclLibrary::type_float, 1, comms_[0], first_[0]);
               }),
               "rank 0 sends 1 times to rank 1, which receives 0 times");
  EXPECT_DEATH(broadcast(0, 4, first_[0]), "outside of a group");
  EXPECT_DEATH(group([&] { broadcast(0, 4, first_[1]); }), "its stream is of 1");
  EXPECT_DEATH(group([&] { broadcast(0, 400, first_[0]); }), "not memory of device 0");
}

// Both ranks are in both groups, but their streams reach the groups in different orders.
TEST_F(EmulatedNcclDeath, RanksThatComeInDifferentOrdersStopTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::promise<void> never;
        cudaLaunchHostFunc(first_[0], wait_for_signal, &never);
        broadcast_to_all(first_);
        broadcast_to_all(second_);
        cudaStreamSynchronize(second_[0]);
      },
      "comes to exchange 2 where 1 is next");
}

TEST(EmulatedNcclLibrary, AMissingOrOldNcclIsRefused) {
  const auto refusal = [](const std::string& file) {
    ::setenv("TIDEPOOL_NCCL", file.c_str(), 1);
    const auto library = NcclLibrary::load();
    EXPECT_FALSE(library);
    return library ? Error{} : library.error();
  };
  emulated_cuda::reset({.nccl_version = 2604});
  for (const auto& [file, words] :
       {std::pair{std::string("no-such-library.so.2"), "no-such-library.so.2"},
        std::pair{std::string("libm.so.6"), "libm.so.6 is something else"},
        std::pair{built_file("tests/libemulated_nccl.so"), "version 2.6.4 is older than 2.7"}}) {
    const Error error = refusal(file);
    EXPECT_EQ(error.kind, ErrorKind::usage);
    for (const char* word : {words, "install", "machine.executor=cuda:0"})
      EXPECT_NE(error.message.find(word), std::string::npos) << error.message;
  }
}

}  // namespace tidepool::test::emulated_nccl_test
