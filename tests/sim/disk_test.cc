#include "sim/disk.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep::sim {
namespace {

using storage::Directory;
using storage::FileDone;
using storage::FileError;
using storage::FileOp;
using storage::OpKind;

class DiskTest : public testing::Test {
 protected:
  void Make(uint64_t seed, bool none = true, bool all = true, bool some = true) {
    DiskPlan plan;
    plan.op = Microseconds(10);
    plan.sync = Microseconds(100);
    plan.keeps_none = none;
    plan.keeps_all = all;
    plan.keeps_some = some;
    queue_ = EventQueue();
    disk_.emplace(plan, seed, 0, &queue_);
  }
  static FileOp Op(OpKind kind, std::string file, uint64_t offset = 0, std::string data = "") {
    FileOp op;
    op.kind = kind;
    op.file = std::move(file);
    op.offset = offset;
    op.size = offset;  // of a truncation
    if (!data.empty()) op.data.push_back(Bytes::Copy(data));
    return op;
  }
  void Submit(FileOp op) { disk_->Submit(now_, std::move(op)); }
  // Carries out everything that was submitted; the last completion.
  FileDone Finish() {
    FileDone done;
    while (!queue_.empty()) {
      const Due due = queue_.Pop();
      now_ = due.at;
      EXPECT_TRUE(disk_->Complete(due.task.which, &done));
    }
    return done;
  }
  FileDone Do(FileOp op) {
    Submit(std::move(op));
    return Finish();
  }
  std::string Content(const std::string& file) {
    FileOp op = Op(OpKind::kRead, file);
    op.size = 1 << 20;
    const FileDone done = Do(op);
    return done.error == FileError::kNone ? std::string(done.data.view())
                                          : std::string(ToString(done.error));
  }
  void CreateDurably(const std::string& file) {
    Do(Op(OpKind::kCreate, file));
    Do(Op(OpKind::kSyncDirectory, ""));
  }

  EventQueue queue_;
  std::optional<Disk> disk_;
  Instant now_;
};

TEST_F(DiskTest, ReadsWhatWasWritten) {
  Make(1);
  Do(Op(OpKind::kCreate, "f"));
  Do(Op(OpKind::kWrite, "f", 3, "abc"));
  EXPECT_EQ(Content("f"), std::string("\0\0\0abc", 6));
  EXPECT_EQ(Do(Op(OpKind::kCreate, "f")).error, FileError::kExists);
  disk_->KillProcess();
  EXPECT_EQ(Do(Op(OpKind::kWrite, "g", 0, "x")).error, FileError::kNotFound);
}

TEST_F(DiskTest, ASyncMakesContentDurableAndADirectorySyncTheName) {
  Make(1);
  CreateDurably("f");
  Do(Op(OpKind::kWrite, "f", 0, "abc"));
  Do(Op(OpKind::kSync, "f"));
  disk_->PowerLoss();
  EXPECT_EQ(Content("f"), "abc");
}

TEST_F(DiskTest, WithoutASyncContentMayBeLostOrKeptInPart) {
  std::set<size_t> prefix_lengths;
  bool torn = false;
  const std::string data(3 * kSectorBytes, 'x');
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Make(seed);
    CreateDurably("f");
    Do(Op(OpKind::kWrite, "f", 0, data));
    EXPECT_GT(disk_->PowerLoss(), 0u);
    const std::string content = Content("f");
    ASSERT_LE(content.size(), data.size());
    prefix_lengths.insert(content.size());
    // A later sector is there, and one before it is not.
    if (content.size() == data.size() && content[0] == '\0' && content.back() == 'x') torn = true;
  }
  EXPECT_TRUE(prefix_lengths.contains(0));
  EXPECT_TRUE(prefix_lengths.contains(data.size()));
  EXPECT_TRUE(torn);
}

TEST_F(DiskTest, ASectorHoldsOneOfItsVersions) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Make(seed, false, false, true);
    CreateDurably("f");
    Do(Op(OpKind::kWrite, "f", 0, "1"));
    Do(Op(OpKind::kSync, "f"));
    Do(Op(OpKind::kWrite, "f", 0, "2"));
    Do(Op(OpKind::kWrite, "f", 0, "3"));
    disk_->PowerLoss();
    seen.insert(Content("f"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"1", "2", "3"}));
}

