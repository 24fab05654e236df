#include "shell/files.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <semaphore>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shell/file_executor.h"

namespace lockstep::shell {
namespace {

using storage::Directory;
using storage::FileDone;
using storage::FileError;
using storage::FileOp;
using storage::OpKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FileExecutorTest : public testing::Test {
 protected:
  FileExecutorTest() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    executor_ = std::make_unique<FileExecutor>(path_);
  }
  ~FileExecutorTest() override { std::filesystem::remove_all(path_); }

  // As another process does: after an operation that failed.
  void StartAgain() { executor_ = std::make_unique<FileExecutor>(path_); }
  FileDone Run(FileOp op) { return executor_->Run(op); }
  FileError Write(const std::string& file, uint64_t offset, std::vector<std::string> slices) {
    FileOp op{.kind = OpKind::kWrite, .file = file, .offset = offset};
    for (const std::string& slice : slices) op.data.push_back(Bytes::Copy(slice));
    return Run(op).error;
  }
  FileError Create(const std::string& file, uint64_t size = 0) {
    return Run({.kind = OpKind::kCreate, .file = file, .size = size}).error;
  }
  std::string Read(const std::string& file, uint64_t offset = 0, uint64_t size = UINT64_MAX) {
    return std::string(
        Run({.kind = OpKind::kRead, .file = file, .offset = offset, .size = size}).data.view());
  }
  // How many of the directory's files this process has open.
  int OpenFiles() {
    const std::string directory = std::filesystem::canonical(path_).string() + "/";
    int open = 0;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(fd, gone).string().starts_with(directory)) ++open;
    }
    return open;
  }
  std::vector<std::string> List() { return Run({.kind = OpKind::kList}).names; }

  const std::string path_ = testing::TempDir() + "/file_executor_test";
  std::unique_ptr<FileExecutor> executor_;
};

TEST_F(FileExecutorTest, CompletionCarriesTheIdOfItsOperation) {
  const FileDone done = Run({.id = {7, 9}, .kind = OpKind::kList});
  EXPECT_EQ(done.id, (storage::OpId{7, 9}));
  EXPECT_EQ(done.error, FileError::kNone);
  EXPECT_EQ(done.message, "");
}

TEST_F(FileExecutorTest, WhatIsWrittenIsRead) {
  EXPECT_EQ(Create("f"), FileError::kNone);
  EXPECT_EQ(Write("f", 0, {"one", "", "two"}), FileError::kNone);
  EXPECT_EQ(Write("f", 8, {"!"}), FileError::kNone);

  EXPECT_EQ(Read("f"), std::string("onetwo\0\0!", 9));
  EXPECT_EQ(Read("f", 1, 4), "netw");
  EXPECT_EQ(Read("f", 6, 100), std::string("\0\0!", 3));
  EXPECT_EQ(Read("f", 9, 1), "");
  EXPECT_EQ(Read("f", 100, 1), "");
}

TEST_F(FileExecutorTest, SubdirectoriesOfPartitionLogs) {
  const auto run = [this](OpKind kind, std::string file, std::string target = "") {
    FileOp op{.kind = kind, .directory = Directory::kLogs, .file = file, .target = target};
    if (kind == OpKind::kRead) op.size = 100;
    if (kind == OpKind::kWrite) op.data = {Bytes::Copy("text")};
    return Run(op);
  };
  EXPECT_EQ(run(OpKind::kMakeDirectory, "t-0").error, FileError::kNone);
  EXPECT_EQ(run(OpKind::kMakeDirectory, "t-0").error, FileError::kExists);
  StartAgain();
  EXPECT_EQ(run(OpKind::kCreate, "t-0/f").error, FileError::kNone);
  EXPECT_EQ(run(OpKind::kWrite, "t-0/f").error, FileError::kNone);
  EXPECT_EQ(run(OpKind::kCreate, "g").error, FileError::kNone);
  EXPECT_EQ(run(OpKind::kSyncDirectory, "t-0").error, FileError::kNone);
  EXPECT_EQ(run(OpKind::kSyncDirectory, "").error, FileError::kNone);
  EXPECT_THAT(run(OpKind::kList, "").names, ElementsAre("g", "t-0/"));
  EXPECT_THAT(run(OpKind::kList, "t-0").names, ElementsAre("f"));
  EXPECT_THAT(run(OpKind::kList, "t-0").sizes, ElementsAre(4));
  EXPECT_THAT(List(), ElementsAre("g"));  // the other directories have files only
  EXPECT_EQ(run(OpKind::kList, "t-1").error, FileError::kNotFound);

  EXPECT_EQ(run(OpKind::kRename, "t-0", "t-0.x-delete").error, FileError::kNone);

  EXPECT_EQ(run(OpKind::kRead, "t-0/f").error, FileError::kNotFound);
  EXPECT_EQ(run(OpKind::kRead, "t-0.x-delete/f").data.view(), "text");
  EXPECT_EQ(run(OpKind::kRemoveDirectory, "t-0.x-delete").error, FileError::kIo);
  StartAgain();
  EXPECT_EQ(run(OpKind::kRemove, "t-0.x-delete/f").error, FileError::kNone);
  EXPECT_EQ(run(OpKind::kRemoveDirectory, "t-0.x-delete").error, FileError::kNone);
  EXPECT_THAT(run(OpKind::kList, "").names, ElementsAre("g"));
}

