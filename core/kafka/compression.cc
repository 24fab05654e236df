#include "core/kafka/compression.h"

#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "core/base/check.h"
#include "core/records/big_endian.h"

namespace lockstep::kafka {
namespace {

using records::Compression;

absl::Status TooMuch() { return absl::ResourceExhaustedError("the records are too many bytes"); }
absl::Status CutShort() { return absl::DataLossError("the compressed records are cut short"); }
absl::Status Damaged() { return absl::DataLossError("the compressed records are damaged"); }

// Where a codec writes. It grows with what is written, not with what a frame promises, and holds at
// most one byte above the bound: the byte that tells "too much" from "just enough".
class Sink {
 public:
  Sink(size_t bytes_max, size_t first_guess, std::string* out) : bytes_max_(bytes_max), out_(out) {
    out_->clear();
    out_->resize(std::min(std::max<size_t>(first_guess, 512), bytes_max_ + 1));
  }

  // Room to write to. Empty only if there is too much.
  char* room() { return out_->data() + written_; }
  size_t room_bytes() {
    if (written_ == out_->size()) out_->resize(std::min(2 * written_, bytes_max_ + 1));
    return out_->size() - written_;
  }
  void Wrote(size_t bytes) { written_ += bytes; }
  bool full() const { return written_ > bytes_max_; }
  void Finish() { out_->resize(written_); }

 private:
  const size_t bytes_max_;
  size_t written_ = 0;
  std::string* out_;
};

absl::Status Gunzip(std::string_view compressed, Sink* sink) {
  z_stream stream{};
  LS_CHECK_LE(compressed.size(), std::numeric_limits<uInt>::max());
  // 15 is the largest window, 16 says gzip and nothing else.
  LS_CHECK_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> end(&stream, &inflateEnd);
  // It only reads from its input; its signature is older than const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  while (true) {
    const size_t room = std::min<size_t>(sink->room_bytes(), std::numeric_limits<uInt>::max());
    stream.next_out = reinterpret_cast<Bytef*>(sink->room());
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    sink->Wrote(room - stream.avail_out);
    if (sink->full()) return TooMuch();
    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0) return absl::OkStatus();
      LS_CHECK_EQ(inflateReset(&stream), Z_OK);
    } else if (result == Z_BUF_ERROR ||
               (result == Z_OK && stream.avail_in == 0 && stream.avail_out != 0)) {
      return CutShort();
    } else if (result != Z_OK) {
      return Damaged();
    }
  }
}

absl::Status Unlz4(std::string_view compressed, Sink* sink) {
  LZ4F_dctx* context = nullptr;
  LS_CHECK(!LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)));
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> end(
      context, &LZ4F_freeDecompressionContext);
  while (true) {
    size_t wrote = sink->room_bytes();
    size_t read = compressed.size();
    const size_t room = wrote;
    const size_t left =
        LZ4F_decompress(context, sink->room(), &wrote, compressed.data(), &read, nullptr);
    if (LZ4F_isError(left)) return Damaged();
    sink->Wrote(wrote);
    compressed.remove_prefix(read);
    if (sink->full()) return TooMuch();
    if (left == 0 && compressed.empty()) return absl::OkStatus();
    // With room left it would have gone on if there were anything to go on with.
    if (wrote < room && left != 0 && compressed.empty()) return CutShort();
    if (read == 0 && wrote == 0) return Damaged();
  }
}

absl::Status Unzstd(std::string_view compressed, size_t bytes_max, Sink* sink) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  LS_CHECK(context != nullptr);
  // A frame asks for a window of up to 2^31 bytes, which is allocated before anything is known of
  // its content. 2^23 must be granted (RFC 8878, 3.1.1.1.2): level 3 asks for 2^21 even if there is
  // less to compress. 2^27 is the library's own bound.
  const int window = std::clamp(static_cast<int>(std::bit_width(bytes_max)), 23, 27);
  LS_CHECK(!ZSTD_isError(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, window)));
  ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
  while (true) {
    const size_t room = sink->room_bytes();
    const size_t read_before = in.pos;
    ZSTD_outBuffer out{sink->room(), room, 0};
    const size_t left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left)) return Damaged();
    sink->Wrote(out.pos);
    if (sink->full()) return TooMuch();
    if (left == 0 && in.pos == in.size) return absl::OkStatus();
    if (out.pos < room && left != 0 && in.pos == in.size) return CutShort();
    if (in.pos == read_before && out.pos == 0) return Damaged();
  }
}

