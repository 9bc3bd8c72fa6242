#include <gmock/gmock.h>

#include <fstream>

#include "data/files/token_file.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::npy_test {

using testing::HasSubstr;

class DataNpy : public testing::Test {
 protected:
  // Writes as NumPy does: the header is padded with spaces to a multiple of 64 and ends in a line feed.
  template <class Id>
  std::string write(const std::string& descr, const std::string& shape, std::vector<Id> ids,
                    char version = 1) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    const size_t front = version == 1 ? 10 : 12;
    while ((front + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes = std::string("\x93NUMPY") + version + '\0';
    for (size_t i = 0; i < front - 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id));
    return put(bytes);
  }
  std::string put(const std::string& bytes) {
    std::ofstream(dir_ / "a.npy", std::ios::binary) << bytes;
    return dir_ / "a.npy";
  }
  static std::string fault(const std::string& path) {
    const auto file = TokenFile::open(path, DataFormat::automatic);
    EXPECT_FALSE(file);
    if (file) return "";
    EXPECT_EQ(file.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(file.error().message, HasSubstr("a.npy: "));
    return file.error().message;
  }
  template <class Id>
  void expect_reads(const std::string& descr, char version = 1) {
    const auto file = TokenFile::open(write<Id>(descr, "(3,)", {5, 0, 250}, version), DataFormat::automatic);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->format(), DataFormat::npy);
    EXPECT_EQ(file->tokens(), 3u);
    std::vector<i32> ids(2);
    ASSERT_TRUE(file->read(1, ids, 251));
    EXPECT_EQ(ids, (std::vector<i32>{0, 250}));
    const auto bad = file->read(1, ids, 250);
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().message, HasSubstr("token 2 at byte offset"));
  }

  test::ScratchDir dir_;
};

TEST_F(DataNpy, ArraysOfIntegersAreRead) {
  expect_reads<u8>("|u1");
  expect_reads<u16>("<u2");
  expect_reads<u32>("<u4");
  expect_reads<i32>("<i4", 2);
  expect_reads<i64>("<i8", 3);
  expect_reads<u64>("<u8");
}

TEST_F(DataNpy, OtherArraysAreRefused) {
  EXPECT_THAT(fault(write<u16>("<f4", "(1,)", {1, 1})), HasSubstr("its elements are '<f4'"));
  EXPECT_THAT(fault(write<u16>(">u2", "(1,)", {1})), HasSubstr("its elements are '>u2'"));
  EXPECT_THAT(fault(write<u16>("<i2", "(1,)", {1})), HasSubstr("its elements are '<i2'"));
  EXPECT_THAT(fault(write<u16>("<u2", "(1, 2)", {1, 2})), HasSubstr("its shape is not one dimension"));
  EXPECT_THAT(fault(write<u16>("<u2", "()", {1})), HasSubstr("its shape is not one dimension"));
  EXPECT_THAT(fault(write<u16>("<u2", "(3,)", {1, 2})),
              HasSubstr("its header promises 3 tokens of 2 bytes, but 4 bytes follow"));
  EXPECT_THAT(fault(put("no numpy file at all")), HasSubstr("is not a .npy file"));
  EXPECT_THAT(fault(put("\x93NUMPY")), HasSubstr("is not a .npy file"));
  EXPECT_THAT(fault(put(std::string("\x93NUMPY\x01\x00\xff\xff{}  ", 14))),
              HasSubstr("its header of 65535 bytes does not fit"));
}

}  // namespace tidepool::npy_test