TEST_F(DiskTest, TheDeathOfAProcessLosesNothingThatWasCarriedOut) {
  Make(1);
  Do(Op(OpKind::kCreate, "f"));
  Do(Op(OpKind::kWrite, "f", 0, "abc"));
  disk_->KillProcess();
  EXPECT_EQ(Content("f"), "abc");
}

TEST_F(DiskTest, WhatAKilledProcessLeftUnsyncedMayStillBeLost) {
  Make(1, true, false, false);
  CreateDurably("f");
  Do(Op(OpKind::kWrite, "f", 0, "abc"));
  disk_->KillProcess();
  EXPECT_EQ(Content("f"), "abc");
  disk_->PowerLoss();
  EXPECT_EQ(Content("f"), "");
}

TEST_F(DiskTest, AnUnsyncedRenameIsThereOrNotButNeverHalf) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Make(seed);
    CreateDurably("a");
    Do(Op(OpKind::kWrite, "a", 0, "x"));
    Do(Op(OpKind::kSync, "a"));
    FileOp rename = Op(OpKind::kRename, "a");
    rename.target = "b";
    Do(rename);
    disk_->PowerLoss();
    seen.insert(Content("a") + "/" + Content("b"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"x/no such file", "no such file/x"}));
}

TEST_F(DiskTest, OperationsOnOneFileKeepTheirOrder) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Make(seed);
    Submit(Op(OpKind::kCreate, "f"));
    for (int i = 0; i < 10; ++i) Submit(Op(OpKind::kWrite, "f", 0, std::string(1, 'a' + i)));
    Finish();
    ASSERT_EQ(Content("f"), "j");
  }
}

TEST_F(DiskTest, AFailedSyncMakesNothingDurable) {
  Make(1);
  CreateDurably("f");
  Do(Op(OpKind::kWrite, "f", 0, "abc"));
  disk_->FailNext();
  EXPECT_EQ(Do(Op(OpKind::kSync, "f")).error, FileError::kIo);
  EXPECT_TRUE(disk_->reported_error());
  disk_->KillProcess();
  // Not even another sync, which succeeds, brings it back: as with Linux.
  EXPECT_EQ(Do(Op(OpKind::kSync, "f")).error, FileError::kNone);
  disk_->PowerLoss();
  EXPECT_NE(Content("f"), "abc");
}

TEST_F(DiskTest, NothingIsChangedAfterAFailure) {
  Make(1);
  CreateDurably("f");
  CreateDurably("new");
  Do(Op(OpKind::kWrite, "f", 0, "old"));
  disk_->FailNext();
  FileOp rename = Op(OpKind::kRename, "new");
  rename.target = "f";
  Submit(Op(OpKind::kWrite, "new", 0, "half"));
  Submit(Op(OpKind::kSync, "new"));
  Submit(rename);
  EXPECT_EQ(Finish().error, FileError::kIo);
  EXPECT_EQ(Content("f"), "old");
  disk_->KillProcess();
  EXPECT_EQ(Do(rename).error, FileError::kNone);
}

TEST_F(DiskTest, AFullDiskTakesNoMore) {
  Make(1);
  CreateDurably("f");
  disk_->set_full(true);
  EXPECT_EQ(Do(Op(OpKind::kWrite, "f", 0, "abc")).error, FileError::kNoSpace);
  disk_->KillProcess();
  EXPECT_EQ(Do(Op(OpKind::kCreate, "g")).error, FileError::kNoSpace);
  disk_->KillProcess();
  disk_->ClearFaults();
  EXPECT_EQ(Do(Op(OpKind::kWrite, "f", 0, "abc")).error, FileError::kNone);
}

// ---- Subdirectories of partition logs ----------------------------------------------------------

FileOp Logs(OpKind kind, std::string file, std::string target = "") {
  FileOp op;
  op.kind = kind;
  op.directory = Directory::kLogs;
  op.file = std::move(file);
  op.target = std::move(target);
  op.size = kind == OpKind::kRead ? 100 : 0;
  if (kind == OpKind::kWrite) op.data.push_back(Bytes::Copy("text"));
  return op;
}

