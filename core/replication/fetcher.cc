#include "core/replication/fetcher.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::replication {

Fetcher::Fetcher(const FetcherOptions& options, StateOf state_of)
    : options_(options),
      state_of_(std::move(state_of)),
      tokens_(static_cast<int64_t>(options.throttle)) {}

void Fetcher::Follow(const PartitionId& partition, std::optional<BrokerId> leader) {
  if (auto at = leader_of_.find(partition); at != leader_of_.end()) {
    if (at->second == leader) return Touch(partition);
    leaders_[at->second].partitions.erase(partition);
    leaders_[at->second].changed.erase(partition);
    leader_of_.erase(at);
  }
  if (!leader.has_value()) return;
  leader_of_[partition] = *leader;
  Leader& to = leaders_[*leader];
  to.partitions[partition] = Instant{0};
  to.changed.insert(partition);
  to.touched = to.news = true;
}

void Fetcher::Touch(const PartitionId& partition) {
  auto at = leader_of_.find(partition);
  if (at == leader_of_.end()) return;
  Leader& leader = leaders_[at->second];
  leader.changed.insert(partition);
  leader.touched = leader.news = true;
}

void Fetcher::SetIncarnation(BrokerEpoch incarnation) {
  incarnation_ = incarnation;
  for (auto& [id, leader] : leaders_) leader.whole_at = Instant{0};
}

void Fetcher::SetBroker(Instant now, const BrokerState& broker, BrokerOutput* output) {
  Leader& leader = leaders_[broker.id];
  if (leader.broker.has_value() && (leader.broker->incarnation != broker.incarnation ||
                                    leader.broker->endpoint != broker.endpoint)) {
    RemoveBroker(broker.id, output);
  }
  leader.broker = broker;
  leader.touched = true;
  leader.dial_at = now;
  leader.backoff = options_.retry;
}

void Fetcher::RemoveBroker(BrokerId broker, BrokerOutput* output) {
  auto at = leaders_.find(broker);
  if (at == leaders_.end()) return;
  Leader& leader = at->second;
  if (leader.link != Link::kNone) output->closes.push_back(leader.connection);
  Disconnect(Instant{0}, &leader, false);
  leader.broker.reset();
}

void Fetcher::Disconnect(Instant now, Leader* leader, bool failed) {
  connections_.erase(leader->connection);
  leader->link = Link::kNone;
  leader->sent = leader->answered = 0;
  leader->answer_by = Instant::Never();
  leader->whole_at = Instant{0};
  leader->touched = true;
  if (!failed) return;
  leader->dial_at = now + leader->backoff;
  leader->backoff = std::min(leader->backoff * 2, options_.retry_max);
}

void Fetcher::OnConnected(Instant /*now*/, ConnectionId connection) {
  auto at = connections_.find(connection);
  if (at == connections_.end()) return;
  Leader& leader = leaders_[at->second];
  leader.link = Link::kUp;
  leader.answer_by = Instant::Never();
  leader.touched = true;
}

void Fetcher::OnClosed(Instant now, ConnectionId connection) {
  auto at = connections_.find(connection);
  if (at == connections_.end()) return;
  Disconnect(now, &leaders_[at->second], true);
}

std::optional<BrokerId> Fetcher::OnResponse(Instant now, ConnectionId connection,
                                            const ReplicaFetchResponse& response,
                                            BrokerOutput* output) {
  auto at = connections_.find(connection);
  if (at == connections_.end()) return std::nullopt;
  const BrokerId id = at->second;
  Leader& leader = leaders_[id];
  if (leader.link != Link::kUp || response.sequence != leader.answered + 1 ||
      response.sequence > leader.sent) {
    output->closes.push_back(connection);
    Disconnect(now, &leader, true);
    return std::nullopt;
  }
  leader.answered = response.sequence;
  leader.answer_by = leader.answered == leader.sent
                         ? Instant::Never()
                         : now + options_.max_wait + options_.answer_timeout;
  leader.touched = true;
  leader.backoff = options_.retry;
  for (const ReplicaFetchResponse::Entry& entry : response.entries) {
    auto partition = leader.partitions.find(entry.partition);
    if (partition == leader.partitions.end()) continue;
    leader.changed.insert(entry.partition);  // the leader forgets it until it is listed again
    // It will hardly be better at once; asking again and again would only load both.
    if (entry.error != FetchError::kNone && entry.error != FetchError::kOffsetOutOfRange) {
      partition->second = now + options_.retry;
      leader.retry_at = std::min(leader.retry_at, partition->second);
    }
    if (options_.throttle > 0 && !entry.batches.empty() && state_of_(entry.partition).throttled) {
      for (const Bytes& batch : entry.batches) tokens_ -= static_cast<int64_t>(batch.size());
    }
  }
  return id;
}

