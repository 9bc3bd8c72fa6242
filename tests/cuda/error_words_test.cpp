// Tests the advice in messages of CUDA errors. Needs no GPU.
#include <gmock/gmock.h>

#include "kernels/cuda/cuda_error.h"

namespace tidepool::error_words_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::string advice(int error) {
  const Error told = cuda_error(static_cast<cudaError_t>(error), "testing");
  EXPECT_EQ(told.kind, ErrorKind::io);
  EXPECT_THAT(told.message, HasSubstr("testing: CUDA says"));
  return told.message;
}

TEST(CudaErrorWords, ForHardwareErrorsAdviseAReset) {
  for (const int error : {int{cudaErrorNvlinkUncorrectable}, int{cudaErrorHardwareStackError}, 226})
    for (const char* word : {"nvidia-smi -q -d ECC", "Xid", "reboot", "last checkpoint"})
      EXPECT_THAT(advice(error), HasSubstr(word)) << error;
}

TEST(CudaErrorWords, ForWrongKernelsAdviseABugReport) {
  for (const cudaError_t error : {cudaErrorMisalignedAddress, cudaErrorIllegalInstruction, cudaErrorAssert,
                                  cudaErrorInvalidAddressSpace, cudaErrorInvalidPc})
    for (const char* word : {"report this", "command", "last checkpoint"})
      EXPECT_THAT(advice(error), HasSubstr(word)) << error;
  EXPECT_THAT(advice(cudaErrorIllegalAddress), HasSubstr("ours or of the GPU"));
}

TEST(CudaErrorWords, ForADisplaysTimeoutNameTheWatchdog) {
  EXPECT_THAT(advice(cudaErrorLaunchTimeout), HasSubstr("display"));
}

TEST(CudaErrorWords, ForOtherErrorsAreGeneral) {
  EXPECT_THAT(advice(cudaErrorUnknown), HasSubstr("nvidia-smi and dmesg"));
  EXPECT_THAT(advice(cudaErrorUnknown), Not(HasSubstr("report")));
}

}  // namespace tidepool::error_words_test