TEST_F(DiskTest, FilesOfASubdirectoryMoveWithItsName) {
  Make(1);
  EXPECT_EQ(Do(Logs(OpKind::kCreate, "t-0/f")).error, FileError::kNotFound);
  disk_->KillProcess();
  Do(Logs(OpKind::kMakeDirectory, "t-0"));
  EXPECT_EQ(Do(Logs(OpKind::kMakeDirectory, "t-0")).error, FileError::kExists);
  disk_->KillProcess();
  Do(Logs(OpKind::kCreate, "t-0/f"));
  Do(Logs(OpKind::kWrite, "t-0/f"));
  EXPECT_EQ(Do(Logs(OpKind::kList, "")).names, std::vector<std::string>{"t-0/"});
  EXPECT_EQ(Do(Logs(OpKind::kList, "t-0")).names, std::vector<std::string>{"f"});
  EXPECT_EQ(Do(Logs(OpKind::kList, "t-0")).sizes, std::vector<uint64_t>{4});

  Do(Logs(OpKind::kRename, "t-0", "t-0.x-delete"));

  EXPECT_EQ(Do(Logs(OpKind::kRead, "t-0/f")).error, FileError::kNotFound);
  EXPECT_EQ(Do(Logs(OpKind::kRead, "t-0.x-delete/f")).data, Bytes::Copy("text"));
  EXPECT_EQ(Do(Logs(OpKind::kRemoveDirectory, "t-0.x-delete")).error, FileError::kIo);
  disk_->KillProcess();
  Do(Logs(OpKind::kRemove, "t-0.x-delete/f"));
  EXPECT_EQ(Do(Logs(OpKind::kRemoveDirectory, "t-0.x-delete")).error, FileError::kNone);
  EXPECT_TRUE(Do(Logs(OpKind::kList, "")).names.empty());
}

TEST_F(DiskTest, ASubdirectoryAndItsEntriesAreDurableApart) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Make(seed);
    Do(Logs(OpKind::kMakeDirectory, "a"));
    Do(Logs(OpKind::kMakeDirectory, "b"));
    Do(Logs(OpKind::kSyncDirectory, ""));
    Do(Logs(OpKind::kCreate, "a/f"));
    Do(Logs(OpKind::kSyncDirectory, "a"));
    Do(Logs(OpKind::kCreate, "b/f"));
    Do(Logs(OpKind::kMakeDirectory, "c"));
    disk_->PowerLoss();
    std::string names;
    for (const std::string& name : Do(Logs(OpKind::kList, "")).names) {
      names += name;
      for (const std::string& file : Do(Logs(OpKind::kList, name.substr(0, 1))).names) {
        names += file;
      }
    }
    found.insert(names);
  }
  EXPECT_EQ(found, (std::set<std::string>{"a/fb/", "a/fb/f", "a/fb/c/", "a/fb/fc/"}));
}

TEST_F(DiskTest, WhatFollowsInANewSubdirectoryWaitsForIt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Make(seed);
    Submit(Logs(OpKind::kMakeDirectory, "t-0"));
    Submit(Logs(OpKind::kCreate, "t-0/f"));
    Submit(Logs(OpKind::kWrite, "t-0/f"));
    EXPECT_EQ(Finish().error, FileError::kNone);
    EXPECT_EQ(Do(Logs(OpKind::kRead, "t-0/f")).data, Bytes::Copy("text"));
  }
}

// ---- Damage ------------------------------------------------------------------------------------

class DamageTest : public DiskTest {
 protected:
  void SetUp() override {
    Make(1);
    CreateDurably("f");
    Do(Op(OpKind::kWrite, "f", 0, std::string(kSectorBytes, 'a') + std::string(kSectorBytes, 'b')));
    Do(Op(OpKind::kSync, "f"));
  }
};

TEST_F(DamageTest, ARottenSectorDiffersUntilItIsWritten) {
  EXPECT_FALSE(disk_->damaged());
  EXPECT_TRUE(disk_->Rot(1));
  EXPECT_TRUE(disk_->damaged());
  const std::string content = Content("f");
  EXPECT_EQ(content.substr(0, kSectorBytes), std::string(kSectorBytes, 'a'));
  EXPECT_NE(content.substr(kSectorBytes), std::string(kSectorBytes, 'b'));
  Do(Op(OpKind::kWrite, "f", kSectorBytes, std::string(kSectorBytes, 'c')));
  EXPECT_EQ(Content("f").substr(kSectorBytes), std::string(kSectorBytes, 'c'));
  EXPECT_FALSE(disk_->damaged());
}