void Fetcher::Refill(Instant now) {
  if (options_.throttle == 0) return;
  const int64_t passed_us = (now - refilled_).ns / 1000;
  if (passed_us <= 0) return;
  refilled_ = now;
  const auto limit = static_cast<int64_t>(options_.throttle);
  // After a second the bucket is full anyway; longer spans would only overflow.
  const int64_t added = limit / 1000 * std::min<int64_t>(passed_us, 1'000'000) / 1000 + 1;
  tokens_ = std::min(limit, tokens_ + added);
}

void Fetcher::Flush(Instant now, BrokerOutput* output) {
  Refill(now);
  for (auto& [id, leader] : leaders_) {
    if (leader.answer_by <= now) {
      // Half-open, or the leader hangs: another connection tells.
      output->closes.push_back(leader.connection);
      Disconnect(now, &leader, true);
    }
    if (!incarnation_ || leader.partitions.empty() || !leader.broker.has_value()) continue;
    if (leader.link == Link::kNone && leader.dial_at <= now) {
      leader.connection = {next_connection_++};
      leader.link = Link::kDialing;
      leader.answer_by = now + options_.answer_timeout;
      connections_[leader.connection] = id;
      output->dials.push_back({leader.connection, id, leader.broker->endpoint});
    }
    if (leader.link != Link::kUp) continue;
    if (leader.retry_at <= now) leader.touched = leader.news = true;
    if (!leader.touched) continue;
    const uint64_t outstanding = leader.sent - leader.answered;
    // A second request releases the first one, which the leader may be keeping until data comes.
    if (outstanding == 0 || (outstanding == 1 && leader.news)) {
      if (Send(now, &leader, output)) leader.touched = leader.news = false;
    }
  }
}

// Only what has changed, and now and then all: so that a leader which could not act on something
// when it was told, such as a follower that has caught up while another ISR change was under way,
// is told again, and knows that this broker is alive, as often as if each request listed all.
bool Fetcher::Send(Instant now, Leader* leader, BrokerOutput* output) {
  ReplicaFetchRequest request{.follower = options_.broker,
                              .incarnation = incarnation_,
                              .max_wait_ms = static_cast<int32_t>(options_.max_wait.Milliseconds()),
                              .max_bytes = options_.max_bytes,
                              .entry_max_bytes = options_.entry_max_bytes,
                              .partial = now < leader->whole_at};
  leader->retry_at = Instant::Never();
  const bool waiting = leader->sent > leader->answered;
  if (request.partial) {
    for (const PartitionId& id : leader->changed) {
      if (!List(now, leader, id, leader->partitions.at(id), &request)) return false;
    }
    // One must wait there in any case, to be answered when there is data.
    if (request.entries.empty() && waiting) return true;
  } else {
    // What is under way is among these: it is found without going through all.
    for (const PartitionId& id : leader->changed) {
      if (state_of_(id).busy) return false;
    }
    auto begin = leader->partitions.upper_bound(leader->cursor);
    for (size_t i = 0; i < leader->partitions.size(); ++i, ++begin) {
      if (begin == leader->partitions.end()) begin = leader->partitions.begin();
      if (!List(now, leader, begin->first, begin->second, &request)) return false;
    }
    if (request.entries.empty()) return true;
    // The next one begins one further, so that none starves when max_bytes is reached.
    leader->cursor = request.entries.front().partition;
    leader->whole_at = now + options_.max_wait;
  }
  // What could not be listed yet is not forgotten.
  for (const ReplicaFetchRequest::Entry& entry : request.entries) {
    leader->changed.erase(entry.partition);
  }
  request.sequence = ++leader->sent;
  leader->answer_by = now + options_.max_wait + options_.answer_timeout;
  output->sends.push_back({leader->connection, std::move(request)});
  return true;
}

bool Fetcher::List(Instant now, Leader* leader, const PartitionId& partition, Instant not_before,
                   ReplicaFetchRequest* request) {
  if (not_before > now) {
    leader->changed.insert(partition);
    leader->retry_at = std::min(leader->retry_at, not_before);
    return true;
  }
  FetchState state = state_of_(partition);
  // Its acknowledgement is worth waiting for: one that is left out now has to wait until the
  // request without it is answered.
  if (state.busy) return false;
  if (!state.entry.has_value()) return true;
  if (state.throttled && options_.throttle > 0 && tokens_ <= 0) {
    const Instant then = now + options_.retry;
    leader->partitions.at(partition) = then;
    leader->changed.insert(partition);
    leader->retry_at = std::min(leader->retry_at, then);
    return true;
  }
  if (request->entries.size() < kFetchEntriesMax) request->entries.push_back(*state.entry);
  return true;
}

Instant Fetcher::next_deadline() const {
  Instant next = Instant::Never();
  for (const auto& [id, leader] : leaders_) {
    next = std::min(next, leader.answer_by);
    if (!incarnation_ || leader.partitions.empty() || !leader.broker.has_value()) continue;
    if (leader.link == Link::kNone) next = std::min(next, leader.dial_at);
    if (leader.link == Link::kUp && leader.sent <= leader.answered + 1) {
      next = std::min(next, leader.retry_at);
    }
  }
  return next;
}

}  // namespace lockstep::replication
