// Device for kernel tests: fresh state for each test, a stream, and arrays in device memory. Plain device
// memory, because compute-sanitizer does not check accesses to managed memory. Tests skip themselves if there
// is no GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/support/kernel_fixture.h"

#ifdef CUDA_EMULATED
#include "control.h"
#endif

namespace tidepool::test {

// A pointer into device memory: passed to calls, never dereferenced by the host.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(T* at) : at_(at) {}
  OnDevice(std::nullptr_t) : at_(nullptr) {}
  operator T*() const { return at_; }
  T* operator+(u64 elements) const { return at_ + elements; }
  T& operator*() const = delete;
  T& operator[](u64) const = delete;
  T* operator->() const = delete;

 private:
  T* at_;
};

// An array in device memory.
// REQUIRES: to read or write it, the streams that use it were waited for.
class DeviceArray {
 public:
  explicit DeviceArray(u64 bytes, u64 shift = 0) : bytes_(bytes), shift_(shift) {
    EXPECT_EQ(cudaMalloc(&base_, bytes + shift), cudaSuccess);
  }
  DeviceArray(const void* from, u64 bytes, u64 shift = 0) : DeviceArray(bytes, shift) { write(from, bytes); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { EXPECT_EQ(cudaFree(base_), cudaSuccess); }

  std::byte* data() const { return base_ + shift_; }
  u64 bytes() const { return bytes_; }
  template <class T>
  OnDevice<T> as() const {
    return OnDevice<T>(reinterpret_cast<T*>(data()));
  }

  void write(const void* from, u64 bytes) const {
    EXPECT_LE(bytes, bytes_);
    copy(data(), from, bytes);
  }
  template <class T>
  void set(const T& value) const {
    write(&value, sizeof(T));
  }
  // RETURNS: a copy of the whole array.
  template <class T>
  std::vector<T> values() const {
    std::vector<T> out(bytes_ / sizeof(T));
    copy(out.data(), data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  T value(u64 at = 0) const {
    return values<T>()[at];
  }

 private:
  static void copy(void* to, const void* from, u64 bytes) {
#ifdef CUDA_EMULATED
    std::memcpy(to, from, bytes);
#else
    // From pageable memory it returns before the device has the bytes, and the tests' streams do not wait for
    // the default stream.
    EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);
#endif
  }

  std::byte* base_ = nullptr;
  u64 bytes_, shift_;
};

// Numbers on the device in fp32, bf16 or fp16, with their rounded values on the host. `shift` elements off
// the alignment.
class DeviceValues {
 public:
  DeviceValues(const std::vector<float>& from, Precision precision, u64 shift = 0)
      : values_(rounded_to(from, precision)),
        precision_(precision),
        array_(precision == Precision::fp32 ? static_cast<const void*>(values_.data())
                                            : HalfCopy(from, precision).bits.data(),
               from.size() * width(), shift * width()) {}
  // Leaves the array unwritten.
  DeviceValues(u64 elements, Precision precision, u64 shift = 0)
      : values_(elements), precision_(precision), array_(elements * width(), shift * width()) {}

  Values values() const { return {array_.data(), precision_}; }
  const std::vector<float>& given() const { return values_; }  // rounded to the precision
  std::vector<float> now() const {
    if (precision_ == Precision::fp32) return array_.values<float>();
    std::vector<float> out;
    for (const u16 half : array_.values<u16>()) out.push_back(value_of_half(half, precision_));
    return out;
  }
  // REQUIRES: a 16-bit precision.
  std::vector<u16> halves() const { return array_.values<u16>(); }

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

// A 16-bit result is rounded once more.
inline double tolerance(Precision precision, double fp32) {
  return precision == Precision::fp32 ? fp32 : 4e-3;
}

}  // namespace tidepool::test
