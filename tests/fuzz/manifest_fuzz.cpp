// Fuzzes a checkpoint's manifest.json: as given, and with the checksum of its lines added. An accepted
// manifest is the same after it is written and read.
#include <array>

#include "base/check.h"
#include "base/text/hash.h"
#include "checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

// Adds the checksum, without which hardly any input would be accepted.
std::string sealed(std::string_view input) {
  constexpr std::string_view seal = "  \"xxh3_of_the_lines_above\": \"";
  const std::string_view lines = input.substr(0, input.find(seal));
  return std::string(lines).append(seal).append(hash_text(hash_of(lines))).append("\"\n}\n");
}

void read(std::string_view text) {
  const std::string directory = folder("manifest");
  file("manifest/manifest.json", text);
  file("manifest/config.json", "{}\n");
  const Result<Manifest> manifest = read_manifest(directory);
  if (!manifest) return check_refusal(manifest.error(), {ErrorKind::corrupt_checkpoint});
  std::array<std::byte, 2> buffer;
  if (const Result<void> verified = verify_files(directory, *manifest, buffer); !verified)
    check_refusal(verified.error(), {ErrorKind::corrupt_checkpoint});

  const std::string written = to_text(*manifest);
  file("manifest/manifest.json", written);
  const Result<Manifest> again = read_manifest(directory);
  CHECK(again.has_value(), again.error().message, written);
  CHECK(*again == *manifest, written);
}

}  // namespace

void manifest(std::string_view input) {
  read(input);
  read(sealed(input));
}

}  // namespace tidepool::fuzz