TEST_F(DamageTest, WhatIsNotWrittenOverStaysRotten) {
  disk_->Rot(0);
  const std::string rotten = Content("f").substr(0, kSectorBytes);
  size_t at = 0;
  while (rotten[at] == 'a') ++at;
  const size_t elsewhere = at < 256 ? 300 : 10;
  Do(Op(OpKind::kWrite, "f", elsewhere, "x"));
  EXPECT_EQ(Content("f")[at], rotten[at]);
  EXPECT_EQ(Content("f")[elsewhere], 'x');
}

TEST_F(DamageTest, ABrokenSectorCannotBeReadUntilItIsWritten) {
  EXPECT_TRUE(disk_->BreakSector(0));
  FileOp read = Op(OpKind::kRead, "f");
  read.size = kSectorBytes;
  EXPECT_EQ(Do(read).error, FileError::kIo);
  read.offset = kSectorBytes;
  EXPECT_EQ(Do(read).data, Bytes::Copy(std::string(kSectorBytes, 'b')));
  Do(Op(OpKind::kWrite, "f", 5, "x"));
  EXPECT_EQ(Content("f").substr(0, 7), "aaaaaxa");
}

TEST_F(DamageTest, AMisdirectedWriteIsElsewhere) {
  disk_->MisdirectNext(0);
  Do(Op(OpKind::kWrite, "f", kSectorBytes, "new"));
  EXPECT_EQ(Content("f").substr(0, 4), "newa");
  EXPECT_EQ(Content("f").substr(kSectorBytes, 4), "bbbb");
  // The next one is not.
  Do(Op(OpKind::kWrite, "f", kSectorBytes, "new"));
  EXPECT_EQ(Content("f").substr(kSectorBytes, 4), "newb");
  EXPECT_EQ(Content("f").substr(0, 4), "newa");
}

TEST_F(DamageTest, AMisdirectedWriteIsLostWhereItWouldHaveMadeTheFileLonger) {
  disk_->MisdirectNext(0);
  Do(Op(OpKind::kWrite, "f", 2 * kSectorBytes, "new"));
  EXPECT_EQ(Content("f").substr(2 * kSectorBytes), std::string(3, '\0'));
}

TEST_F(DamageTest, ALyingSyncIsFoundOutByAPowerLoss) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Make(seed);
    CreateDurably("f");
    disk_->set_lying(true);
    Do(Op(OpKind::kWrite, "f", 0, "abc"));
    EXPECT_EQ(Do(Op(OpKind::kSync, "f")).error, FileError::kNone);
    disk_->KillProcess();
    EXPECT_EQ(Content("f"), "abc");
    disk_->PowerLoss();
    found.insert(Content("f"));
  }
  EXPECT_TRUE(found.contains(""));
  EXPECT_TRUE(found.contains("abc"));
}

TEST_F(DamageTest, AnHonestSyncMakesUpForALie) {
  disk_->set_lying(true);
  Do(Op(OpKind::kWrite, "f", 0, "abc"));
  Do(Op(OpKind::kSync, "f"));
  disk_->set_lying(false);
  EXPECT_TRUE(disk_->damaged());
  Do(Op(OpKind::kSync, "f"));
  EXPECT_FALSE(disk_->damaged());
  disk_->PowerLoss();
  EXPECT_EQ(Content("f").substr(0, 3), "abc");
}

TEST_F(DamageTest, WhatTheServerMayNotForgetIsThereAfterAll) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Make(seed);
    CreateDurably("f");
    Do(Op(OpKind::kWrite, "f", 0, std::string(kSectorBytes, 'a')));
    Do(Op(OpKind::kSync, "f"));
    disk_->Rot(0);
    disk_->set_lying(true);
    Do(Op(OpKind::kWrite, "f", kSectorBytes, "abc"));
    Do(Op(OpKind::kSync, "f"));
    Do(Op(OpKind::kCreate, "g"));
    Do(Op(OpKind::kSyncDirectory, ""));
    disk_->PowerLoss(/*may_forget=*/false);
    EXPECT_EQ(Content("f"), std::string(kSectorBytes, 'a') + "abc");
    EXPECT_EQ(Content("g"), "");
  }
}

