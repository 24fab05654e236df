#include "core/replication/fetch_server.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::replication {
namespace {

// A follower has one request under way, and at times one more that releases the first.
constexpr size_t kQueueMax = 4;

}  // namespace

void FetchServer::OnRequest(Instant now, ConnectionId id, ReplicaFetchRequest request,
                            BrokerOutput* output) {
  Connection& connection = connections_[id];
  if (connection.answering) {
    if (connection.queue.size() >= kQueueMax) {
      output->closes.push_back(id);
      return OnClosed(now, id);
    }
    connection.queue.push_back(std::move(request));
    return;
  }
  if (connection.answer.sequence != 0) {
    // The follower has something new to say; what it asked for before is answered first.
    connection.queue.push_back(std::move(request));
    connection.answering = true;
    TakeMoved(&connection);
    return Continue(now, id, &connection, output);
  }
  Begin(now, id, &connection, std::move(request), output);
}

void FetchServer::Begin(Instant now, ConnectionId id, Connection* connection,
                        ReplicaFetchRequest request, BrokerOutput* output) {
  Answer& answer = connection->answer;
  answer = {.sequence = request.sequence,
            .follower = request.follower,
            .entry_max_bytes = request.entry_max_bytes,
            .bytes_left = request.max_bytes};
  answer.response.sequence = request.sequence;
  connection->woken = false;
  if (!request.partial) {
    connection->standing.clear();
    connection->moved.clear();
  }
  for (const ReplicaFetchRequest::Entry& entry : request.entries) {
    connection->standing[entry.partition] = {.asked = entry, .place = Standing::Place::kTaken};
  }
  if (connection->standing.size() > kFetchEntriesMax) {
    output->closes.push_back(id);
    return OnClosed(now, id);
  }
  // Before what is listed: it has waited for longer, and may have found no room before.
  bool news = TakeMoved(connection);
  for (const ReplicaFetchRequest::Entry& entry : request.entries) {
    Item item{.asked = entry};
    if (host_->Find(entry.partition) == nullptr) {
      item.error = FetchError::kUnknownPartition;
      news = true;
    } else {
      Partition::FetchDecision decision = host_->OnFetch(now, request, entry, output);
      item.error = decision.error;
      item.diverging = decision.diverging;
      item.read_from = decision.read_from;
      item.counted = decision.error == FetchError::kNone;
      news = news || decision.news;
    }
    answer.items.push_back(std::move(item));
  }
  if (news || request.max_wait_ms <= 0) {
    connection->answering = true;
    return Continue(now, id, connection, output);
  }
  connection->deadline = now + Milliseconds(request.max_wait_ms);
}

void FetchServer::OnMoved(const PartitionId& partition, bool wake) {
  for (auto& [id, connection] : connections_) {
    const auto at = connection.standing.find(partition);
    if (at == connection.standing.end()) continue;
    if (wake) connection.woken = true;
    if (at->second.place != Standing::Place::kIdle) continue;
    at->second.place = Standing::Place::kMoved;
    connection.moved.push_back(partition);
  }
}

bool FetchServer::TakeMoved(Connection* connection) {
  bool news = false;
  for (const PartitionId& id : connection->moved) {
    const auto at = connection->standing.find(id);
    if (at == connection->standing.end() || at->second.place != Standing::Place::kMoved) continue;
    at->second.place = Standing::Place::kTaken;
    const ReplicaFetchRequest::Entry& asked = at->second.asked;
    // Nothing is acknowledged: that was done when it was listed, and the follower may have given
    // the partition up since.
    connection->answer.items.push_back({.asked = asked, .read_from = asked.fetch_offset});
    const Partition* partition = host_->Find(id);
    news = news || partition == nullptr || partition->role() != Role::kLeader ||
           partition->leader_epoch() != asked.leader_epoch ||
           asked.fetch_offset < partition->log_end() ||
           asked.high_watermark < std::min(partition->high_watermark(), asked.fetch_offset);
  }
  connection->moved.clear();
  return news;
}

void FetchServer::Put(Connection* connection, ReplicaFetchResponse::Entry entry) {
  connection->standing.erase(entry.partition);
  connection->answer.response.entries.push_back(std::move(entry));
}

void FetchServer::Pass(Connection* connection, const PartitionId& partition, bool again) {
  const auto at = connection->standing.find(partition);
  if (at == connection->standing.end()) return;
  at->second.place = again ? Standing::Place::kMoved : Standing::Place::kIdle;
  if (again) connection->moved.push_back(partition);
}

