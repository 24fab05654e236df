// CRC-32C (Castagnoli), the checksum of everything that storage writes, of the messages between
// servers, and of the record batches of Kafka.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

// The checksum of A followed by `data`, where `crc` is that of A (0 for nothing).
// Crc32c(0, "123456789") is 0xe3069283.
uint32_t Crc32c(uint32_t crc, std::string_view data);

}  // namespace lockstep
