#include "core/storage/snapshot_file.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/storage/file_names.h"
#include "core/storage/little_endian.h"

namespace lockstep::storage {
namespace {

constexpr std::string_view kMagic = "LSSNAPSH";
constexpr uint64_t kHeaderCrcAt = kSnapshotHeaderBytes - 4;
constexpr uint32_t kEndLength = UINT32_MAX;

Bytes EncodeHeader(Zxid zxid, ServerId server) {
  return Bytes::Build(kSnapshotHeaderBytes, [&](char* start) {
    std::memcpy(start, kMagic.data(), kMagic.size());
    char* to = start + kMagic.size();
    to = StoreLe(to, kSnapshotVersion);
    to = StoreLe(to, server.value);
    to = StoreLe(to, zxid.Packed());
    to = StoreLe(to, uint64_t{0});
    to = StoreLe(to, uint32_t{0});
    LS_CHECK(to == start + kHeaderCrcAt);
    StoreLe(to, Crc32c(0, {start, kHeaderCrcAt}));
  });
}

// Ties a chunk to its snapshot and its place.
uint32_t ChunkCrc(Zxid zxid, uint64_t offset, uint32_t length, std::string_view data) {
  char prefix[20];
  StoreLe(StoreLe(StoreLe(prefix, zxid.Packed()), offset), length);
  return Crc32c(Crc32c(0, {prefix, sizeof prefix}), data);
}

// The header of a chunk, or the end marker, whose data is the total.
Bytes EncodeChunkHeader(Zxid zxid, uint64_t offset, uint32_t length, std::string_view data) {
  return Bytes::Build(kChunkHeaderBytes, [&](char* to) {
    StoreLe(StoreLe(to, length), ChunkCrc(zxid, offset, length, data));
  });
}

}  // namespace

// ---- Writer ------------------------------------------------------------------------------------

SnapshotWriter::SnapshotWriter(uint64_t number, SnapshotRef ref, ServerId server,
                               Operations* operations)
    : number_(number),
      ref_(ref),
      server_(server),
      operations_(operations),
      temporary_(FileName(FileKind::kTemporary, number)) {}

void SnapshotWriter::Issue(FileOp op, StoreOutput* output) {
  op.directory = Directory::kData;
  ++under_way_;
  operations_->Issue(Owner::kSnapshotWriter, number_, std::move(op), output);
}

void SnapshotWriter::Append(std::vector<Bytes> data, StoreOutput* output) {
  const uint64_t offset = end_;
  for (const Bytes& slice : data) end_ += slice.size();
  bytes_under_way_ += end_ - offset;
  Issue({.kind = OpKind::kWrite, .file = temporary_, .offset = offset, .data = std::move(data)},
        output);
}

void SnapshotWriter::Start(StoreOutput* output) {
  Issue({.kind = OpKind::kCreate, .file = temporary_}, output);
  Append({EncodeHeader(ref_.zxid, server_)}, output);
}

void SnapshotWriter::Write(Bytes data, bool last, StoreOutput* output) {
  LS_CHECK(!complete_);
  LS_CHECK_LE(data.size(), kSnapshotChunkBytesMax);
  std::vector<Bytes> slices;
  uint64_t at = end_;
  if (!data.empty()) {
    total_ += data.size();
    const uint32_t length = static_cast<uint32_t>(data.size());
    at += kChunkHeaderBytes + length;
    slices.push_back(EncodeChunkHeader(ref_.zxid, end_, length, data.view()));
    slices.push_back(std::move(data));
  }
  if (last) {
    char total[8];
    StoreLe(total, total_);
    slices.push_back(EncodeChunkHeader(ref_.zxid, at, kEndLength, {total, sizeof total}));
    slices.push_back(Bytes::Copy({total, sizeof total}));
  }
  if (!slices.empty()) Append(std::move(slices), output);
  if (last) {
    complete_ = true;
    Issue({.kind = OpKind::kSync, .file = temporary_}, output);
  }
}

void SnapshotWriter::OnDone(const Operation& operation, StoreOutput* output) {
  LS_CHECK_GT(under_way_, uint64_t{0});
  --under_way_;
  if (operation.kind == OpKind::kWrite) bytes_under_way_ -= operation.size;
  if (!complete_ || renaming_ || under_way_ > 0) return;
  // Only now: a name that became durable before the content would show an empty snapshot.
  renaming_ = true;
  Issue({.kind = OpKind::kRename, .file = temporary_, .target = ref_.FileName()}, output);
  Issue({.kind = OpKind::kSyncDirectory}, output);
}

void SnapshotWriter::Abandon(StoreOutput* output) {
  LS_CHECK(!renaming_);
  operations_->Issue(Owner::kCleanup, 0,
                     {.kind = OpKind::kRemove, .directory = Directory::kData, .file = temporary_},
                     output);
}

// ---- Reader ------------------------------------------------------------------------------------

SnapshotReader::SnapshotReader(SnapshotRef ref, ServerId server, Operations* operations)
    : ref_(ref), server_(server), operations_(operations) {}

void SnapshotReader::Read(uint64_t bytes, StoreOutput* output) {
  asked_ = std::max(bytes, kReadBytes);
  operations_->Issue(Owner::kRecovery, 0,
                     {.kind = OpKind::kRead,
                      .directory = Directory::kData,
                      .file = ref_.FileName(),
                      .offset = end_,
                      .size = asked_},
                     output);
}

void SnapshotReader::Start(StoreOutput* output) { Read(kReadBytes, output); }

void SnapshotReader::Damaged(const std::string& what, StoreOutput* output) {
  output->fatal = "the snapshot " + Describe(Directory::kData, ref_.FileName()) +
                  " is damaged at offset " + std::to_string(end_) + " (" + what +
                  "), and the journal relies on it. Restore this server's directories from a copy, "
                  "or, if the other servers form a quorum without it, empty both directories and "
                  "let it join them anew";
}

void SnapshotReader::OnRead(Bytes data, StoreOutput* output) {
  const bool file_ends = data.size() < asked_;
  if (end_seen_) {
    if (!data.empty()) return Damaged("bytes follow its end", output);
    done_ = true;
    return;
  }
  uint64_t at = 0;  // in `data`
  if (end_ == 0) {
    if (data.size() < kSnapshotHeaderBytes || !data.view().starts_with(kMagic)) {
      return Damaged("there is no snapshot header", output);
    }
    const uint32_t version = LoadLe<uint32_t>(data.data() + 8);
    if (version > kSnapshotVersion) {
      output->fatal = "the snapshot " + Describe(Directory::kData, ref_.FileName()) +
                      " has format version " + std::to_string(version) +
                      ", which this program does not know: start a newer one";
      return;
    }
    if (version != kSnapshotVersion || LoadLe<uint32_t>(data.data() + kHeaderCrcAt) !=
                                           Crc32c(0, data.view().substr(0, kHeaderCrcAt))) {
      return Damaged("its header does not match its checksum", output);
    }
    const uint32_t server = LoadLe<uint32_t>(data.data() + 12);
    if (server != server_.value) {
      output->fatal = "the snapshot " + Describe(Directory::kData, ref_.FileName()) +
                      " belongs to server " + std::to_string(server) + ", and this is server " +
                      server_.ToString() + ": check dataDir and myid";
      return;
    }
    if (LoadLe<uint64_t>(data.data() + 16) != ref_.zxid.Packed()) {
      return Damaged("it holds another snapshot", output);
    }
    at = end_ = kSnapshotHeaderBytes;
  }
  while (true) {
    const uint64_t left = data.size() - at;
    // A chunk header alone says how much more is needed; the end marker is longer than one.
    if (left < kSnapshotEndBytes) {
      if (!file_ends) return Read(kSnapshotEndBytes, output);
      if (left < kChunkHeaderBytes) return Damaged("it ends early", output);
    }
    const uint32_t length = LoadLe<uint32_t>(data.data() + at);
    const uint32_t crc = LoadLe<uint32_t>(data.data() + at + 4);
    const uint64_t content = length == kEndLength ? 8 : length;
    if (content > kSnapshotChunkBytesMax) return Damaged("a length is impossible", output);
    if (left < kChunkHeaderBytes + content) {
      if (file_ends) return Damaged("it ends early", output);
      return Read(kChunkHeaderBytes + content, output);
    }
    Bytes chunk = data.Slice(at + kChunkHeaderBytes, content);
    if (crc != ChunkCrc(ref_.zxid, end_, length, chunk.view())) {
      return Damaged("the content does not match its checksum", output);
    }
    at += kChunkHeaderBytes + content;
    if (length == kEndLength) {
      if (LoadLe<uint64_t>(chunk.data()) != total_) return Damaged("chunks are missing", output);
      if (at != data.size()) return Damaged("bytes follow its end", output);
      end_ += kSnapshotEndBytes;
      end_seen_ = true;
      done_ = file_ends;
      if (!done_) Read(1, output);  // the read ended exactly here: does the file?
      return;
    }
    end_ += kChunkHeaderBytes + content;
    total_ += content;
    output->snapshot_chunks.push_back(std::move(chunk));
  }
}

}  // namespace lockstep::storage
