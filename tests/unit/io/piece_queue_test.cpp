#include "io/piece_queue.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "io/arena.h"

namespace tidepool::piece_queue_test {

constexpr u64 page = frame_alignment;
constexpr u64 file_bytes = 1024 * page;

class PieceQueueTest : public testing::Test {
 protected:
  PieceQueueTest() : arena_(Arena::create({.name = "test", .bytes = Bytes{256 * page}}).value()) {}

  PieceQueue make() {
    return PieceQueue(file_bytes, {.piece = Bytes{4 * page}, .max_requests = 8}, "the file");
  }
  DiskRequest request(DiskOp op, u64 pages, u64 tag) {
    return {op, tag * 16 * page, arena_->memory().subspan(0, pages * page), tag};
  }
  std::unique_ptr<Arena> arena_;
  Piece piece_;
  DiskCompletion completion_;
};

TEST_F(PieceQueueTest, CutsARequestAndCompletesItOnce) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::read, 10, 2));
  std::vector<Piece> pieces;
  while (queue.pop(piece_)) pieces.push_back(piece_);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].offset, (32 + 8) * page);
  EXPECT_EQ(pieces[2].bytes, 2 * page);
  EXPECT_EQ(queue.finish(pieces[2], 2 * page, completion_), PieceVerdict::done);
  EXPECT_EQ(queue.finish(pieces[0], 4 * page, completion_), PieceVerdict::done);
  EXPECT_EQ(queue.finish(pieces[1], 4 * page, completion_), PieceVerdict::complete);
  EXPECT_EQ(completion_.tag, 2u);
  EXPECT_TRUE(completion_.ok);
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(queue.free_requests(), 8u);
}

TEST_F(PieceQueueTest, ReadsAndWritesShareTheDepth) {
  PieceQueue queue = make();
  for (u64 i = 0; i < 3; ++i) queue.push(request(DiskOp::write, 16, i));
  queue.push(request(DiskOp::read, 16, 3));
  u32 reads = 0;
  for (u32 i = 0; i < 8; ++i) {
    ASSERT_TRUE(queue.pop(piece_));
    if (piece_.op == DiskOp::read) ++reads;
  }
  EXPECT_EQ(reads, 4u);
}

TEST_F(PieceQueueTest, AtDepthOneTheyTakeTurns) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::write, 16, 0));
  queue.push(request(DiskOp::read, 16, 1));
  std::string order;
  while (queue.pop(piece_)) {
    order += piece_.op == DiskOp::read ? 'r' : 'w';
    queue.finish(piece_, static_cast<i64>(piece_.bytes), completion_);
  }
  EXPECT_EQ(order, "rwrwrwrw");
}

TEST_F(PieceQueueTest, AShortTransferContinuesFromAWholePage) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::write, 4, 1));
  ASSERT_TRUE(queue.pop(piece_));
  EXPECT_EQ(queue.finish(piece_, 2 * page + 512, completion_), PieceVerdict::again);
  EXPECT_EQ(piece_.offset, 18 * page);
  EXPECT_EQ(piece_.bytes, 2 * page);
  EXPECT_EQ(piece_.memory, arena_->at(2 * page));
  EXPECT_EQ(queue.finish(piece_, 2 * page, completion_), PieceVerdict::complete);
  EXPECT_EQ(completion_.retries, 1u);
}

TEST_F(PieceQueueTest, StallsAreBoundedAndProgressResetsThem) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::read, 4, 1));
  ASSERT_TRUE(queue.pop(piece_));
  for (u32 i = 0; i + 1 < piece_stalls_max; ++i)
    ASSERT_EQ(queue.finish(piece_, -EINTR, completion_), PieceVerdict::again);
  ASSERT_EQ(queue.finish(piece_, page, completion_), PieceVerdict::again);
  for (u32 i = 0; i + 1 < piece_stalls_max; ++i)
    ASSERT_EQ(queue.finish(piece_, -EAGAIN, completion_), PieceVerdict::again);
  ASSERT_EQ(queue.finish(piece_, -EAGAIN, completion_), PieceVerdict::complete);
  EXPECT_FALSE(completion_.ok);
  EXPECT_EQ(completion_.error.kind, ErrorKind::io);
}

TEST_F(PieceQueueTest, AfterAFailureTheRestIsNotBegun) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::write, 16, 1));
  queue.push(request(DiskOp::write, 4, 2));
  Piece first, second;
  ASSERT_TRUE(queue.pop(first));
  ASSERT_TRUE(queue.pop(second));
  EXPECT_EQ(queue.finish(first, -EIO, completion_), PieceVerdict::done);
  // a failed request is not retried
  EXPECT_EQ(queue.finish(second, -EAGAIN, completion_), PieceVerdict::complete);
  EXPECT_EQ(completion_.error.message,
            "cannot write 16384 bytes at offset 65536 of the file: Input/output error (EIO). The device "
            "failed: look "
            "at `dmesg` and `smartctl -a`, or use another disk, then resume.");
  ASSERT_TRUE(queue.pop(piece_));
  EXPECT_EQ(queue.finish(piece_, 4 * page, completion_), PieceVerdict::complete);
  EXPECT_EQ(completion_.tag, 2u);
  EXPECT_TRUE(completion_.ok);
  EXPECT_TRUE(completion_.error.message.empty());
}

TEST_F(PieceQueueTest, TheFailureAtTheLeastOffsetIsReported) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::read, 8, 1));
  Piece first, second;
  ASSERT_TRUE(queue.pop(first));
  ASSERT_TRUE(queue.pop(second));
  EXPECT_EQ(queue.finish(second, 0, completion_), PieceVerdict::done);
  EXPECT_EQ(queue.finish(first, 2 * page, completion_),
            PieceVerdict::again);  // the next try finds the exact end
  EXPECT_EQ(queue.finish(first, 0, completion_), PieceVerdict::complete);
  EXPECT_NE(completion_.error.message.find("at offset 73728 of"), std::string::npos)
      << completion_.error.message;
}

TEST_F(PieceQueueTest, TheEndOfTheFileIsAnErrorForReads) {
  PieceQueue queue = make();
  queue.push(request(DiskOp::read, 4, 1));
  ASSERT_TRUE(queue.pop(piece_));
  EXPECT_EQ(queue.finish(piece_, 0, completion_), PieceVerdict::complete);
  EXPECT_NE(completion_.error.message.find("the file ends there"), std::string::npos);
}

using PieceQueueDeathTest = PieceQueueTest;
TEST_F(PieceQueueDeathTest, StopsOnOurOwnBugs) {
  PieceQueue queue = make();
  DiskRequest unaligned = request(DiskOp::read, 4, 1);
  unaligned.offset += 512;
  EXPECT_DEATH(queue.push(unaligned), "CHECK");
  DiskRequest outside = request(DiskOp::read, 4, 1);
  outside.offset = file_bytes - page;
  EXPECT_DEATH(queue.push(outside), "CHECK");
}

}  // namespace tidepool::piece_queue_test
