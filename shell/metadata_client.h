// Asks a broker, as any client of Kafka's protocol does, who is there and what it knows of topics.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/kafka/messages.h"
#include "shell/config.h"

namespace lockstep::shell {

// Of one topic, or of all. Nothing is created by asking. The error says why there is no answer, and
// names the broker. Blocks for up to `timeout`.
absl::StatusOr<kafka::MetadataResponse> AskMetadata(const Endpoint& broker,
                                                    const std::optional<std::string>& topic,
                                                    Duration timeout);

}  // namespace lockstep::shell