ReplicaFetchResponse::Entry FetchServer::EntryOf(const Item& item) const {
  ReplicaFetchResponse::Entry entry{.partition = item.asked.partition,
                                    .error = item.error,
                                    .leader_epoch = item.asked.leader_epoch,
                                    .fetch_offset = item.asked.fetch_offset,
                                    .last_fetched_epoch = item.asked.last_fetched_epoch,
                                    .diverging = item.diverging};
  const Partition* partition = host_->Find(item.asked.partition);
  if (entry.error != FetchError::kNone) {
    if (partition != nullptr) {
      entry.leader_epoch = partition->leader_epoch();
      entry.log_start = partition->log_start();  // where a follower that is below it begins anew
    }
    return entry;
  }
  // It has waited: what was decided then counts only under the same leadership.
  if (partition == nullptr || partition->role() != Role::kLeader ||
      partition->leader_epoch() != item.asked.leader_epoch) {
    entry.error = FetchError::kNotLeader;
    entry.diverging.reset();
    return entry;
  }
  entry.high_watermark = partition->high_watermark();
  entry.log_start = partition->log_start();
  return entry;
}

void FetchServer::Continue(Instant now, ConnectionId id, Connection* connection,
                           BrokerOutput* output) {
  Answer& answer = connection->answer;
  while (answer.next < answer.items.size() && answer.reads < kReadsMax) {
    const size_t index = answer.next;
    const Item& item = answer.items[index];
    ReplicaFetchResponse::Entry entry = EntryOf(item);
    if (entry.error == FetchError::kNone && !entry.diverging.has_value()) {
      const Partition* partition = host_->Find(item.asked.partition);
      if (item.read_from < partition->log_end()) {
        if (answer.bytes_left <= 0) {
          Pass(connection, item.asked.partition, /*again=*/true);
          ++answer.next;
          continue;
        }
        const auto limit =
            static_cast<uint32_t>(std::min<int64_t>(answer.entry_max_bytes, answer.bytes_left));
        const uint64_t read = next_read_++;
        reads_[read] = {id, answer.sequence, index};
        output->reads.push_back(
            {{read}, host_->LogOf(item.asked.partition), item.read_from, std::max(limit, 1u)});
        ++answer.reads;
        ++answer.next;
        continue;
      }
      const bool news = entry.high_watermark > item.asked.high_watermark ||
                        entry.log_start != item.asked.log_start;
      if (!news) {
        Pass(connection, item.asked.partition, /*again=*/false);
        ++answer.next;
        continue;
      }
    }
    Put(connection, std::move(entry));
    ++answer.next;
  }
  if (answer.reads > 0 || answer.next < answer.items.size()) return;
  output->sends.push_back({id, std::move(answer.response)});
  Settle(now, connection);
  if (connection->queue.empty()) return;
  ReplicaFetchRequest request = std::move(connection->queue.front());
  connection->queue.pop_front();
  Begin(now, id, connection, std::move(request), output);
}

// The answer has left, or never will.
void FetchServer::Settle(Instant now, Connection* connection) {
  for (const Item& item : connection->answer.items) {
    if (item.counted && host_->Find(item.asked.partition) != nullptr) {
      host_->OnFetchAnswered(now, connection->answer.follower, item.asked.partition);
    }
  }
  connection->answer = {};
  connection->answering = connection->woken = false;
  connection->deadline = Instant::Never();
}

void FetchServer::OnRead(Instant now, storage::LogReadDone done, BrokerOutput* output) {
  auto at = reads_.find(done.id.value);
  if (at == reads_.end()) return;
  const Read read = at->second;
  reads_.erase(at);
  auto found = connections_.find(read.connection);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  Answer& answer = connection.answer;
  if (!connection.answering || answer.sequence != read.sequence) return;
  LS_CHECK_GT(answer.reads, size_t{0});
  --answer.reads;
  ReplicaFetchResponse::Entry entry = EntryOf(answer.items[read.item]);
  using Status = storage::LogReadDone::Status;
  if (entry.error == FetchError::kNone && done.status == Status::kFailed) {
    entry.error = FetchError::kStorage;
  }
  if (entry.error == FetchError::kNone) {
    entry.batches = std::move(done.batches);
    for (const Bytes& batch : entry.batches) {
      answer.bytes_left -= static_cast<int64_t>(batch.size());
    }
  }
  Put(&connection, std::move(entry));
  if (answer.reads == 0) Continue(now, read.connection, &connection, output);
}

void FetchServer::OnClosed(Instant now, ConnectionId id) {
  auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Settle(now, &at->second);
  connections_.erase(at);
}

void FetchServer::Flush(Instant now, BrokerOutput* output) {
  for (auto& [id, connection] : connections_) {
    if (connection.answering || connection.answer.sequence == 0) continue;
    if (!connection.woken && connection.deadline > now) continue;
    connection.answering = true;
    TakeMoved(&connection);
    Continue(now, id, &connection, output);
  }
}

Instant FetchServer::next_deadline() const {
  Instant next = Instant::Never();
  for (const auto& [id, connection] : connections_) {
    if (!connection.answering) next = std::min(next, connection.deadline);
  }
  return next;
}

}  // namespace lockstep::replication