// One raw block, appended to `out`.
absl::Status Unsnappy(std::string_view block, size_t bytes_max, std::string* out) {
  size_t bytes = 0;
  if (!snappy::GetUncompressedLength(block.data(), block.size(), &bytes)) return Damaged();
  // The densest element makes 64 bytes of 3. What promises more is not worth the memory to see it
  // fail.
  if (bytes / 22 > block.size()) return Damaged();
  if (bytes > bytes_max - out->size()) return TooMuch();
  const size_t before = out->size();
  out->resize(before + bytes);
  return snappy::RawUncompress(block.data(), block.size(), out->data() + before) ? absl::OkStatus()
                                                                                 : Damaged();
}

// snappy-java's SnappyOutputStream: this, two versions of four bytes, and then blocks, each behind
// its length. No raw block starts so: it would be one that copies before there is anything to copy.
constexpr std::string_view kSnappyJavaMagic("\x82SNAPPY\0", 8);
constexpr size_t kSnappyJavaHeaderBytes = 16;

absl::Status UnsnappyJava(std::string_view compressed, size_t bytes_max, std::string* out) {
  compressed.remove_prefix(kSnappyJavaHeaderBytes);
  while (!compressed.empty()) {
    // Streams may follow each other. Read as a length, the magic is negative.
    if (compressed.substr(0, kSnappyJavaMagic.size()) == kSnappyJavaMagic &&
        compressed.size() >= kSnappyJavaHeaderBytes) {
      compressed.remove_prefix(kSnappyJavaHeaderBytes);
      continue;
    }
    if (compressed.size() < sizeof(int32_t)) return CutShort();
    const auto length = records::LoadBe<int32_t>(compressed.data());
    compressed.remove_prefix(sizeof length);
    if (length < 0) return Damaged();
    if (compressed.size() < static_cast<size_t>(length)) return CutShort();
    const absl::Status status =
        Unsnappy(compressed.substr(0, static_cast<size_t>(length)), bytes_max, out);
    if (!status.ok()) return status;
    compressed.remove_prefix(static_cast<size_t>(length));
  }
  return absl::OkStatus();
}

absl::Status UnsnappyAny(std::string_view compressed, size_t bytes_max, std::string* out) {
  out->clear();
  return compressed.size() >= kSnappyJavaHeaderBytes &&
                 compressed.substr(0, kSnappyJavaMagic.size()) == kSnappyJavaMagic
             ? UnsnappyJava(compressed, bytes_max, out)
             : Unsnappy(compressed, bytes_max, out);
}

}  // namespace

std::string_view ToString(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kSnappy:
      return "snappy";
    case Compression::kLz4:
      return "lz4";
    case Compression::kZstd:
      return "zstd";
    case Compression::kUnknown:
      return "unknown";
  }
  LS_UNREACHABLE();
}

absl::Status Decompress(Compression compression, std::string_view compressed, size_t bytes_max,
                        std::string* out) {
  LS_CHECK_LT(bytes_max, size_t{std::numeric_limits<int32_t>::max()});
  // zlib counts in 32 bits. No batch is so large.
  if (compressed.size() > size_t{std::numeric_limits<int32_t>::max()}) return TooMuch();
  if (compression == Compression::kSnappy) return UnsnappyAny(compressed, bytes_max, out);
  if (compression == Compression::kNone) {
    if (compressed.size() > bytes_max) return TooMuch();
    out->assign(compressed);
    return absl::OkStatus();
  }

  Sink sink(bytes_max, 4 * compressed.size(), out);
  absl::Status status;
  switch (compression) {
    case Compression::kGzip:
      status = Gunzip(compressed, &sink);
      break;
    case Compression::kLz4:
      status = Unlz4(compressed, &sink);
      break;
    case Compression::kZstd:
      status = Unzstd(compressed, bytes_max, &sink);
      break;
    default:
      status = absl::UnimplementedError("an unknown codec");
      break;
  }
  sink.Finish();
  return status;
}

absl::StatusOr<std::string_view> OpenRecords(const records::BatchHeader& header,
                                             const records::Batch& batch, size_t bytes_max,
                                             std::string* scratch) {
  // A batch that compaction has emptied keeps its attributes, and nothing to decompress.
  if (header.compression() == Compression::kNone || header.record_count == 0) {
    return batch.records.view();
  }
  const absl::Status status =
      Decompress(header.compression(), batch.records.view(), bytes_max, scratch);
  if (!status.ok()) return status;
  return *scratch;
}

}  // namespace lockstep::kafka
