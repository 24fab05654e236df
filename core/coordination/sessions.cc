#include "core/coordination/sessions.h"

#include <utility>

#include "core/base/check.h"

namespace lockstep::coordination {

SessionTracker::Entry& SessionTracker::Add(SessionId session, Duration timeout,
                                           std::string password, SessionOwner owner, Instant now) {
  auto [it, added] = sessions_.try_emplace(session);
  LS_CHECK(added);
  it->second = {.owner = owner,
                .timeout = timeout,
                .password = std::move(password),
                .deadline = RoundUp(now + timeout)};
  buckets_[it->second.deadline].insert(session);
  return it->second;
}

SessionTracker::Entry* SessionTracker::Find(SessionId session) {
  auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &it->second;
}

void SessionTracker::Touch(SessionId session, Instant now) {
  Entry* entry = Find(session);
  if (entry == nullptr || entry->closing) return;
  Instant deadline = RoundUp(now + entry->timeout);
  // Never earlier: a touch that was held up on its way says less than what is known already.
  if (deadline <= entry->deadline) return;
  Unschedule(session, entry->deadline);
  entry->deadline = deadline;
  buckets_[deadline].insert(session);
}

void SessionTracker::StartClosing(SessionId session) {
  Entry* entry = Find(session);
  LS_CHECK(entry != nullptr);
  LS_CHECK(!entry->closing);
  Unschedule(session, entry->deadline);
  entry->closing = true;
}

void SessionTracker::Remove(SessionId session) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  if (!it->second.closing) Unschedule(session, it->second.deadline);
  sessions_.erase(it);
}

void SessionTracker::Clear() {
  sessions_.clear();
  buckets_.clear();
}

std::vector<SessionId> SessionTracker::Due(Instant now) const {
  std::vector<SessionId> due;
  for (const auto& [deadline, sessions] : buckets_) {
    if (deadline > now) break;
    due.insert(due.end(), sessions.begin(), sessions.end());
  }
  return due;
}

Instant SessionTracker::next_deadline() const {
  return buckets_.empty() ? Instant::Never() : buckets_.begin()->first;
}

Instant SessionTracker::RoundUp(Instant when) const {
  return {(when.ns / tick_.ns + 1) * tick_.ns};
}

void SessionTracker::Unschedule(SessionId session, Instant deadline) {
  auto bucket = buckets_.find(deadline);
  LS_CHECK(bucket != buckets_.end());
  LS_CHECK_EQ(bucket->second.erase(session), size_t{1});
  if (bucket->second.empty()) buckets_.erase(bucket);
}

}  // namespace lockstep::coordination
