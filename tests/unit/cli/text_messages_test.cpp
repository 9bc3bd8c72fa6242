// Texts of messages: sizes that add up, system errors stated once, similar names.
#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "base/text/budget_text.h"
#include "base/text/nearest.h"
#include "config/config.h"
#include "config_files/load_config.h"
#include "io/disk_error.h"
#include "machine/machine_file.h"
#include "planner/advice/change_text.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::text_messages_test {

using ::testing::HasSubstr;

TEST(BudgetText, AShortageNeverContradictsItself) {
  EXPECT_EQ(shortage_text(Bytes{584 * kib}, Bytes{584 * kib - 100}),
            "needs 584KiB and has 583KiB (short by 1KiB)");
  EXPECT_EQ(shortage_text(Bytes{584 * kib - 1}, Bytes{0}), "needs 584KiB and has 0KiB (short by 584KiB)");
  EXPECT_EQ(shortage_text(Bytes{40 * mib + 1}, Bytes{40 * mib}), "needs 41MiB and has 40MiB (short by 1MiB)");
  EXPECT_EQ(shortage_text(Bytes{16 * mib}, Bytes{16 * mib - 1}),
            "needs 16MiB and has 16383KiB (short by 1KiB)");
  EXPECT_EQ(shortage_text(Bytes{17 * mib}, Bytes{500 * kib}),
            "needs 17MiB and has 500KiB (short by 16908KiB)");
  EXPECT_EQ(shortage_text(Bytes{78 * mib}, Bytes{64 * mib}), "needs 78MiB and has 64MiB (short by 14MiB)");
  EXPECT_EQ(shortage_text(Bytes{1200 * gib + 1}, Bytes{0}), "needs 1201GiB and has 0KiB (short by 1201GiB)");
  EXPECT_EQ(shortage_text(Bytes{100 * gib}, Bytes{63 * gib + 512 * mib}),
            "needs 100GiB and has 65024MiB (short by 37376MiB)");
}

TEST(BudgetText, NamesWhatAGpuKeeps) {
  EXPECT_EQ(reserved_text(Bytes{0}), "");
  EXPECT_EQ(reserved_text(Bytes{70 * mib + 1}),
            ", of which a GPU's libraries and a step's numbers take 71MiB");
}

TEST(ChangeText, SaysSettingsThatBudgetsAreRaisedBy) {
  const Change change{{budget_setting(Tier::device, Bytes{73 * gib}),
                       budget_setting(Tier::disk, Bytes{584 * kib}),
                       {"train.precision", "bf16"}},
                      "a remark"};
  EXPECT_EQ(change_text(change), "memory.device=73GiB memory.disk=584KiB train.precision=bf16 (a remark)");
  EXPECT_EQ(change_text({{change.settings[2]}, ""}), "train.precision=bf16");
  EXPECT_TRUE(sets_budget(change, Tier::disk));
  EXPECT_FALSE(sets_budget(change, Tier::host));
  const Budgets had{Bytes{gib}, Bytes{2 * gib}, Bytes{3 * gib}};
  EXPECT_EQ(raised_by(change, had), (Budgets{Bytes{73 * gib}, Bytes{2 * gib}, Bytes{3 * gib}}));
}

TEST(ErrnoText, NamesEachFactOnce) {
  const std::string message = file_error("cannot make the swap file", "x", EMFILE).message;
  EXPECT_EQ(message.find("oo many open files"), message.rfind("oo many open files")) << message;
}

// Regression: users who exported or tokenized were advised on the swap file.
TEST(ErrnoText, AdviceDependsOnTheCaller) {
  EXPECT_THAT(errno_advice(ENOSPC, FileUse::swap), HasSubstr("memory.swap_dir"));
  EXPECT_THAT(errno_advice(ENOSPC, FileUse::run), HasSubstr("output.save_total_limit"));
  EXPECT_THAT(errno_advice(ENOSPC, FileUse::cache), HasSubstr("data.cache"));
  EXPECT_EQ(errno_advice(ENOSPC, FileUse::other), "Free space there, or write to a larger disk.");
  EXPECT_THAT(errno_advice(EBUSY, FileUse::swap), HasSubstr("memory.queue_depth"));
  for (const FileUse use : {FileUse::run, FileUse::cache, FileUse::other})
    for (const int error : {EBUSY, ENOMEM, EINVAL}) EXPECT_EQ(errno_advice(error, use), "");
  EXPECT_THAT(errno_advice(EIO, FileUse::run), HasSubstr("then resume"));
  EXPECT_THAT(errno_advice(EIO, FileUse::other), HasSubstr("then try again"));
}

TEST(DidYouMean, SuggestsOnlyNearNames) {
  constexpr std::array<std::string_view, 5> names = {"train", "plan", "report", "config", "generate"};
  EXPECT_EQ(nearest("blah", names), "");
  EXPECT_EQ(nearest("trian", names), "train");
  EXPECT_EQ(nearest("paln", names), "plan");
  EXPECT_EQ(nearest("plna", names), "plan");
  EXPECT_EQ(nearest("generat", names), "generate");
  EXPECT_EQ(nearest("reprot", names), "report");
}

TEST(Config, ThatIsNotUtf8IsNamedAsSuch) {
  const test::ScratchDir dir;
  const auto message_of = [&](const std::string& bytes) {
    std::ofstream(dir / "c.yaml", std::ios::binary) << bytes;
    const auto config = load_config(dir / "c.yaml", {});
    return config ? "read" : config.error().message;
  };
  EXPECT_THAT(message_of(std::string("\xff\xfem\0o\0d\0", 8)),
              HasSubstr("is not UTF-8 text (byte 0; it looks like UTF-16)"));
  EXPECT_THAT(message_of(std::string("m\0o\0d\0", 6)),
              HasSubstr("is not UTF-8 text (byte 1; it looks like UTF-16)"));
  EXPECT_THAT(message_of("model:\n  # caf\xe9\n"),
              HasSubstr("c.yaml:2: is not UTF-8 text (byte 14); save the file as UTF-8"));
}

TEST(Config, ThatHoldsAZeroByteSaysSoWithTheLine) {
  const test::ScratchDir dir;
  std::ofstream(dir / "c.yaml", std::ios::binary) << std::string("model:\n  n_layer: 2\0\n", 21);
  const std::string says = dir / "c.yaml" + ":2: holds a zero byte (NUL, byte 19)";
  EXPECT_THAT(load_config(dir / "c.yaml", {}).error().message, HasSubstr(says));
  EXPECT_THAT(load_machine(dir / "c.yaml").error().message, HasSubstr(says));
}

}  // namespace tidepool::text_messages_test