TEST(FilePaths, NeverLeaveTheirDirectory) {
  EXPECT_TRUE(storage::IsSafePath(Directory::kData, "snapshot.1"));
  EXPECT_TRUE(storage::IsSafePath(Directory::kLogs, "topic-0/f"));
  EXPECT_FALSE(storage::IsSafePath(Directory::kData, "a/b"));
  for (const std::string& path :
       {std::string(), std::string("."), std::string(".."), std::string("../f"),
        std::string("a/.."), std::string("/f"), std::string("a/"), std::string("a/b/c"),
        std::string("a\0b", 3), std::string(256, 'x')}) {
    EXPECT_FALSE(storage::IsSafePath(Directory::kLogs, path)) << path;
  }
  EXPECT_EQ(storage::SubdirectoryOf("a/b"), "a");
  EXPECT_EQ(storage::SubdirectoryOf("a"), "");
}

TEST_F(FileExecutorTest, MoreSlicesThanOneSystemCallTakesAreWritten) {
  std::vector<std::string> slices;
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    slices.push_back(std::to_string(i) + ",");
    all += slices.back();
  }
  Create("f");
  EXPECT_EQ(Write("f", 0, slices), FileError::kNone);
  EXPECT_EQ(Read("f"), all);
}

TEST_F(FileExecutorTest, CreatedFileHasItsSizeInZeros) {
  EXPECT_EQ(Create("f", 5), FileError::kNone);
  EXPECT_EQ(Read("f"), std::string(5, '\0'));
}

TEST_F(FileExecutorTest, CreateRefusesWhatExists) {
  EXPECT_EQ(Create("f"), FileError::kNone);
  EXPECT_EQ(Create("f"), FileError::kExists);
}

TEST_F(FileExecutorTest, FailedCreateLeavesNoFile) {
  EXPECT_NE(Create("f", uint64_t{1} << 60), FileError::kNone);
  EXPECT_THAT(List(), IsEmpty());
}

// A file that could not be written must not take the place of the one before.
TEST_F(FileExecutorTest, ChangesNothingAfterAFailure) {
  Create("f");
  Write("f", 0, {"old"});
  EXPECT_EQ(Create("f"), FileError::kExists);
  EXPECT_EQ(Create("new"), FileError::kIo);
  const FileDone done = Run({.kind = OpKind::kRename, .file = "f", .target = "g"});
  EXPECT_EQ(done.error, FileError::kIo);
  EXPECT_EQ(done.message, path_ + ": nothing is changed any more after the error before");
  EXPECT_EQ(Read("f"), "old");
  EXPECT_THAT(List(), ElementsAre("f"));
}

TEST_F(FileExecutorTest, WriteDoesNotCreate) {
  EXPECT_EQ(Write("f", 0, {"x"}), FileError::kNotFound);
  const FileDone done = Run({.kind = OpKind::kRead, .file = "f", .size = 1});
  EXPECT_EQ(done.error, FileError::kNotFound);
  EXPECT_EQ(done.message, path_ + "/f: No such file or directory");
}

TEST_F(FileExecutorTest, TruncateShortensAndLengthens) {
  Create("f");
  Write("f", 0, {"abcdef"});
  EXPECT_EQ(Run({.kind = OpKind::kTruncate, .file = "f", .size = 2}).error, FileError::kNone);
  EXPECT_EQ(Read("f"), "ab");
  EXPECT_EQ(Run({.kind = OpKind::kTruncate, .file = "f", .size = 3}).error, FileError::kNone);
  EXPECT_EQ(Read("f"), std::string("ab\0", 3));
}

