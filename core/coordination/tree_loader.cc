#include <optional>
#include <utility>

#include "core/base/frame_cutter.h"
#include "core/coordination/jute.h"
#include "core/coordination/jute_records.h"
#include "core/coordination/path.h"
#include "core/coordination/tree_impl.h"

namespace lockstep::coordination {

using snapshot_format::Kind;

// Everything that Apply takes for granted is validated here, so that no bytes can build a tree that
// a later transaction does not fit. Memory is taken for what has arrived, not for what a count or a
// length promises.
class TreeLoader::Impl {
 public:
  absl::Status Add(const Bytes& piece);
  absl::StatusOr<Tree> Finish();

 private:
  absl::Status OnRecord(const Bytes& record);
  absl::Status OnHeader(JuteReader* reader);
  absl::Status OnSession(JuteReader* reader);
  absl::Status OnNode(JuteReader* reader);
  absl::Status OnEnd(JuteReader* reader);
  // Where the new node belongs; null for the root.
  absl::StatusOr<Znode*> ParentOf(const Znode& node) const;
  absl::Status ValidateStat(const Znode& node) const;

  absl::Status status_;  // the first error stays
  FrameCutter cutter_{snapshot_format::kRecordBytesMax};
  std::shared_ptr<Tree::Impl> tree_ = std::make_shared<Tree::Impl>();
  Kind last_kind_{};  // of the record before; 0 before the first
  std::optional<SessionId> last_session_;
  uint64_t session_count_ = 0;
  uint64_t node_count_ = 0;
};

namespace {

absl::Status Malformed(const char* what) { return absl::DataLossError(what); }

}  // namespace

absl::Status TreeLoader::Impl::Add(const Bytes& piece) {
  cutter_.Add(piece);
  while (status_.ok()) {
    absl::StatusOr<std::optional<Bytes>> record = cutter_.Next();
    if (!record.ok()) {
      status_ = Malformed("snapshot: bad record length");
    } else if (!record->has_value()) {
      break;
    } else {
      status_ = OnRecord(**record);
    }
  }
  return status_;
}

absl::Status TreeLoader::Impl::OnRecord(const Bytes& record) {
  JuteReader reader(record);
  Kind kind{};
  reader(kind);
  // The kinds come in ascending order: one header, sessions, nodes, one end.
  if (kind < last_kind_ || (last_kind_ == Kind{} && kind != Kind::kHeader) ||
      (kind == last_kind_ && (kind == Kind::kHeader || kind == Kind::kEnd))) {
    return Malformed("snapshot: record out of place");
  }
  last_kind_ = kind;
  absl::Status status = Malformed("snapshot: unknown record");
  switch (kind) {
    case Kind::kHeader:
      status = OnHeader(&reader);
      break;
    case Kind::kSession:
      status = OnSession(&reader);
      break;
    case Kind::kNode:
      status = OnNode(&reader);
      break;
    case Kind::kEnd:
      status = OnEnd(&reader);
      break;
  }
  if (status.ok() && reader.remaining() > 0) return Malformed("snapshot: record too long");
  return status;
}

absl::Status TreeLoader::Impl::OnHeader(JuteReader* reader) {
  std::string_view magic;
  uint8_t version = 0;
  (*reader)(magic, version, tree_->last_zxid, session_count_, node_count_);
  if (!reader->ok() || magic != snapshot_format::kMagic) return Malformed("snapshot: bad header");
  if (version != snapshot_format::kVersion) return Malformed("snapshot: unknown format version");
  return absl::OkStatus();
}

absl::Status TreeLoader::Impl::OnSession(JuteReader* reader) {
  SessionId id;
  Session session;
  (*reader)(id, session.timeout_ms, session.password, session.czxid);
  if (!reader->ok()) return Malformed("snapshot: malformed session");
  if (!id || (last_session_.has_value() && id <= *last_session_)) {
    return Malformed("snapshot: sessions out of order");
  }
  if (session.czxid > tree_->last_zxid) return Malformed("snapshot: session from the future");
  last_session_ = id;
  tree_->InsertSession(id, std::move(session));
  return absl::OkStatus();
}

absl::Status TreeLoader::Impl::OnNode(JuteReader* reader) {
  uint8_t flags = 0;
  std::string_view path;
  AclList acl;
  (*reader)(flags, path);
  if ((flags & ~snapshot_format::kHasOpenAcl) != 0) return Malformed("snapshot: unknown flag");
  if ((flags & snapshot_format::kHasOpenAcl) == 0) (*reader)(acl);
  Tree::Impl::ZnodePtr node = Tree::Impl::NewZnode(path);
  node->data_ = Bytes::Copy(reader->Buffer(&node->null_data_).view());
  snapshot_format::StoredStat(*reader, node->stat_);
  node->stat_.data_length = static_cast<int32_t>(node->data_.size());
  if (!reader->ok()) return Malformed("snapshot: malformed node");

  if (absl::Status status = ValidatePath(path); !status.ok()) return status;
  if (tree_->Find(path) != nullptr) return Malformed("snapshot: a node comes twice");
  absl::StatusOr<Znode*> parent = ParentOf(*node);
  if (!parent.ok()) return parent.status();
  if (absl::Status status = ValidateStat(*node); !status.ok()) return status;
  node->acl_ = tree_->AcquireAcl((flags & snapshot_format::kHasOpenAcl) != 0 ? OpenAcl() : acl);
  tree_->Insert(std::move(node), *parent);
  return absl::OkStatus();
}

absl::StatusOr<Znode*> TreeLoader::Impl::ParentOf(const Znode& node) const {
  // The root is the first node: without it no other one has a parent.
  if (node.path() == "/") return nullptr;
  Znode* parent = tree_->Find(ParentPath(node.path()));
  if (parent == nullptr) return Malformed("snapshot: a node without a parent");
  if (parent->stat().ephemeral_owner) return Malformed("snapshot: an ephemeral node's child");
  return parent;
}

absl::Status TreeLoader::Impl::ValidateStat(const Znode& node) const {
  const Stat& stat = node.stat();
  if (stat.mzxid > tree_->last_zxid || stat.pzxid > tree_->last_zxid || stat.czxid > stat.mzxid ||
      stat.czxid > stat.pzxid) {
    return Malformed("snapshot: impossible zxids of a node");
  }
  if (stat.ephemeral_owner) {
    if (node.path() == "/") return Malformed("snapshot: an ephemeral root");
    if (!tree_->sessions.contains(stat.ephemeral_owner)) {
      return Malformed("snapshot: an ephemeral node without a session");
    }
  }
  return absl::OkStatus();
}

absl::Status TreeLoader::Impl::OnEnd(JuteReader* reader) {
  uint64_t digest = 0;
  (*reader)(digest);
  if (!reader->ok()) return Malformed("snapshot: malformed end");
  if (tree_->sessions.size() != session_count_ || tree_->node_count() != node_count_) {
    return Malformed("snapshot: records are missing");
  }
  if (tree_->first() == nullptr) return Malformed("snapshot: no root");
  if (digest != tree_->digest) return Malformed("snapshot: the digest does not fit");
  return absl::OkStatus();
}

absl::StatusOr<Tree> TreeLoader::Impl::Finish() {
  if (!status_.ok()) return status_;
  if (last_kind_ != Kind::kEnd || cutter_.buffered() > 0) {
    return Malformed("snapshot: incomplete");
  }
  return Tree(std::move(tree_));
}

// ---- The public face ---------------------------------------------------------------------------

TreeLoader::TreeLoader() : impl_(std::make_unique<Impl>()) {}
TreeLoader::~TreeLoader() = default;
TreeLoader::TreeLoader(TreeLoader&&) noexcept = default;
TreeLoader& TreeLoader::operator=(TreeLoader&&) noexcept = default;
absl::Status TreeLoader::Add(const Bytes& piece) { return impl_->Add(piece); }
absl::StatusOr<Tree> TreeLoader::Finish() { return impl_->Finish(); }

}  // namespace lockstep::coordination
