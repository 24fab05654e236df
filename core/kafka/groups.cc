#include "core/kafka/groups.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/kafka/compression.h"
#include "core/kafka/groups_impl.h"
#include "core/records/batch_builder.h"
#include "core/records/record.h"

namespace lockstep::kafka {
namespace {

// Kafka's retention is in minutes; it looks as often (offsets.retention.check.interval.ms).
constexpr Duration kRetentionCheckInterval = Seconds(600);
// Nobody names a group like this; bounds what it costs to remember one.
constexpr size_t kGroupNameBytesMax = 4096;
// Of one batch of the log, decompressed. We write none compressed, but a log may have been
// brought here from Kafka.
constexpr size_t kBatchContentMax = size_t{128} << 20;
// Of a record, beside its key and value; and of a batch.
constexpr size_t kRecordOverheadMax = 32;

// The next code point of UTF-8; U+FFFD for bytes that are none, as Java decodes them.
uint32_t NextCodePoint(std::string_view* text) {
  const auto first = static_cast<unsigned char>((*text)[0]);
  text->remove_prefix(1);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 && first <= 0xf4 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
  if (more == 0 || first > 0xf4) return 0xfffd;
  uint32_t point = first & (0x3fu >> more);
  for (int i = 0; i < more; ++i) {
    if (text->empty() || ((*text)[0] & 0xc0) != 0x80) return 0xfffd;
    point = point << 6 | (static_cast<unsigned char>((*text)[0]) & 0x3fu);
    text->remove_prefix(1);
  }
  return point;
}

// java.lang.String.hashCode, which goes by UTF-16.
int32_t JavaHash(std::string_view text) {
  uint32_t hash = 0;
  while (!text.empty()) {
    const uint32_t point = NextCodePoint(&text);
    if (point >= 0x10000) {
      hash = hash * 31 + (0xd800 + ((point - 0x10000) >> 10));
      hash = hash * 31 + (0xdc00 + ((point - 0x10000) & 0x3ff));
    } else {
      hash = hash * 31 + point;
    }
  }
  return static_cast<int32_t>(hash);
}

}  // namespace

ErrorCode CoordinatorError(ErrorCode append_error) {
  switch (append_error) {
    case ErrorCode::kUnknownTopicOrPartition:
    case ErrorCode::kNotEnoughReplicas:
    case ErrorCode::kNotEnoughReplicasAfterAppend:
    case ErrorCode::kRequestTimedOut:
      return ErrorCode::kCoordinatorNotAvailable;
    case ErrorCode::kNotLeaderOrFollower:
    case ErrorCode::kFencedLeaderEpoch:
    case ErrorCode::kKafkaStorageError:
      return ErrorCode::kNotCoordinator;
    case ErrorCode::kMessageTooLarge:
    case ErrorCode::kRecordListTooLarge:
    case ErrorCode::kInvalidFetchSize:
      return ErrorCode::kInvalidCommitOffsetSize;
    default:
      return append_error;
  }
}

void GroupsOutput::Clear() {
  replies.clear();
  appends.clear();
  events.clear();
}

// ---- Life of a partition ------------------------------------------------------------------------

void Groups::Impl::Enter(Instant now, GroupsOutput* output) {
  now_ = now;
  output_ = output;
}

void Groups::Impl::SetWallClock(Instant now, int64_t unix_ms) {
  wall_at_ = now;
  wall_unix_ms_ = unix_ms;
}

void Groups::Impl::OnLoadBegin(Instant now, int32_t partition, replication::LeaderEpoch epoch) {
  const bool inserted = led_.try_emplace(partition).second;
  LS_CHECK(inserted);
  led_.at(partition).epoch = epoch;
  if (retention_check_ == Instant::Never()) retention_check_ = now + kRetentionCheckInterval;
}

void Groups::Impl::OnLoadBatches(Instant now, int32_t partition, const Bytes& batches,
                                 GroupsOutput* output) {
  Enter(now, output);
  auto led = led_.find(partition);
  LS_CHECK(led != led_.end() && led->second.loading);
  records::BatchReader reader(batches, {.contiguous = false});
  std::string scratch;
  while (std::optional<records::BatchReader::Item> item = reader.Next()) {
    // Offsets committed in transactions would need their markers; there are no such commits
    // (TxnOffsetCommit is not served), and without a marker they do not count.
    if (item->header.control() || item->header.transactional()) continue;
    const absl::StatusOr<std::string_view> opened =
        OpenRecords(item->header, item->batch, kBatchContentMax, &scratch);
    if (!opened.ok()) {
      Report(EventKind::kIgnored, static_cast<uint64_t>(item->header.base_offset),
             "a batch of the offsets topic cannot be opened",
             std::string(opened.status().message()));
      continue;
    }
    records::RecordReader records(item->header, *opened);
    records::Record record;
    while (records.Next(&record)) LoadRecord(partition, &led->second, record);
  }
  if (!reader.status().ok()) {
    Report(EventKind::kIgnored, static_cast<uint64_t>(partition),
           "batches of the offsets topic cannot be read", std::string(reader.status().message()));
  }
}

void Groups::Impl::LoadRecord(int32_t number, Partition* partition, const records::Record& record) {
  const absl::StatusOr<GroupRecord> decoded = DecodeGroupRecord(record.key, record.value);
  if (!decoded.ok()) {
    return Report(EventKind::kIgnored, static_cast<uint64_t>(record.offset),
                  "a record of the offsets topic cannot be read",
                  std::string(decoded.status().message()));
  }
  const auto group_of = [&](const std::string& name) {
    std::unique_ptr<Group>& group = partition->groups[name];
    if (group == nullptr) {
      group = std::make_unique<Group>(name, number, ++last_group_);
      ++group_count_;
    }
    return group.get();
  };
  if (const auto* offset = std::get_if<OffsetRecord>(&*decoded)) {
    const Group::OffsetKey key = {offset->topic, offset->partition};
    if (offset->value.has_value()) {
      group_of(offset->group)->offsets[key] = {*offset->value, 0};
    } else {
      group_of(offset->group)->offsets.erase(key);
    }
  } else if (const auto* metadata = std::get_if<GroupMetadataRecord>(&*decoded)) {
    Group* group = group_of(metadata->group);
    if (!metadata->value.has_value()) {
      group->Unload();
    } else if (!group->Load(*metadata->value)) {
      Report(EventKind::kIgnored, static_cast<uint64_t>(record.offset),
             "the record of a group contradicts itself", metadata->group);
    }
  }
}

void Groups::Impl::OnLoadEnd(Instant now, int32_t partition, GroupsOutput* output) {
  Enter(now, output);
  auto led = led_.find(partition);
  LS_CHECK(led != led_.end() && led->second.loading);
  led->second.loading = false;
  std::vector<GroupRef> refs;
  for (const auto& [name, group] : led->second.groups) refs.push_back(RefOf(*group));
  for (const GroupRef& ref : refs) {
    Group* group = Find(ref);
    // Members know nothing of the fail-over: each has a whole session to find the new coordinator.
    for (auto& [id, member] : group->members()) Touch(group, &member);
    if (group->members().size() > static_cast<size_t>(options_.group_size_max)) {
      PrepareRebalance(group);
    }
    EraseIfVoid(ref);
  }
  Report(EventKind::kGroupsLoaded, led->second.groups.size(), "",
         std::string(kOffsetsTopic) + "-" + std::to_string(partition));
}

void Groups::Impl::OnResigned(Instant now, int32_t partition, GroupsOutput* output) {
  Enter(now, output);
  auto led = led_.find(partition);
  if (led == led_.end()) return;
  for (auto& [name, group] : led->second.groups) {
    CancelTimers(group.get());
    for (auto& [id, member] : group->members()) {
      ReplyJoin(&member, {.error_code = ErrorCode::kNotCoordinator});
      ReplySync(&member, {.error_code = ErrorCode::kNotCoordinator});
    }
  }
  group_count_ -= led->second.groups.size();
  led_.erase(led);
  if (led_.empty()) retention_check_ = Instant::Never();
  // What waits for the log belongs to the epoch that has ended. Its records may yet be committed,
  // or others in their place: nobody here can tell (KAFKA-20634).
  std::vector<std::pair<uint64_t, Then>> given_up;
  for (auto each = under_way_.begin(); each != under_way_.end();) {
    if (each->second.partition != partition) {
      ++each;
      continue;
    }
    given_up.emplace_back(each->first, std::move(each->second.then));
    each = under_way_.erase(each);
  }
  for (const auto& [append, then] : given_up) then(append, ErrorCode::kNotLeaderOrFollower);
}

void Groups::Impl::OnAppended(Instant now, uint64_t append, ErrorCode error, GroupsOutput* output) {
  Enter(now, output);
  auto found = under_way_.find(append);
  if (found == under_way_.end()) return;
  const Then then = std::move(found->second.then);
  under_way_.erase(found);
  then(append, error);
}

// ---- Requests and groups ------------------------------------------------------------------------

void Groups::Impl::OnRequest(Instant now, GroupRequestId id, int16_t version,
                             const GroupRequest& request, const std::string& client_id,
                             const std::string& client_host, GroupsOutput* output) {
  Enter(now, output);
  const bool inserted = waiting_.insert(id.value).second;
  LS_CHECK(inserted);
  const Call call = {id, version, client_id, client_host};
  std::visit([&](const auto& each) { Handle(call, each); }, request);
}

void Groups::Impl::Reply(GroupRequestId id, GroupResponse response) {
  if (waiting_.erase(id.value) == 0) return;  // nobody wants it any more
  output_->replies.push_back({id, std::move(response)});
}

void Groups::Impl::Report(EventKind kind, uint64_t detail, const char* reason, std::string text) {
  output_->events.push_back(
      {.kind = kind, .peer = {}, .zxid = {}, .detail = detail, .reason = reason, .text = text});
}

Groups::Impl::Located Groups::Impl::Locate(const std::string& group, bool may_be_empty) {
  Located at;
  if ((group.empty() && !may_be_empty) || group.size() > kGroupNameBytesMax) {
    at.error = ErrorCode::kInvalidGroupId;
    return at;
  }
  if (partition_count_ <= 0) {
    at.error = ErrorCode::kCoordinatorNotAvailable;
    return at;
  }
  at.number = PartitionOf(group, partition_count_);
  auto led = led_.find(at.number);
  if (led == led_.end()) {
    at.error = ErrorCode::kNotCoordinator;
  } else if (led->second.loading) {
    at.error = ErrorCode::kCoordinatorLoadInProgress;
  } else {
    at.partition = &led->second;
  }
  return at;
}

Group* Groups::Impl::Find(const Located& at, const std::string& group) {
  auto found = at.partition->groups.find(group);
  return found == at.partition->groups.end() ? nullptr : found->second.get();
}

Group* Groups::Impl::Find(const GroupRef& ref) {
  auto led = led_.find(ref.partition);
  if (led == led_.end()) return nullptr;
  auto found = led->second.groups.find(ref.name);
  if (found == led->second.groups.end() || found->second->id() != ref.id) return nullptr;
  return found->second.get();
}

Group* Groups::Impl::Create(const Located& at, const std::string& name) {
  if (group_count_ >= options_.groups_max) return nullptr;
  ++group_count_;
  std::unique_ptr<Group>& group = at.partition->groups[name];
  LS_CHECK(group == nullptr);
  group = std::make_unique<Group>(name, at.number, ++last_group_);
  return group.get();
}

void Groups::Impl::CancelTimers(Group* group) {
  for (auto& [id, member] : group->members()) timers_.Cancel(&member.session);
  for (auto& [id, deadline] : group->pending_members) timers_.Cancel(&deadline);
  timers_.Cancel(&group->rebalance_deadline);
  timers_.Cancel(&group->sync_deadline);
}

void Groups::Impl::Erase(Group* group) {
  CancelTimers(group);
  auto& groups = led_.at(group->partition()).groups;
  groups.erase(groups.find(group->name()));
  --group_count_;
}

void Groups::Impl::EraseIfVoid(const GroupRef& ref) {
  Group* group = Find(ref);
  if (group != nullptr && group->IsVoid()) Erase(group);
}

// ---- The log ------------------------------------------------------------------------------------

bool Groups::Impl::FitsBatch(const std::vector<KeyValue>& records) const {
  size_t bytes = records::kBatchHeaderBytes;
  for (const KeyValue& record : records) {
    bytes += record.key.size() + record.value.value_or("").size() + kRecordOverheadMax;
  }
  return bytes <= options_.batch_bytes_max;
}

void Groups::Impl::Append(const Group& group, const std::vector<KeyValue>& records, Then then) {
  records::BatchBuilder builder;
  for (const KeyValue& record : records) {
    std::optional<std::string_view> value;
    if (record.value.has_value()) value = *record.value;
    builder.Add(unix_ms(), record.key, value);
  }
  const uint64_t id = ++last_append_;
  under_way_[id] = {group.partition(), std::move(then)};
  output_->appends.push_back({.id = id,
                              .partition = group.partition(),
                              .epoch = led_.at(group.partition()).epoch,
                              .batch = builder.Build().Join(),
                              .records = builder.record_count()});
}

// ---- Time ---------------------------------------------------------------------------------------

void Groups::Impl::OnWake(Instant now, GroupsOutput* output) {
  Enter(now, output);
  while (std::optional<GroupTimers::Target> target = timers_.Pop(now)) OnDeadline(*target);
  if (retention_check_ <= now) {
    retention_check_ = now + kRetentionCheckInterval;
    ExpireOffsets();
  }
}

void Groups::Impl::OnDeadline(const GroupTimers::Target& target) {
  // Deadlines are cancelled before what they are of goes.
  Group* group = led_.at(target.partition).groups.at(target.group).get();
  const GroupRef ref = RefOf(*group);
  switch (target.kind) {
    case Kind::kSession: {
      GroupMember* member = group->FindMember(target.member);
      LS_CHECK(member != nullptr);
      if (timers_.IsDue(&member->session, now_, target)) OnSessionDeadline(group, target.member);
      break;
    }
    case Kind::kPendingMember:
      if (timers_.IsDue(&group->pending_members.at(target.member), now_, target)) {
        RemovePending(group, target.member);
      }
      break;
    case Kind::kRebalance:
      if (timers_.IsDue(&group->rebalance_deadline, now_, target)) OnRebalanceDeadline(group);
      break;
    case Kind::kSync:
      if (timers_.IsDue(&group->sync_deadline, now_, target)) OnSyncDeadline(group);
      break;
  }
  EraseIfVoid(ref);
}

Instant Groups::Impl::next_deadline() const { return std::min(timers_.next(), retention_check_); }

// ---- Groups -------------------------------------------------------------------------------------

Groups::Groups(const GroupsOptions& options, RandomStream random)
    : impl_(std::make_unique<Impl>(options, random)) {}
Groups::~Groups() = default;

int32_t Groups::PartitionOf(std::string_view group, int32_t partitions) {
  LS_CHECK_GT(partitions, 0);
  const int32_t hash = JavaHash(group);
  // As Kafka's Utils.abs: the one number without an absolute value becomes 0.
  const int32_t positive = hash == INT32_MIN ? 0 : hash < 0 ? -hash : hash;
  return positive % partitions;
}

void Groups::SetWallClock(Instant now, int64_t unix_ms) { impl_->SetWallClock(now, unix_ms); }
void Groups::SetPartitions(int32_t partitions) { impl_->SetPartitions(partitions); }
void Groups::OnLoadBegin(Instant now, int32_t partition, replication::LeaderEpoch epoch) {
  impl_->OnLoadBegin(now, partition, epoch);
}
void Groups::OnLoadBatches(Instant now, int32_t partition, const Bytes& batches,
                           GroupsOutput* output) {
  impl_->OnLoadBatches(now, partition, batches, output);
}
void Groups::OnLoadEnd(Instant now, int32_t partition, GroupsOutput* output) {
  impl_->OnLoadEnd(now, partition, output);
}
void Groups::OnResigned(Instant now, int32_t partition, GroupsOutput* output) {
  impl_->OnResigned(now, partition, output);
}
void Groups::OnAppended(Instant now, uint64_t append, ErrorCode error, GroupsOutput* output) {
  impl_->OnAppended(now, append, error, output);
}
void Groups::OnRequest(Instant now, GroupRequestId id, int16_t version, const GroupRequest& request,
                       const std::string& client_id, const std::string& client_host,
                       GroupsOutput* output) {
  impl_->OnRequest(now, id, version, request, client_id, client_host, output);
}
void Groups::OnRequestGone(GroupRequestId id) { impl_->OnRequestGone(id); }
void Groups::OnWake(Instant now, GroupsOutput* output) { impl_->OnWake(now, output); }
Instant Groups::next_deadline() const { return impl_->next_deadline(); }
size_t Groups::count() const { return impl_->count(); }

}  // namespace lockstep::kafka