TEST_F(FileExecutorTest, RenameReplacesAndFollowsOpenFiles) {
  Create("new");
  Create("old");
  Write("new", 0, {"new"});
  Write("old", 0, {"old"});

  EXPECT_EQ(Run({.kind = OpKind::kRename, .file = "new", .target = "old"}).error, FileError::kNone);

  EXPECT_THAT(List(), ElementsAre("old"));
  EXPECT_EQ(Read("old"), "new");
  EXPECT_EQ(Write("old", 3, {"er"}), FileError::kNone);
  EXPECT_EQ(Read("old"), "newer");
  EXPECT_EQ(Write("new", 0, {"x"}), FileError::kNotFound);
}

TEST_F(FileExecutorTest, RemovedFileIsGoneAlthoughItWasOpen) {
  Create("f");
  Write("f", 0, {"x"});
  EXPECT_EQ(Run({.kind = OpKind::kRemove, .file = "f"}).error, FileError::kNone);
  EXPECT_EQ(Run({.kind = OpKind::kRemove, .file = "f"}).error, FileError::kNotFound);
  StartAgain();
  EXPECT_EQ(Create("f"), FileError::kNone);
  EXPECT_EQ(Read("f"), "");
}

TEST_F(FileExecutorTest, SyncsSucceed) {
  Create("f");
  Write("f", 0, {"x"});
  EXPECT_EQ(Run({.kind = OpKind::kSync, .file = "f"}).error, FileError::kNone);
  EXPECT_EQ(Run({.kind = OpKind::kSyncDirectory}).error, FileError::kNone);
  EXPECT_EQ(Run({.kind = OpKind::kSync, .file = "g"}).error, FileError::kNotFound);
}

TEST_F(FileExecutorTest, ListIsSortedAndHasOnlyTheMachinesFiles) {
  for (const char* name : {"b", "lock", "a", "myid"}) Create(name);
  std::filesystem::create_directories(path_ + "/version-2");
  EXPECT_THAT(List(), ElementsAre("a", "b"));
}

TEST_F(FileExecutorTest, ManyFilesDoNotStayOpen) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = "f" + std::to_string(i);
    ASSERT_EQ(Create(name), FileError::kNone);
    ASSERT_EQ(Run({.kind = OpKind::kSync, .file = name}).error, FileError::kNone);
  }
  EXPECT_EQ(OpenFiles(), 16);
}

TEST_F(FileExecutorTest, FilesThatWereNotSyncedDoNotStayOpenEither) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = "f" + std::to_string(i);
    ASSERT_EQ(Create(name), FileError::kNone);
    ASSERT_EQ(Write(name, 0, {name}), FileError::kNone);
  }
  EXPECT_EQ(OpenFiles(), 16);
  for (int i = 0; i < 100; ++i) {
    const std::string name = "f" + std::to_string(i);
    EXPECT_EQ(Read(name), name);
    EXPECT_EQ(Run({.kind = OpKind::kSync, .file = name}).error, FileError::kNone);
  }
  EXPECT_EQ(OpenFiles(), 16);
}

TEST_F(FileExecutorTest, AFileThatCannotBeSyncedIsNotClosedForAnother) {
  // Takes everything, and cannot be synced.
  std::filesystem::create_symlink("/dev/null", path_ + "/null");
  ASSERT_EQ(Write("null", 0, {"x"}), FileError::kNone);
  for (int i = 1; i < 16; ++i) ASSERT_EQ(Create("f" + std::to_string(i)), FileError::kNone);
  EXPECT_EQ(Create("f16"), FileError::kIo);
}

TEST_F(FileExecutorTest, FullDiskIsToldApart) {
  // /dev/full takes nothing.
  std::filesystem::create_symlink("/dev/full", path_ + "/f");
  FileOp op{.kind = OpKind::kWrite, .file = "f", .data = {Bytes::Copy("x")}};
  const FileDone done = Run(op);
  EXPECT_EQ(done.error, FileError::kNoSpace);
  EXPECT_THAT(done.message, HasSubstr("No space left on device"));
}

// ---- The threads -------------------------------------------------------------------------------

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_ + "/data");
    std::filesystem::create_directories(path_ + "/log");
    files_ = std::make_unique<Files>(path_ + "/data", path_ + "/log", [this] { wake_.release(); });
  }
  ~FilesTest() override {
    files_.reset();
    std::filesystem::remove_all(path_);
  }

  // The sequence numbers of what was done, until there are `count`.
  std::vector<uint64_t> Await(size_t count) {
    std::vector<FileDone> done;
    while (done.size() < count) {
      wake_.acquire();
      files_->Take(&done);
    }
    std::vector<uint64_t> sequences;
    for (const FileDone& one : done) {
      EXPECT_EQ(one.error, FileError::kNone) << one.message;
      sequences.push_back(one.id.sequence);
    }
    return sequences;
  }

  const std::string path_ = testing::TempDir() + "/files_test";
  std::counting_semaphore<> wake_{0};
  std::unique_ptr<Files> files_;
};

