// Between the group coordinator, its clients and its topic.
#include <algorithm>
#include <utility>

#include "core/kafka/front_end_impl.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {
namespace {

// A commit of offsets that the log does not take in time is refused; Kafka's
// offsets.commit.timeout.ms.
constexpr Duration kAppendTimeout = Seconds(5);

}  // namespace

void FrontEnd::Impl::TakeGroupRequest(CallId call, GroupRequest request) {
  const Call* c = FindCall(call);
  const std::string client_id = c->client_id;
  const std::string address = "/" + connections_.at(c->connection).address;
  if (auto* commit = std::get_if<OffsetCommitRequest>(&request)) {
    RefuseUnknownPartitions(call, *commit);
  }
  groups_.OnRequest(now_, {call}, c->version, request, client_id, address, &groups_out_);
  CarryGroups();
}

void FrontEnd::Impl::RefuseUnknownPartitions(CallId call, OffsetCommitRequest& request) {
  if (!broker_.metadata().complete()) return;
  std::vector<OffsetCommitResponse::Topic> refused;
  std::erase_if(request.topics, [&](OffsetCommitRequest::Topic& topic) {
    const replication::TopicState* state = FindTopic(topic.name);
    const size_t count = state == nullptr ? 0 : state->partitions.size();
    OffsetCommitResponse::Topic to{.name = topic.name, .partitions = {}};
    std::erase_if(topic.partitions, [&](const OffsetCommitRequest::Partition& partition) {
      const int32_t index = partition.partition_index;
      if (index >= 0 && static_cast<size_t>(index) < count) return false;
      to.partitions.push_back(
          {.partition_index = index, .error_code = ErrorCode::kUnknownTopicOrPartition});
      return true;
    });
    if (!to.partitions.empty()) refused.push_back(std::move(to));
    return topic.partitions.empty();
  });
  if (!refused.empty()) refused_commits_[call] = std::move(refused);
}

void FrontEnd::Impl::CarryGroups() {
  // What carrying it out ends at once may make the coordinator say more.
  while (!groups_out_.replies.empty() || !groups_out_.appends.empty() ||
         !groups_out_.events.empty()) {
    GroupsOutput out;
    std::swap(out, groups_out_);
    for (const Event& event : out.events) output_->events.push_back(event);
    for (const GroupsOutput::Append& append : out.appends) AppendForGroups(append);
    for (GroupsOutput::Reply& reply : out.replies) {
      if (auto refused = refused_commits_.find(reply.id.value); refused != refused_commits_.end()) {
        auto& response = std::get<OffsetCommitResponse>(reply.response);
        // A topic is there once, whether some or all of its partitions were refused.
        for (auto& topic : refused->second) {
          auto same = std::find_if(response.topics.begin(), response.topics.end(),
                                   [&](const auto& other) { return other.name == topic.name; });
          if (same == response.topics.end()) {
            response.topics.push_back(std::move(topic));
          } else {
            same->partitions.insert(same->partitions.end(), topic.partitions.begin(),
                                    topic.partitions.end());
          }
        }
        refused_commits_.erase(refused);
      }
      std::visit([&](const auto& response) { Reply(reply.id.value, response); }, reply.response);
    }
  }
}

void FrontEnd::Impl::AppendForGroups(const GroupsOutput::Append& append) {
  const Led led = FindLed(kOffsetsTopic, append.partition, /*epoch=*/-1);
  if (led.error != ErrorCode::kNone || led.partition->leader_epoch() != append.epoch) {
    return groups_.OnAppended(now_, append.id, ErrorCode::kNotLeaderOrFollower, &groups_out_);
  }
  const records::Batch unplaced = records::Batch::Of(append.batch);
  const records::Batch batch = records::AssignOffsets(
      unplaced, {.base_offset = led.partition->log_end(),
                 .leader_epoch = append.epoch.value,
                 .max_timestamp = records::HeaderOf(unplaced).max_timestamp});
  const uint64_t produce = ++last_produce_;
  produce_parts_[produce] = {.call = 0, .append = append.id};
  const bool appended =
      broker_.Produce(now_, led.hosted->id, {produce}, replication::Acks::kAll,
                      now_ + kAppendTimeout, batch.Slices(), append.records, broker_output_);
  if (appended) led.hosted->producers.Appended(now_, records::HeaderOf(batch));
}

}  // namespace lockstep::kafka