// A journal and the logs of two partitions.
class LogDamageTest : public DiskTest {
 protected:
  LogDamageTest() {
    Make(1, true, false, false);
    for (const char* log : {"a-0", "b-0"}) {
      Do(In(Directory::kLogs, Op(OpKind::kMakeDirectory, log)));
      Do(In(Directory::kLogs, Op(OpKind::kSyncDirectory, "")));
      Write(Directory::kLogs, std::string(log) + "/f", 'p');
    }
    for (const char* journal : {"journal.1", "journal.2", "journal.3"}) {
      Write(Directory::kLog, journal, 'j');
    }
  }
  static FileOp In(Directory directory, FileOp op) {
    op.directory = directory;
    return op;
  }
  void Write(Directory directory, const std::string& file, char c) {
    Do(In(directory, Op(OpKind::kCreate, file)));
    Do(In(directory, Op(OpKind::kWrite, file, 0, std::string(kSectorBytes, c))));
    Do(In(directory, Op(OpKind::kSync, file)));
    Do(In(directory, Op(OpKind::kSyncDirectory, std::string(storage::SubdirectoryOf(file)))));
  }
  bool Whole(Directory directory, const std::string& file, char c) {
    FileOp op = In(directory, Op(OpKind::kRead, file));
    op.size = 1 << 20;
    return Do(op).data == Bytes::Copy(std::string(kSectorBytes, c));
  }
};

TEST_F(LogDamageTest, OnlyWhatIsBearableIsDamaged) {
  disk_->set_bearable({.journal = false, .logs = {"b-0"}});
  for (uint32_t place = 0; place < 20; ++place) EXPECT_TRUE(disk_->Rot(place));
  EXPECT_TRUE(Whole(Directory::kLogs, "a-0/f", 'p'));
  EXPECT_FALSE(Whole(Directory::kLogs, "b-0/f", 'p'));
  EXPECT_TRUE(Whole(Directory::kLog, "journal.1", 'j'));
  EXPECT_FALSE(disk_->journal_damaged());
  disk_->RepairLog("b-0");
  EXPECT_FALSE(disk_->damaged());
  EXPECT_TRUE(disk_->ever_damaged());
  disk_->set_bearable({.journal = false});
  EXPECT_FALSE(disk_->Rot(0));
}

TEST_F(LogDamageTest, AWriteGoesAstrayOnlyWhereThatIsBearable) {
  disk_->set_bearable({.journal = false, .logs = {"b-0"}});
  disk_->MisdirectNext(0);
  Write(Directory::kLogs, "a-0/g", 'g');
  EXPECT_TRUE(Whole(Directory::kLogs, "a-0/g", 'g'));
  EXPECT_TRUE(disk_->misdirecting());
  Write(Directory::kLogs, "b-0/g", 'g');
  EXPECT_FALSE(Whole(Directory::kLogs, "b-0/g", 'g'));
  EXPECT_FALSE(disk_->misdirecting());
}

// Of a journal's end nobody could tell that it is damaged.
TEST_F(LogDamageTest, AJournalForgetsNothingUnnoticed) {
  disk_->set_bearable({.journal = true});
  for (uint32_t place = 0; place < 3; ++place) disk_->Rot(place);
  disk_->KeepWord();
  EXPECT_FALSE(Whole(Directory::kLog, "journal.1", 'j'));
  EXPECT_TRUE(Whole(Directory::kLog, "journal.2", 'j'));
  EXPECT_TRUE(Whole(Directory::kLog, "journal.3", 'j'));
  disk_->set_bearable({.journal = false});
  disk_->KeepWord();
  EXPECT_TRUE(Whole(Directory::kLog, "journal.1", 'j'));
}

TEST_F(LogDamageTest, OnlyBearableLiesAreFoundOut) {
  disk_->set_lying(true);
  Write(Directory::kLogs, "a-0/g", 'g');
  Write(Directory::kLogs, "b-0/g", 'g');
  Write(Directory::kLog, "journal.4", 'k');
  EXPECT_EQ(disk_->LiedLogs(), (std::vector<std::string>{"a-0", "b-0"}));
  disk_->set_bearable({.journal = true, .logs = {"b-0"}});
  disk_->KeepWord();
  EXPECT_EQ(disk_->LiedLogs(), std::vector<std::string>{"b-0"});
  disk_->PowerLoss();
  EXPECT_TRUE(Whole(Directory::kLogs, "a-0/g", 'g'));
  EXPECT_TRUE(Whole(Directory::kLog, "journal.4", 'k'));
  EXPECT_FALSE(Whole(Directory::kLogs, "b-0/g", 'g'));
}

}  // namespace
}  // namespace lockstep::sim
