#include "sim/broker_plan.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kHostPrefix = "server-";

}  // namespace

std::string HostOf(uint32_t server) { return absl::StrCat("server-", server + 1); }

std::optional<uint32_t> ServerOfHost(std::string_view host) {
  if (!host.starts_with(kHostPrefix)) return std::nullopt;
  host.remove_prefix(kHostPrefix.size());
  uint32_t number = 0;
  if (!absl::SimpleAtoi(absl::string_view(host.data(), host.size()), &number) || number == 0) {
    return std::nullopt;
  }
  return number - 1;
}

std::string Describe(const BrokerPlan& plan) {
  std::string text = absl::StrCat(
      "; brokers: ", plan.voters, " of them vote, ",
      plan.durability == storage::Durability::kFsync ? "fsync" : "flush", ", session ",
      plan.session_timeout.ToString(), ", in sync within ", plan.keep_in_sync_time.ToString(),
      plan.fail_overs ? ", fail-overs" : "", plan.hand_overs ? ", hand-overs" : "");
  for (const TopicPlan& topic : plan.topics) {
    absl::StrAppend(&text, ", ", topic.name, " ", topic.partitions, "x", topic.replication_factor,
                    " min ", topic.min_insync, topic.unclean ? " unclean" : "",
                    topic.recreated ? " recreated" : "");
  }
  for (const ProducerPlan& producer : plan.producers) {
    absl::StrAppend(&text, ", producer acks ", producer.acks,
                    producer.idempotent ? " idempotent" : "", " in flight ",
                    producer.in_flight_max);
  }
  absl::StrAppend(&text, ", ", plan.consumers, " consumers, ", plan.group_members, " in a group");
  return text;
}

}  // namespace lockstep::sim
