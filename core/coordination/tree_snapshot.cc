#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/coordination/jute.h"
#include "core/coordination/jute_records.h"
#include "core/coordination/tree_impl.h"

namespace lockstep::coordination {

using snapshot_format::Kind;

namespace {

// Appends a record behind its length.
template <typename Put>
void AppendRecord(std::string* piece, Put put) {
  JuteSize size;
  put(size);
  LS_CHECK_LE(size.size(), size_t{snapshot_format::kRecordBytesMax});
  const size_t start = piece->size();
  piece->resize(start + 4 + size.size());
  JuteWriter writer(piece->data() + start);
  writer(static_cast<uint32_t>(size.size()));
  put(writer);
  LS_CHECK(writer.end() == piece->data() + piece->size());
}

void AppendNode(std::string* piece, const Znode& node) {
  const bool open = node.acl() == OpenAcl();
  AppendRecord(piece, [&](auto& codec) {
    codec(Kind::kNode, open ? snapshot_format::kHasOpenAcl : uint8_t{0}, node.path());
    if (!open) codec(node.acl());
    codec.Buffer(node.data(), node.null_data());
    snapshot_format::StoredStat(codec, node.stat());
  });
}

void AppendSession(std::string* piece, SessionId id, const Session& session) {
  AppendRecord(piece, [&](auto& codec) {
    codec(Kind::kSession, id, session.timeout_ms, session.password, session.czxid);
  });
}

}  // namespace

TreeSnapshot::Impl::Impl(std::shared_ptr<Tree::Impl> tree)
    : zxid(tree->last_zxid),
      tree_(std::move(tree)),
      digest_(tree_->digest),
      session_count_(tree_->sessions.size()),
      node_count_(tree_->node_count()),
      order_end_(tree_->next_order()),
      cursor_(tree_->first()) {
  tree_->snapshots.push_back(this);
}

TreeSnapshot::Impl::~Impl() {
  tree_->snapshots.erase(std::find(tree_->snapshots.begin(), tree_->snapshots.end(), this));
  for (auto& [order, node] : kept_nodes_) tree_->ReleaseAcl(node->acl_);
}

// ---- Keeping what changes ----------------------------------------------------------------------

void TreeSnapshot::Impl::BeforeChange(const Znode& node) {
  if (node.order_ < position_ || node.order_ >= order_end_) return;
  auto [it, first_change] = kept_nodes_.try_emplace(node.order_);
  if (first_change) it->second = Tree::Impl::Clone(node);
}

void TreeSnapshot::Impl::BeforeRemove(const Znode& node) {
  BeforeChange(node);
  if (cursor_ == &node) cursor_ = Tree::Impl::NextOf(node);
}

void TreeSnapshot::Impl::BeforeRemove(SessionId id, const Session& session) {
  if (session.czxid > zxid || (last_session_.has_value() && id <= *last_session_)) return;
  kept_sessions_.emplace(id, session);
}

// ---- Giving it out -----------------------------------------------------------------------------

Bytes TreeSnapshot::Impl::Next(size_t size_hint) {
  while (stage_ != Stage::kDone && (piece_.empty() || piece_.size() < size_hint)) Step();
  Bytes piece = Bytes::Copy(piece_);
  piece_.clear();
  return piece;
}

void TreeSnapshot::Impl::Step() {
  switch (stage_) {
    case Stage::kHeader:
      AppendRecord(&piece_, [&](auto& codec) {
        codec(Kind::kHeader, snapshot_format::kMagic, snapshot_format::kVersion, zxid,
              session_count_, node_count_);
      });
      stage_ = Stage::kSessions;
      return;
    case Stage::kSessions:
      return StepSessions();
    case Stage::kNodes:
      return StepNodes();
    case Stage::kEnd:
      AppendRecord(&piece_, [&](auto& codec) { codec(Kind::kEnd, digest_); });
      stage_ = Stage::kDone;
      return;
    case Stage::kDone:
      LS_UNREACHABLE();
  }
}

void TreeSnapshot::Impl::StepSessions() {
  auto live = last_session_.has_value() ? tree_->sessions.upper_bound(*last_session_)
                                        : tree_->sessions.begin();
  auto kept = kept_sessions_.begin();
  // A session that was closed may have been created again since; the one that was kept is ours.
  if (kept != kept_sessions_.end() &&
      (live == tree_->sessions.end() || kept->first <= live->first)) {
    AppendSession(&piece_, kept->first, kept->second);
    last_session_ = kept->first;
    kept_sessions_.erase(kept);
    return;
  }
  if (live == tree_->sessions.end()) {
    stage_ = Stage::kNodes;
    return;
  }
  last_session_ = live->first;
  if (live->second.czxid <= zxid) AppendSession(&piece_, live->first, live->second);
}

void TreeSnapshot::Impl::StepNodes() {
  const bool live = cursor_ != nullptr && cursor_->order_ < order_end_;
  auto kept = kept_nodes_.begin();
  if (kept != kept_nodes_.end() && (!live || kept->first <= cursor_->order_)) {
    AppendNode(&piece_, *kept->second);
    position_ = kept->first + 1;
    if (live && cursor_->order_ == kept->first) cursor_ = cursor_->next_;
    tree_->ReleaseAcl(kept->second->acl_);
    kept_nodes_.erase(kept);
  } else if (live) {
    AppendNode(&piece_, *cursor_);
    position_ = cursor_->order_ + 1;
    cursor_ = cursor_->next_;
  } else {
    position_ = order_end_;
    stage_ = Stage::kEnd;
  }
}

// ---- The public face ---------------------------------------------------------------------------

std::unique_ptr<TreeSnapshot> Tree::Snapshot() {
  std::unique_ptr<TreeSnapshot> snapshot(new TreeSnapshot());
  snapshot->impl_ = std::make_unique<TreeSnapshot::Impl>(impl_);
  return snapshot;
}

TreeSnapshot::TreeSnapshot() = default;
TreeSnapshot::~TreeSnapshot() = default;
Zxid TreeSnapshot::zxid() const { return impl_->zxid; }
Bytes TreeSnapshot::Next(size_t size_hint) { return impl_->Next(size_hint); }
bool TreeSnapshot::done() const { return impl_->done(); }

}  // namespace lockstep::coordination
