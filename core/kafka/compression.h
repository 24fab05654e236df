// The codecs of record batches, as far as a broker needs them: decompression, bounded.
//
// A broker stores and sends batches as producers compressed them. It opens them only to see that
// they hold what their headers say (produce_validation.h), and to look into them by time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {

// "zstd": as in compression.type.
std::string_view ToString(records::Compression compression);

// Decompresses all of `compressed` into `out`, replacing what was there. `out` never grows beyond
// bytes_max + 1, and what a codec allocates beside it stays below 9 MiB or 2 * bytes_max + 1 MiB,
// whichever is more: what a few bytes can cost is bounded. After an error `out` holds nothing of
// use. Requires: bytes_max < 2^31 - 1.
//
// Accepted are gzip members and frames of LZ4 and Zstandard, one or more, with nothing between or
// after them; and Snappy both as one raw block (librdkafka) and in the framing of snappy-java
// (Kafka's own clients). kNone copies.
//
// Errors: ResourceExhausted if there is more than `bytes_max`; Unimplemented for kUnknown; DataLoss
// for what is damaged, cut short, or followed by something else.
absl::Status Decompress(records::Compression compression, std::string_view compressed,
                        size_t bytes_max, std::string* out);

// What a RecordReader may go through: batch.records itself, or, decompressed, `scratch`. Errors are
// those of Decompress.
absl::StatusOr<std::string_view> OpenRecords(const records::BatchHeader& header,
                                             const records::Batch& batch, size_t bytes_max,
                                             std::string* scratch);

}  // namespace lockstep::kafka
