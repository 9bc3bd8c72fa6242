// Tests doctor's findings on GPUs, with a fake backend.
#include <gmock/gmock.h>

#include "cli/doctor.h"
#include "executor/devices.h"

namespace tidepool::doctor_gpus_test {

using ::testing::HasSubstr;

class MadeUpGpus final : public GpuBackend {
 public:
  explicit MadeUpGpus(u32 count, Result<std::string> exchange = std::string("NCCL 2.19.3"),
                      Result<std::string> attention = std::string("cuDNN 9.19.0"))
      : count_(count), exchange_(std::move(exchange)), attention_(std::move(attention)) {}

  std::vector<GpuFacts> gpus() const override {
    std::vector<GpuFacts> out(count_,
                              {.name = "GPU 9000", .memory = Bytes{48 * gib}, .pci = "", .held_by = ""});
    if (count_ > 1) out.back().held_by = " someone (12) has 1.00 GiB.";
    return out;
  }
  Result<std::string> attention(u32) const override { return attention_; }
  Result<std::string> exchange() const override { return exchange_; }
  std::string why_none(std::span<const u32> gpus) const override {
    for (const u32 gpu : gpus)
      if (gpu >= count_ && count_ > 0) return "no such GPU";
    return count_ == 0 ? "no driver" : "";
  }
  std::string why_not_in(Precision precision, std::span<const u32>) const override {
    return precision == Precision::bf16 ? "no bf16: set train.precision=fp16" : "";
  }
  Result<std::unique_ptr<Devices>> take_devices(const DevicesRequest&) const override { return Error{}; }
  Result<Bytes> free_memory(u32) const override { return Error{}; }
  Result<std::unique_ptr<MeasuredDevice>> open(const GpuRequest&) const override { return Error{}; }

 private:
  const u32 count_;
  const Result<std::string> exchange_, attention_;
};

TEST(DoctorOnGpus, ListsEachGpuAndTheirLinks) {
  const auto found = examine_gpus({}, std::make_unique<MadeUpGpus>(2).get());
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].what, "cuda:0");
  EXPECT_EQ(found[0].found, "GPU 9000, 48.00 GiB");
  EXPECT_EQ(found[1].found, "GPU 9000, 48.00 GiB; someone (12) has 1.00 GiB.");
  EXPECT_EQ(found[2].what, "attention");
  EXPECT_EQ(found[2].found, "cuDNN 9.19.0");
  EXPECT_EQ(found[3].found, "NCCL 2.19.3");
}

TEST(DoctorOnGpus, AFasterLibraryThatIsMissingIsAWarning) {
  const MadeUpGpus gpus(1, std::string("NCCL"), Error{ErrorKind::usage, "install cuDNN"});
  const auto found = examine_gpus({}, &gpus);
  EXPECT_EQ(found.back().what, "attention");
  EXPECT_EQ(found.back().health, Health::warn);
  EXPECT_THAT(found.back().fix, HasSubstr("install cuDNN"));
}

TEST(DoctorOnGpus, OneGpuNeedsNoNccl) {
  const MadeUpGpus gpus(1, Error{ErrorKind::usage, "no NCCL"});
  EXPECT_EQ(examine_gpus({}, &gpus).size(), 2u);
}

TEST(DoctorOnGpus, SeveralWithoutNcclAreAWarning) {
  const MadeUpGpus gpus(2, Error{ErrorKind::usage, "install NCCL"});
  const auto found = examine_gpus({}, &gpus);
  EXPECT_EQ(found.back().health, Health::warn);
  EXPECT_THAT(found.back().fix, HasSubstr("install NCCL"));
}

TEST(DoctorOnGpus, WithoutAGpuSaysWhy) {
  const MadeUpGpus gpus(0);
  const auto found = examine_gpus({}, &gpus);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "no driver");
}

TEST(DoctorOnGpus, ARequestedGpuThatIsMissingIsAnError) {
  const MadeUpGpus gpus(1);
  DoctorArguments arguments;
  arguments.gpus = {0, 1};
  arguments.executor = "cuda:0,1";
  EXPECT_EQ(examine_gpus(arguments, &gpus).front().health, Health::fail);
  arguments.gpus = {0};
  EXPECT_EQ(examine_gpus(arguments, &gpus).front().health, Health::ok);
}

TEST(DoctorOnGpus, AdvisesTheCpuIfAGpuIsMissing) {
  DoctorArguments arguments;
  arguments.gpus = {1};
  EXPECT_EQ(examine_gpus(arguments, std::make_unique<MadeUpGpus>(1).get()).front().fix,
            "or train with machine.executor=cpu");
}

TEST(DoctorOnGpus, AnUnsupportedPrecisionIsAnError) {
  const MadeUpGpus gpus(1);
  DoctorArguments arguments;
  arguments.gpus = {0};
  arguments.precision = Precision::bf16;
  const Finding found = examine_gpus(arguments, &gpus).front();
  EXPECT_EQ(found.health, Health::fail);
  EXPECT_EQ(found.kind, ErrorKind::usage);
  EXPECT_THAT(found.found, HasSubstr("train.precision=fp16"));
}

}  // namespace tidepool::doctor_gpus_test
