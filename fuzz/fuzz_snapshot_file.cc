// Reading a snapshot back. The first byte chooses: the rest is the file, or the rest is written as
// a snapshot and read back, with one byte changed or with none. Whatever was changed is noticed,
// and what was not comes back as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/storage/snapshot_file.h"
#include "tests/support/fake_disk.h"

namespace lockstep::storage {
namespace {

constexpr SnapshotRef kRef{SnapshotRef::Kind::kOwn, {{1}, 7}};
constexpr ServerId kServer{1};

// Hands out what the reader finds; `fatal` says whether it refused the file.
std::vector<Bytes> ReadBack(FakeDisk* disk, bool* fatal) {
  Operations operations(1);
  StoreOutput output;
  SnapshotReader reader(kRef, kServer, &operations);
  reader.Start(&output);
  while (!reader.done() && !output.fatal.has_value()) {
    LS_CHECK_EQ(output.ops.size(), size_t{1});
    const FileOp op = output.ops[0];
    output.ops.clear();
    reader.OnRead(disk->Execute(op).data, &output);
  }
  *fatal = output.fatal.has_value();
  return output.snapshot_chunks;
}

void Write(const std::vector<Bytes>& chunks, FakeDisk* disk) {
  Operations operations(1);
  StoreOutput output;
  SnapshotWriter writer(1, kRef, kServer, &operations);
  writer.Start(&output);
  for (const Bytes& chunk : chunks) writer.Write(chunk, false, &output);
  writer.Write(Bytes(), true, &output);
  while (!output.ops.empty()) {
    const std::vector<FileOp> ops = std::exchange(output.ops, {});
    for (const FileOp& op : ops) {
      writer.OnDone(*operations.Complete(disk->Execute(op)), &output);
    }
  }
  LS_CHECK(writer.durable());
}

}  // namespace
}  // namespace lockstep::storage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;           // NOLINT: a fuzz target has no header to spoil
  using namespace lockstep::storage;  // NOLINT
  if (size < 4) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 4, size - 4);
  FakeDisk disk;
  bool fatal = false;
  if (data[0] % 3 == 0) {
    disk.Put(Directory::kData, kRef.FileName(), std::string(input));
    ReadBack(&disk, &fatal);
    return 0;
  }

  std::vector<Bytes> chunks;
  while (!input.empty()) {
    const size_t piece = std::min(input.size(), size_t{1} + data[1] % 64);
    chunks.push_back(Bytes::Copy(input.substr(0, piece)));
    input.remove_prefix(piece);
  }
  Write(chunks, &disk);
  const bool change = data[0] % 3 == 2;
  if (change) {
    std::string content = *disk.Get(Directory::kData, kRef.FileName());
    char& byte = content[(data[1] << 8 | data[2]) % content.size()];
    byte = static_cast<char>(byte ^ std::max<uint8_t>(data[3], 1));
    disk.Put(Directory::kData, kRef.FileName(), content);
  }

  const std::vector<Bytes> found = ReadBack(&disk, &fatal);
  LS_CHECK_EQ(fatal, change);
  if (!change) LS_CHECK(found == chunks);
  return 0;
}
