// StreamWriter: readers who do not read, read slowly, or come back.
#include "base/process/stream_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/write_within.h"
#include "tests/support/pipe_ends.h"
#include "tests/support/pseudo_terminal.h"

namespace tidepool::stream_writer_test {

using test::PseudoTerminal;
using test::TerminalEmulator;

constexpr std::chrono::milliseconds none{0}, for_ever{3'600'000};
constexpr StandardStream output = StandardStream::output, error = StandardStream::error;

std::unique_ptr<StreamWriter> writer_to(int fd, std::chrono::milliseconds patience) {
  return std::move(*StreamWriter::create(
      {.fds = {fd, fd}, .erase = "\r\x1b[J", .queue_bytes_max = 256 * kib, .patience = patience}));
}

std::string line(u64 number) { return fmt::format("line {} of many, with some words to fill it\n", number); }

u64 lines_in(const std::string& text) {
  u64 lines = 0;
  for (u64 at = text.find("of many"); at != std::string::npos; at = text.find("of many", at + 1)) ++lines;
  return lines;
}

TEST(StreamWriter, AnUnreadPipeGetsTheNewestLinesAndTheCountOfThoseLeftOut) {
  test::PipeEnds pipe;
  const auto writer = writer_to(pipe.writer.get(), none);
  constexpr u64 lines = 20'000;
  for (u64 i = 1; i <= lines; ++i) writer->print(output, line(i));
  EXPECT_TRUE(writer->finish());
  const std::string text = pipe.read_all();
  EXPECT_NE(text.find(" lines left out here: nobody read them in time)\nline "), std::string::npos);
  EXPECT_TRUE(text.ends_with(line(lines - 1) + line(lines))) << text.substr(text.size() - 200);
  EXPECT_EQ(lines_in(text) + writer->lines_left_out(), lines);
}

TEST(StreamWriter, AReaderWhoReadsGetsEveryLine) {
  test::PipeEnds pipe;
  const auto writer = writer_to(pipe.writer.get(), for_ever);
  std::string all;
  for (u64 i = 1; i <= 4'000; ++i) {
    writer->print(i % 3 == 0 ? error : output, line(i));
    all += line(i);
  }
  std::string text;
  std::thread reader([&] {
    char bytes[100];
    while (text.size() < all.size()) {
      const ssize_t n = ::read(pipe.reader.get(), bytes, sizeof bytes);
      if (n <= 0) break;
      text.append(bytes, static_cast<size_t>(n));
    }
  });
  EXPECT_TRUE(writer->finish());
  pipe.writer = Fd();
  reader.join();
  EXPECT_TRUE(text == all);
  EXPECT_EQ(writer->lines_left_out(), 0u);
}

TEST(StreamWriter, ALineLongerThanThePipeComesWhole) {
  test::PipeEnds pipe;
  const auto writer = writer_to(pipe.writer.get(), for_ever);
  const std::string text = std::string(200'000, 'x') + "\nshort\n";
  writer->print(output, text);
  std::string read;
  std::thread reader([&] {
    char bytes[4096];
    for (ssize_t n; read.size() < text.size() && (n = ::read(pipe.reader.get(), bytes, sizeof bytes)) > 0;)
      read.append(bytes, static_cast<size_t>(n));
  });
  EXPECT_TRUE(writer->finish());
  reader.join();
  EXPECT_TRUE(read == text);
}

TEST(StreamWriter, AStoppedTerminalHoldsNobodyAndGoesOnWithTheNewestPicture) {
  PseudoTerminal terminal({.columns = 80, .rows = 24}, TerminalEmulator::OnResize::cut);
  const Fd slave(::open(terminal.path().c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  terminal.stop();
  const auto writer = writer_to(slave.get(), none);
  writer->print(output, "a line\n");
  for (u64 i = 1; i <= 10'000; ++i) writer->draw(output, fmt::format("\r\x1b[Jpicture {}\r", i));
  EXPECT_FALSE(writer->finish());  // holds nobody
  terminal.go_on();
  while (!writer->finish()) terminal.screen();
  EXPECT_EQ(terminal.screen().lines(), (std::vector<std::string>{"a line", "picture 10000"}));
  EXPECT_EQ(writer->lines_left_out(), 0u);
}

TEST(StreamWriter, WordsOfAHandlerReplaceThePicture) {
  PseudoTerminal terminal({.columns = 80, .rows = 24}, TerminalEmulator::OnResize::cut);
  const Fd slave(::open(terminal.path().c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  const auto writer = writer_to(slave.get(), for_ever);
  writer->draw(output, "\r\x1b[Jpicture\r");
  writer->settle(3'600'000);
  writer->say("\nwords\n");
  writer->settle(3'600'000);
  writer->print(output, "a line\n");
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(terminal.screen().lines(), (std::vector<std::string>{"words", "a line"}));
}

TEST(StreamWriter, ALostStandardOutputIsToldOnceOnStandardError) {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  test::PipeEnds pipe;
  const auto errors = writer_to(pipe.writer.get(), for_ever), writer = writer_to(full.get(), for_ever);
  writer->when_lost(*errors, "it is lost\n");
  for (u64 i = 1; i <= 10; ++i) writer->print(output, line(i));
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(writer->lost(output), ENOSPC);
  EXPECT_TRUE(errors->finish());
  EXPECT_EQ(pipe.read_all(), "it is lost\n");
}

TEST(WriteWithin, GivesUpAtAFullPipeAndLeavesItAsItIs) {
  test::PipeEnds pipe;
  EXPECT_EQ(::fcntl(pipe.writer.get(), F_SETPIPE_SZ, 4096), 4096);
  u64 written = 0;
  while (write_within(pipe.writer.get(), line(written), 0)) ++written;
  EXPECT_EQ(errno, ETIMEDOUT);
  EXPECT_GT(written, 50u);
  EXPECT_EQ(::fcntl(pipe.writer.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(WriteWithin, GivesUpAtAStoppedTerminal) {
  PseudoTerminal terminal({.columns = 80, .rows = 24}, TerminalEmulator::OnResize::cut);
  const Fd slave(::open(terminal.path().c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  terminal.stop();
  EXPECT_FALSE(write_within(slave.get(), "words\n", 0));
  terminal.go_on();
  EXPECT_TRUE(write_within(slave.get(), "words\n", 0));
  EXPECT_EQ(terminal.screen().lines(), (std::vector<std::string>{"words"}));
}

}  // namespace tidepool::stream_writer_test
