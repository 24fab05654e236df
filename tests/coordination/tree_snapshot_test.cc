#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <optional>
#include <utility>

#include "core/coordination/path.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {
namespace {

const std::vector<Acl> kOpen = {{.permissions = 31, .scheme = "world", .id = "anyone"}};

std::string Read(TreeSnapshot* snapshot, size_t size_hint = 1 << 16) {
  std::string all;
  for (Bytes piece = snapshot->Next(size_hint); !piece.empty(); piece = snapshot->Next(size_hint)) {
    all.append(piece.view());
  }
  EXPECT_TRUE(snapshot->done());
  return all;
}

// Loads from pieces of `size` bytes.
absl::StatusOr<Tree> Load(std::string_view bytes, size_t size = 1 << 20) {
  TreeLoader loader;
  while (!bytes.empty()) {
    absl::Status status = loader.Add(Bytes::Copy(bytes.substr(0, size)));
    if (!status.ok()) {
      EXPECT_FALSE(loader.Finish().ok()) << "an error must stay";
      return status;
    }
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return loader.Finish();
}

// ---- A naive model of the state: maps of plain values, one copy per snapshot. ------------------

struct ModelNode {
  std::string data;
  bool null_data = false;
  std::vector<Acl> acl;
  Stat stat;  // as stored; num_children and data_length kept by hand
  bool operator==(const ModelNode&) const = default;
};
struct ModelSession {
  int32_t timeout_ms = 0;
  std::string password;
  Zxid czxid;
  bool operator==(const ModelSession&) const = default;
};
struct Model {
  std::map<std::string, ModelNode, std::less<>> nodes;
  std::map<int64_t, ModelSession> sessions;

  std::vector<std::string> ChildNames(const std::string& path) const {
    std::vector<std::string> names;
    for (const auto& [other, node] : nodes) {
      if (other != "/" && ParentPath(other) == path) names.emplace_back(NodeName(other));
    }
    return names;
  }
  std::vector<std::string> EphemeralsOf(int64_t session) const {
    std::vector<std::string> paths;
    for (const auto& [path, node] : nodes) {
      if (node.stat.ephemeral_owner.value == session) paths.push_back(path);
    }
    return paths;
  }
  void Delete(const std::string& path, Zxid zxid) {
    nodes.erase(path);
    Stat& parent = nodes.at(std::string(ParentPath(path))).stat;
    parent.pzxid = zxid;
    --parent.num_children;
  }
  void Apply(Zxid zxid, const TransactionHeader& header, const TransactionBody& body) {
    if (auto* create = std::get_if<CreateTransaction>(&body)) {
      ModelNode node{std::string(create->data.view()), create->null_data, create->acl, {}};
      node.stat.czxid = node.stat.mzxid = node.stat.pzxid = zxid;
      node.stat.ctime_ms = node.stat.mtime_ms = header.time_ms;
      node.stat.data_length = static_cast<int32_t>(create->data.size());
      if (create->ephemeral) node.stat.ephemeral_owner = header.session;
      nodes[create->path] = node;
      Stat& parent = nodes.at(std::string(ParentPath(create->path))).stat;
      ++parent.cversion;
      ++parent.num_children;
      parent.pzxid = zxid;
    } else if (auto* remove = std::get_if<DeleteTransaction>(&body)) {
      Delete(remove->path, zxid);
    } else if (auto* set = std::get_if<SetDataTransaction>(&body)) {
      ModelNode& node = nodes.at(set->path);
      node.data = std::string(set->data.view());
      node.null_data = set->null_data;
      node.stat.data_length = static_cast<int32_t>(set->data.size());
      node.stat.version = set->version;
      node.stat.mzxid = zxid;
      node.stat.mtime_ms = header.time_ms;
    } else if (auto* open = std::get_if<CreateSessionTransaction>(&body)) {
      sessions[header.session.value] = {open->timeout_ms, open->password, zxid};
    } else if (auto* close = std::get_if<CloseSessionTransaction>(&body)) {
      for (const std::string& path : close->paths_to_delete) Delete(path, zxid);
      sessions.erase(header.session.value);
    }
  }
};

Model ModelOfNewTree() {
  Model model;
  Tree tree;
  for (const char* path : {"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}) {
    const Znode* node = tree.Find(path);
    model.nodes[path] = {"", false, node->acl(), node->stat()};
  }
  return model;
}

void ExpectEqual(const Tree& tree, const Model& model) {
  RC_ASSERT(tree.node_count() == model.nodes.size());
  size_t ephemerals = 0;
  uint64_t data_size = 0;
  for (const auto& [path, expected] : model.nodes) {
    const Znode* node = tree.Find(path);
    RC_ASSERT(node != nullptr);
    RC_ASSERT(node->path() == path);
    const ModelNode found{std::string(node->data().view()), node->null_data(), node->acl(),
                          node->stat()};
    RC_ASSERT(found == expected);
    const std::vector<std::string_view> names = node->ChildNames();
    RC_ASSERT(std::vector<std::string>(names.begin(), names.end()) == model.ChildNames(path));
    ephemerals += node->stat().ephemeral_owner ? 1 : 0;
    data_size += path.size() + expected.data.size();
  }
  RC_ASSERT(tree.ephemeral_count() == ephemerals);
  RC_ASSERT(tree.approximate_data_size() == data_size);
  RC_ASSERT(tree.sessions().size() == model.sessions.size());
  for (const auto& [id, expected] : model.sessions) {
    const Session* session = tree.FindSession(SessionId{id});
    RC_ASSERT(session != nullptr);
    const ModelSession found{session->timeout_ms, session->password, session->czxid};
    RC_ASSERT(found == expected);
    const std::vector<std::string> paths(session->ephemerals.begin(), session->ephemerals.end());
    RC_ASSERT(paths == model.EphemeralsOf(id));
  }
}

// ---- Random transactions that fit the state ----------------------------------------------------

template <typename Map>
const typename Map::value_type& Any(const Map& map) {
  auto it = map.begin();
  std::advance(it, *rc::gen::inRange<size_t>(0, map.size()));
  return *it;
}

class RandomRun {
 public:
  // One random transaction, applied to both.
  void Step() {
    ++zxid_.counter;
    TransactionHeader header{.time_ms = 1000 + zxid_.counter};
    TransactionBody body = Draw(&header);
    tree_.Apply(zxid_, header, body);
    model_.Apply(zxid_, header, body);
  }

  Tree& tree() { return tree_; }
  const Model& model() const { return model_; }

 private:
  TransactionBody Draw(TransactionHeader* header) {
    switch (*rc::gen::weightedElement<int>({{8, 0}, {4, 1}, {4, 2}, {2, 3}, {1, 4}})) {
      case 0:
        return DrawCreate(header);
      case 1:
        return DrawDelete();
      case 2:
        return DrawSetData();
      case 3:
        header->session.value = *rc::gen::inRange<int64_t>(-4, 5);
        if (!header->session || model_.sessions.contains(header->session.value)) break;
        return CreateSessionTransaction{*rc::gen::arbitrary<int32_t>(), std::string(16, 'p')};
      case 4:
        if (model_.sessions.empty()) break;
        header->session.value = Any(model_.sessions).first;
        return CloseSessionTransaction{model_.EphemeralsOf(header->session.value)};
    }
    return ErrorTransaction{ErrorCode::kNoNode};
  }
  TransactionBody DrawCreate(TransactionHeader* header) {
    const auto& [parent, node] = Any(model_.nodes);
    if (node.stat.ephemeral_owner) return ErrorTransaction{};
    const std::string name(1, *rc::gen::inRange('a', 'e'));
    const std::string path = parent == "/" ? "/" + name : parent + "/" + name;
    if (model_.nodes.contains(path)) return ErrorTransaction{};
    CreateTransaction create{.path = path, .parent_cversion = node.stat.cversion + 1};
    DrawData(&create);
    create.acl = *rc::gen::element(kOpen, std::vector<Acl>{}, std::vector<Acl>{{1, "ip", "::"}});
    if (!model_.sessions.empty() && *rc::gen::arbitrary<bool>()) {
      create.ephemeral = true;
      header->session.value = Any(model_.sessions).first;
    }
    return create;
  }
  TransactionBody DrawDelete() {
    const auto& [path, node] = Any(model_.nodes);
    if (path == "/" || node.stat.num_children > 0) return ErrorTransaction{};
    return DeleteTransaction{path};
  }
  TransactionBody DrawSetData() {
    const auto& [path, node] = Any(model_.nodes);
    SetDataTransaction set{.path = path, .version = node.stat.version + 1};
    DrawData(&set);
    return set;
  }
  template <typename T>
  static void DrawData(T* transaction) {
    transaction->null_data = *rc::gen::arbitrary<bool>();
    if (!transaction->null_data)
      transaction->data = Bytes::Copy(*rc::gen::arbitrary<std::string>());
  }

  Tree tree_;
  Model model_ = ModelOfNewTree();
  Zxid zxid_{{1}, 0};
};

TEST(TreeProperty, AgreesWithANaiveModel) {
  EXPECT_TRUE(rc::check([] {
    RandomRun run;
    const int steps = *rc::gen::inRange(0, 120);
    for (int i = 0; i < steps; ++i) run.Step();
    ExpectEqual(run.tree(), run.model());
  }));
}

TEST(TreeSnapshotProperty, IsExactWhileTheTreeChanges) {
  EXPECT_TRUE(rc::check([] {
    struct InProgress {
      std::unique_ptr<TreeSnapshot> snapshot;
      Zxid zxid;
      uint64_t digest;
      Model model;
      std::string bytes;
    };
    RandomRun run;
    std::vector<InProgress> all;
    const int steps = *rc::gen::inRange(0, 150);
    for (int i = 0; i < steps; ++i) {
      switch (*rc::gen::weightedElement<int>({{10, 0}, {1, 1}, {5, 2}, {1, 3}})) {
        case 0:
          run.Step();
          break;
        case 1:
          all.push_back({run.tree().Snapshot(), run.tree().last_zxid(), run.tree().digest(),
                         run.model(), ""});
          break;
        case 2:
          if (all.empty()) break;
          for (InProgress& one : all) one.bytes.append(one.snapshot->Next(1).view());
          break;
        case 3:
          if (all.empty()) break;
          all.erase(all.begin() + *rc::gen::inRange<int>(0, static_cast<int>(all.size())));
          break;
      }
    }
    for (InProgress& one : all) {
      RC_ASSERT(one.snapshot->zxid() == one.zxid);
      one.bytes += Read(one.snapshot.get(), 100);
      absl::StatusOr<Tree> loaded = Load(one.bytes, *rc::gen::inRange<size_t>(1, 50));
      RC_ASSERT(loaded.ok());
      RC_ASSERT(loaded->last_zxid() == one.zxid);
      RC_ASSERT(loaded->digest() == one.digest);
      ExpectEqual(*loaded, one.model);
      // A server that began with a snapshot writes the same snapshots as its peers.
      RC_ASSERT(Read(loaded->Snapshot().get()) == one.bytes);
    }
  }));
}

// ---- By hand -----------------------------------------------------------------------------------

class SnapshotTest : public ::testing::Test {
 protected:
  void Apply(const TransactionBody& body, SessionId session = {}) {
    ++zxid_.counter;
    tree_.Apply(zxid_, {.session = session, .time_ms = 5}, body);
  }
  void Create(const std::string& path, SessionId owner = {}) {
    const Znode* parent = tree_.Find(ParentPath(path));
    Apply(CreateTransaction{.path = path,
                            .data = Bytes::Copy("data of " + path),
                            .acl = kOpen,
                            .ephemeral = static_cast<bool>(owner),
                            .parent_cversion = parent->stat().cversion + 1},
          owner);
  }

  Tree tree_;
  Zxid zxid_{{3}, 0};
};

TEST_F(SnapshotTest, OutlivesItsTree) {
  Create("/a");
  const uint64_t digest = tree_.digest();
  std::unique_ptr<TreeSnapshot> snapshot = tree_.Snapshot();
  Bytes first = snapshot->Next(1);
  Create("/b");
  tree_ = Tree();

  absl::StatusOr<Tree> loaded = Load(std::string(first.view()) + Read(snapshot.get()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->digest(), digest);
  EXPECT_NE(loaded->Find("/a"), nullptr);
  EXPECT_EQ(loaded->Find("/b"), nullptr);
}

TEST_F(SnapshotTest, PiecesFollowTheHint) {
  for (int i = 0; i < 100; ++i) Create("/n" + std::to_string(i));
  std::unique_ptr<TreeSnapshot> snapshot = tree_.Snapshot();
  size_t pieces = 0;
  while (!snapshot->done()) {
    const Bytes piece = snapshot->Next(1000);
    EXPECT_LT(piece.size(), 1200u);
    if (!snapshot->done()) {
      EXPECT_GE(piece.size(), 1000u);
    }
    ++pieces;
  }
  EXPECT_GT(pieces, 5u);
  EXPECT_TRUE(snapshot->Next(1000).empty());
}

TEST_F(SnapshotTest, KeepsASessionThatWasClosedAndCreatedAgain) {
  const SessionId session{9};
  Apply(CreateSessionTransaction{.timeout_ms = 1, .password = std::string(16, 'a')}, session);
  std::unique_ptr<TreeSnapshot> snapshot = tree_.Snapshot();
  Apply(CloseSessionTransaction{}, session);
  Apply(CreateSessionTransaction{.timeout_ms = 2, .password = std::string(16, 'b')}, session);

  absl::StatusOr<Tree> loaded = Load(Read(snapshot.get()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->FindSession(session)->timeout_ms, 1);
}

TEST_F(SnapshotTest, GoesOnAfterTheNodeItStoodAtIsGone) {
  Create("/a");
  Create("/b");
  Create("/c");
  const uint64_t digest = tree_.digest();
  std::unique_ptr<TreeSnapshot> snapshot = tree_.Snapshot();
  std::string bytes;
  for (int i = 0; i < 6; ++i) bytes.append(snapshot->Next(1).view());  // up to "/a"
  for (const char* path : {"/b", "/c", "/a"}) Apply(DeleteTransaction{path});
  Create("/b");

  absl::StatusOr<Tree> loaded = Load(bytes + Read(snapshot.get()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->digest(), digest);
  EXPECT_EQ(loaded->Find("/b")->data().view(), "data of /b");
}

TEST_F(SnapshotTest, ALoadedTreeGoesOnAsTheOriginal) {
  const SessionId session{9};
  Apply(CreateSessionTransaction{.timeout_ms = 1, .password = std::string(16, 'a')}, session);
  Create("/a");
  Create("/a/e", session);
  absl::StatusOr<Tree> loaded = Load(Read(tree_.Snapshot().get()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();

  const CloseSessionTransaction close{{"/a/e"}};
  tree_.Apply({{4}, 1}, {.session = session}, close);
  loaded->Apply({{4}, 1}, {.session = session}, close);
  EXPECT_EQ(loaded->digest(), tree_.digest());
  EXPECT_EQ(Tree::StatOf(*loaded->Find("/a")), Tree::StatOf(*tree_.Find("/a")));
}

// ---- Bad bytes ---------------------------------------------------------------------------------

TEST_F(SnapshotTest, NoCutOfASnapshotLoads) {
  Create("/a");
  Apply(CreateSessionTransaction{.timeout_ms = 1, .password = std::string(16, 'a')}, SessionId{9});
  Create("/a/b", SessionId{9});
  const std::string bytes = Read(tree_.Snapshot().get());
  ASSERT_TRUE(Load(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Load(std::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Load(bytes + "x").ok());
  EXPECT_FALSE(Load(bytes + bytes).ok());
}

TEST_F(SnapshotTest, NoFlippedBitOfASnapshotLoadsAsAnotherState) {
  Create("/a");
  Apply(CreateSessionTransaction{.timeout_ms = 1, .password = std::string(16, 'a')}, SessionId{9});
  Create("/a/b", SessionId{9});
  const std::string bytes = Read(tree_.Snapshot().get());
  size_t loaded = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    absl::StatusOr<Tree> tree = Load(bad);
    if (!tree.ok()) continue;
    // The zxid of the header is not part of the state's digest.
    EXPECT_EQ(tree->digest(), tree_.digest());
    EXPECT_NE(tree->last_zxid(), tree_.last_zxid());
    ++loaded;
  }
  EXPECT_LE(loaded, 64u);
}

// Records as the format has them, for snapshots that no tree would write.
class BadSnapshot {
 public:
  BadSnapshot& Header(uint64_t sessions, uint64_t nodes, uint8_t version = 1) {
    std::string body = Int(1, 1) + Text("LSTREE") + Int(version, 1) + Int(10, 8) +
                       Int(sessions, 8) + Int(nodes, 8);
    return Record(body);
  }
  BadSnapshot& Session(int64_t id) {
    return Record(Int(2, 1) + Int(static_cast<uint64_t>(id), 8) + Int(1, 4) + Text("p") +
                  Int(1, 8));
  }
  BadSnapshot& Node(const std::string& path, int64_t owner = 0, uint64_t zxid = 5) {
    return Record(Int(3, 1) + Int(1, 1) + Text(path) + Text("data") + Int(zxid, 8) + Int(zxid, 8) +
                  Int(zxid, 8) + std::string(28, 0) + Int(static_cast<uint64_t>(owner), 8));
  }
  BadSnapshot& Record(const std::string& body) {
    bytes_ += Int(body.size(), 4) + body;
    return *this;
  }
  std::string Error() const {
    TreeLoader loader;
    return std::string(loader.Add(Bytes::Copy(bytes_)).message());
  }

 private:
  static std::string Int(uint64_t value, size_t size) {
    std::string text;
    for (size_t i = size; i > 0; --i) text.push_back(static_cast<char>(value >> (8 * (i - 1))));
    return text;
  }
  static std::string Text(const std::string& text) { return Int(text.size(), 4) + text; }

  std::string bytes_;
};

TEST(TreeLoader, RefusesWhatNoTreeWrites) {
  EXPECT_EQ(BadSnapshot().Header(1, 2).Session(7).Node("/").Node("/a", 7).Error(), "");

  EXPECT_EQ(BadSnapshot().Node("/").Error(), "snapshot: record out of place");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Header(0, 1).Error(), "snapshot: record out of place");
  EXPECT_EQ(BadSnapshot().Header(0, 1, 2).Error(), "snapshot: unknown format version");
  EXPECT_EQ(BadSnapshot().Header(1, 1).Node("/").Session(7).Error(),
            "snapshot: record out of place");
  EXPECT_EQ(BadSnapshot().Header(2, 1).Session(7).Session(7).Error(),
            "snapshot: sessions out of order");
  EXPECT_EQ(BadSnapshot().Header(1, 1).Session(0).Error(), "snapshot: sessions out of order");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Node("/a").Error(), "snapshot: a node without a parent");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Node("/").Node("/").Error(), "snapshot: a node comes twice");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Node("").Error(), "path must start with /");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Node("/").Node("/a/../b").Error(), "relative path");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Node("/").Node("/a", 7).Error(),
            "snapshot: an ephemeral node without a session");
  EXPECT_EQ(BadSnapshot().Header(1, 1).Session(7).Node("/", 7).Error(),
            "snapshot: an ephemeral root");
  EXPECT_EQ(BadSnapshot().Header(1, 1).Session(7).Node("/").Node("/a", 7).Node("/a/b").Error(),
            "snapshot: an ephemeral node's child");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Node("/", 0, 11).Error(),
            "snapshot: impossible zxids of a node");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Record("\x03").Error(), "snapshot: malformed node");
  EXPECT_EQ(BadSnapshot().Header(0, 1).Record("\x05").Error(), "snapshot: unknown record");
  EXPECT_EQ(
      BadSnapshot().Header(0, 1).Node("/").Record(std::string("\x04") + std::string(8, 0)).Error(),
      "snapshot: the digest does not fit");
  EXPECT_EQ(
      BadSnapshot().Header(0, 2).Node("/").Record(std::string("\x04") + std::string(8, 0)).Error(),
      "snapshot: records are missing");
  EXPECT_EQ(BadSnapshot().Header(0, 0).Record(std::string("\x04") + std::string(8, 0)).Error(),
            "snapshot: no root");
}

TEST(TreeLoader, RefusesALengthWithoutWaitingForIt) {
  TreeLoader loader;
  EXPECT_FALSE(loader.Add(Bytes::Copy(std::string("\x7f\xff\xff\xff", 4))).ok());
}

}  // namespace
}  // namespace lockstep::coordination
