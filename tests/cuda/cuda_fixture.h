// A device for kernel tests: fresh state for each test, a stream, and arrays that both sides may touch.
// Emulated, that is the host's memory; on a GPU it is managed memory, and tests skip themselves where there
// is none.
#pragma once

#include <cuda_runtime.h>

#include <cstring>

#include "tests/support/kernel_fixture.h"

#ifdef CUDA_EMULATED
#include "control.h"
#endif

namespace tidepool::test {

// An array in device memory. REQUIRES, to look at it: the streams that use it were waited for.
class DeviceArray {
 public:
  explicit DeviceArray(u64 bytes, u64 shift = 0) : bytes_(bytes), shift_(shift) {
    EXPECT_EQ(allocate(bytes + shift), cudaSuccess);
  }
  DeviceArray(const void* from, u64 bytes, u64 shift = 0) : DeviceArray(bytes, shift) {
    std::memcpy(data(), from, bytes);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { EXPECT_EQ(cudaFree(base_), cudaSuccess); }

  std::byte* data() const { return base_ + shift_; }
  u64 bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

 private:
  cudaError_t allocate(u64 bytes) {
#ifdef CUDA_EMULATED
    return cudaMalloc(&base_, bytes);
#else
    return cudaMallocManaged(&base_, bytes);
#endif
  }

  std::byte* base_ = nullptr;
  u64 bytes_, shift_;
};

// Numbers on the device in fp32, bf16 or fp16, and what they are there. `shift` elements off the alignment.
class DeviceValues {
 public:
  DeviceValues(const std::vector<float>& from, Precision precision, u64 shift = 0)
      : values_(rounded_to(from, precision)),
        precision_(precision),
        array_(precision == Precision::fp32 ? static_cast<const void*>(values_.data())
                                            : HalfCopy(from, precision).bits.data(),
               from.size() * width(), shift * width()) {}
  // Not written yet.
  DeviceValues(u64 elements, Precision precision, u64 shift = 0)
      : values_(elements), precision_(precision), array_(elements * width(), shift * width()) {}

  Values values() const { return {array_.data(), precision_}; }
  const std::vector<float>& given() const { return values_; }  // rounded to the precision
  std::vector<float> now() const {
    std::vector<float> out(values_.size());
    for (u64 i = 0; i < out.size(); ++i) {
      out[i] = precision_ == Precision::fp32 ? array_.as<float>()[i]
                                             : value_of_half(array_.as<u16>()[i], precision_);
    }
    return out;
  }

 private:
  u64 width() const { return value_bytes(precision_); }

  std::vector<float> values_;
  Precision precision_;
  DeviceArray array_;
};

class CudaTest : public testing::Test {
 protected:
#ifdef CUDA_EMULATED
  CudaTest() {
    emulated_cuda::reset({.seed = static_cast<u64>(testing::UnitTest::GetInstance()->random_seed()) + 1});
    make_stream();
  }
#else
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) GTEST_SKIP() << "no GPU here";
    make_stream();
  }
#endif
  ~CudaTest() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    }
  }

  void make_stream() { ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  void synchronize() { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

  cudaStream_t stream_ = nullptr;
};

// A result in 16 bits is rounded once more.
inline double tolerance(Precision precision, double fp32) {
  return precision == Precision::fp32 ? fp32 : 4e-3;
}

}  // namespace tidepool::test