TEST_F(FilesTest, OperationsOfADirectoryKeepTheirOrder) {
  std::vector<FileOp> ops;
  ops.push_back({.id = {1, 1}, .kind = OpKind::kCreate, .directory = Directory::kLog, .file = "f"});
  for (uint64_t i = 0; i < 100; ++i) {
    ops.push_back({.id = {1, 2 + i},
                   .kind = i % 10 == 9 ? OpKind::kSync : OpKind::kWrite,
                   .directory = Directory::kLog,
                   .file = "f",
                   .data = {Bytes::Copy(std::to_string(i))}});
  }
  files_->Submit(&ops);
  EXPECT_THAT(ops, IsEmpty());

  const std::vector<uint64_t> done = Await(101);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST_F(FilesTest, DirectoriesAreApart) {
  std::vector<FileOp> ops;
  ops.push_back({.id = {1, 1}, .kind = OpKind::kCreate, .directory = Directory::kLog, .file = "l"});
  ops.push_back(
      {.id = {1, 2}, .kind = OpKind::kCreate, .directory = Directory::kData, .file = "d"});
  files_->Submit(&ops);
  Await(2);

  EXPECT_TRUE(std::filesystem::exists(path_ + "/log/l"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/data/d"));
}

// Reads, syncs and writes are on threads of their own: each read must see what was written before
// it, and nothing that came after. Fewer files may be open than there are: they are closed
// meanwhile.
TEST_F(FilesTest, FilesOfPartitionLogsKeepTheirOrderOnSeveralThreads) {
  std::filesystem::create_directories(path_ + "/logs");
  std::binary_semaphore wake(0);
  Files files(path_ + "/data", path_ + "/log", path_ + "/logs", 3, [&] { wake.release(); });
  constexpr uint64_t kRounds = 200;
  constexpr int kFilesCount = 5;
  std::vector<FileOp> ops;
  uint64_t sequence = 0;
  struct Expected {
    std::string text;
    uint64_t write = 0;
  };
  std::map<uint64_t, Expected> expected;  // of reads, by sequence
  const auto give = [&](FileOp op) {
    op.id = {1, ++sequence};
    op.directory = Directory::kLogs;
    ops.push_back(std::move(op));
  };
  for (int f = 0; f < kFilesCount; ++f) {
    give({.kind = OpKind::kCreate, .file = "f" + std::to_string(f)});
  }
  for (uint64_t i = 0; i < kRounds; ++i) {
    for (int f = 0; f < kFilesCount; ++f) {
      const std::string file = "f" + std::to_string(f);
      const std::string text = std::to_string(1000 + i);
      give({.kind = OpKind::kWrite, .file = file, .data = {Bytes::Copy(text)}});
      const uint64_t write = sequence;
      if (i % 7 == 0) give({.kind = OpKind::kSync, .file = file});
      give({.kind = OpKind::kRead, .file = file, .size = 100});
      expected[sequence] = {text, write};
      if (i % 50 == 49) give({.kind = OpKind::kTruncate, .file = file, .size = 0});
    }
  }
  files.Submit(&ops);

  std::vector<FileDone> done;
  while (done.size() < sequence) {
    wake.acquire();
    files.Take(&done);
  }
  std::map<uint64_t, size_t> place;
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].error, FileError::kNone) << done[i].message;
    place[done[i].id.sequence] = i;
    if (auto read = expected.find(done[i].id.sequence); read != expected.end()) {
      EXPECT_EQ(done[i].data.view(), read->second.text);
    }
  }
  for (const auto& [read, of] : expected) EXPECT_LT(place.at(of.write), place.at(read));
}

TEST_F(FilesTest, DrainedAndDestroyedMeansDone) {
  for (bool drain : {true, false}) {
    const std::string name = drain ? "drained" : "destroyed";
    std::vector<FileOp> ops;
    ops.push_back({.kind = OpKind::kCreate, .directory = Directory::kData, .file = name});
    ops.push_back({.kind = OpKind::kSyncDirectory, .directory = Directory::kData});
    files_->Submit(&ops);
    if (drain) {
      files_->Drain();
    } else {
      files_.reset();
    }
    EXPECT_TRUE(std::filesystem::exists(path_ + "/data/" + name));
  }
}

}  // namespace
}  // namespace lockstep::shell
