// Data moved between GPUs arrives whole, and sums are in device order. Uses as many GPUs as there are.
#include "executor/cuda/collectives.h"

#include <algorithm>

#include "executor/cuda/cuda_memory.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/gpu_config.h"

#if !defined(CUDA_EMULATED) && __has_include(<nccl.h>)
#include <nccl.h>
static_assert(ncclInt8 == tidepool::NcclLibrary::type_byte &&
              ncclFloat32 == tidepool::NcclLibrary::type_float);
static_assert(ncclInProgress == tidepool::NcclLibrary::in_progress && sizeof(ncclResult_t) == sizeof(int));
static_assert(std::is_same_v<ncclComm_t, ncclComm*>);
#endif

namespace tidepool::test::collectives_test {

constexpr u64 elements = 3000;

// Memory of one device, accessed through pinned memory.
class Far {
 public:
  Far(int device, u64 count)
      : device_(device), count_(count), near_(PinnedMemory::create(Bytes{count * 4}).value()) {
    cudaSetDevice(device_);
    EXPECT_EQ(cudaMalloc(&data_, count * 4), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  Far(const Far&) = delete;
  ~Far() {
    cudaStreamDestroy(stream_);
    cudaFree(data_);
  }
  float* data() const { return data_; }
  std::span<std::byte> bytes() const { return {reinterpret_cast<std::byte*>(data_), count_ * 4}; }
  void set(const std::vector<float>& values) {
    std::memcpy(near_->memory().data(), values.data(), count_ * 4);
    copy(data_, near_->memory().data(), cudaMemcpyHostToDevice);
  }
  std::vector<float> now() {
    copy(near_->memory().data(), data_, cudaMemcpyDeviceToHost);
    const float* const begin = reinterpret_cast<const float*>(near_->memory().data());
    return {begin, begin + count_};
  }

 private:
  void copy(void* to, const void* from, cudaMemcpyKind kind) {
    cudaSetDevice(device_);
    EXPECT_EQ(cudaMemcpyAsync(to, from, count_ * 4, kind, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  int device_;
  u64 count_;
  std::unique_ptr<PinnedMemory> near_;
  float* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

class CollectivesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tidepool::test::change_timing(0, 3);
    devices_ = std::min(3u, tidepool::test::gpus_here());
    if (devices_ == 0) GTEST_SKIP() << "no GPU here";
    const auto found = NcclLibrary::load();
    if (!found) GTEST_SKIP() << found.error().message;
  }
  // The staging memory holds two slices of 640 floats, so sums take five parts, of which the last is short.
  Result<void> start(Nanos patience = Nanos{60'000'000'000}) {
    CollectivesOptions options{.devices = {}, .patience = patience};
    for (u32 d = 0; d < devices_; ++d) {
      staging_.push_back(std::make_unique<Far>(static_cast<int>(d), 640 * std::max(1u, devices_ - 1)));
      options.devices.push_back({static_cast<int>(d), staging_.back()->bytes()});
    }
    TRY_ASSIGN(collectives_, Collectives::create(std::move(options)));
    return {};
  }
  void synchronize() {
    for (u32 d = 0; d < devices_; ++d) {
      cudaSetDevice(static_cast<int>(d));
      ASSERT_EQ(cudaStreamSynchronize(collectives_->stream(d)), cudaSuccess);
    }
  }
  std::unique_ptr<Far> far(u32 device, u64 count, u64 seed) {
    auto made = std::make_unique<Far>(static_cast<int>(device), count);
    made->set(random_floats(count, seed));
    return made;
  }

  u32 devices_ = 0;
  std::vector<std::unique_ptr<Far>> staging_;
  std::unique_ptr<Collectives> collectives_;
};

TEST_F(CollectivesTest, SumsAreInOrderOfDevice) {
  const auto started = start();
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_NE(collectives_->describe().find("NCCL 2."), std::string::npos) << collectives_->describe();
  std::vector<std::unique_ptr<Far>> from, sums;
  CollectiveParts<ScatteredSum> parts;
  for (u32 d = 0; d < devices_; ++d) from.push_back(far(d, devices_ * elements, d + 1));
  for (u32 owner = 0; owner < devices_; ++owner) {
    const u64 own = elements - owner * 100;  // all different
    sums.push_back(far(owner, own, 9));
    ScatteredSum& s = parts.add();
    s.owner = owner, s.sum = sums.back()->data(), s.elements = own;
    for (u32 d = 0; d < devices_; ++d) s.from[d] = from[d]->data() + owner * elements;
  }
  ASSERT_TRUE(collectives_->reduce_scatter(parts.all()));
  synchronize();
  std::vector<std::vector<float>> values;
  for (const auto& f : from) values.push_back(f->now());
  for (u32 owner = 0; owner < devices_; ++owner) {
    const std::vector<float> got = sums[owner]->now();
    for (u64 i = 0; i < got.size(); ++i) {
      float expected = values[0][owner * elements + i];
      for (u32 d = 1; d < devices_; ++d) expected += values[d][owner * elements + i];
      ASSERT_EQ(got[i], expected) << owner << " " << i;
    }
  }
}

TEST_F(CollectivesTest, CutsComeToAllDevices) {
  const auto started = start();
  ASSERT_TRUE(started) << started.error().message;
  // The last owner has its cuts in its own window already; the others copy theirs from elsewhere.
  std::vector<std::unique_ptr<Far>> windows, shards;
  CollectiveParts<GatheredCuts> parts;
  for (u32 d = 0; d < devices_; ++d) windows.push_back(far(d, devices_ * elements, d + 1));
  const std::vector<float> last = windows.back()->now();
  for (u32 owner = 0; owner < devices_; ++owner) {
    const bool in_place = owner + 1 == devices_;
    shards.push_back(far(owner, elements, 10 + owner));
    GatheredCuts& c = parts.add();
    c.owner = owner;
    c.from = in_place ? windows[owner]->bytes().subspan(owner * elements * 4, elements * 4)
                      : shards.back()->bytes();
    for (u32 d = 0; d < devices_; ++d)
      if (!in_place || d != owner) c.to[d] = windows[d]->bytes().subspan(owner * elements * 4).data();
  }
  ASSERT_TRUE(collectives_->all_gather(parts.all()));
  synchronize();
  std::vector<float> expected;
  for (u32 owner = 0; owner + 1 < devices_; ++owner)
    std::ranges::copy(shards[owner]->now(), std::back_inserter(expected));
  expected.insert(expected.end(), last.end() - elements, last.end());
  for (u32 d = 0; d < devices_; ++d) EXPECT_EQ(windows[d]->now(), expected) << d;
}

#ifdef CUDA_EMULATED
// Otherwise cudaErrorNotReady would be taken for an error of the next kernels that the thread starts.
TEST_F(CollectivesTest, AnUnfinishedExchangeLeavesNoErrorOnTheThread) {
  tidepool::test::change_timing(2, 3);  // streams run late: none is done at the first query
  ASSERT_TRUE(start());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  GatheredCuts cut{.owner = 0, .from = staging_[0]->bytes(), .to = {}};
  for (u32 d = 1; d < devices_; ++d) cut.to[d] = staging_[d]->bytes().data();
  ASSERT_TRUE(collectives_->all_gather({&cut, 1}));
  EXPECT_TRUE(collectives_->check());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  synchronize();
}

TEST_F(CollectivesTest, AFirstExchangeThatNeverEndsTimesOut) {
  emulated_cuda::set_faults({.exchange = 2, .exchange_error = 0});
  const auto started = start(Nanos{20'000'000});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::io);
  EXPECT_NE(started.error().message.find("NCCL_P2P_DISABLE=1"), std::string::npos) << started.error().message;
}

TEST_F(CollectivesTest, AfterAnErrorLaterCallsAreNoOps) {
  ASSERT_TRUE(start());
  EXPECT_TRUE(collectives_->check());
  EXPECT_TRUE(collectives_->health());
  emulated_cuda::set_faults({.exchange = 1});
  GatheredCuts cut{.owner = 0, .from = staging_[0]->bytes(), .to = {}};
  for (u32 d = 1; d < devices_; ++d) cut.to[d] = staging_[d]->bytes().data();
  ASSERT_TRUE(collectives_->all_gather({&cut, 1}));
  while (collectives_->check()) {
  }
  synchronize();
  const auto health = collectives_->health();
  ASSERT_FALSE(health);
  EXPECT_EQ(health.error().kind, ErrorKind::io);
  for (const char* word : {"NCCL says remote", "checkpoint"})
    EXPECT_NE(health.error().message.find(word), std::string::npos) << health.error().message;
  EXPECT_TRUE(collectives_->all_gather({&cut, 1}));
  EXPECT_FALSE(collectives_->check());
}
#endif

}  // namespace tidepool::test::collectives_test
