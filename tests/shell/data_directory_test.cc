#include "shell/data_directory.h"

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::shell {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DataDirectoryTest : public testing::Test {
 protected:
  DataDirectoryTest() { std::filesystem::remove_all(path_); }
  ~DataDirectoryTest() override { std::filesystem::remove_all(path_); }

  const std::string path_ = testing::TempDir() + "/data_directory_test";
};

TEST_F(DataDirectoryTest, IsCreatedWithItsParents) {
  EXPECT_TRUE(DataDirectory::Open(path_ + "/a/b").ok());
  EXPECT_TRUE(std::filesystem::is_directory(path_ + "/a/b"));
}

TEST_F(DataDirectoryTest, BelongsToOneAtATime) {
  {
    const auto first = DataDirectory::Open(path_);
    ASSERT_TRUE(first.ok());

    const auto second = DataDirectory::Open(path_);
    EXPECT_THAT(
        std::string(second.status().message()),
        AllOf(HasSubstr("is in use by another lockstepd, process " + std::to_string(::getpid())),
              HasSubstr(path_)));
  }
  EXPECT_TRUE(DataDirectory::Open(path_).ok());
}

TEST_F(DataDirectoryTest, MovedFromOneHoldsNothing) {
  auto first = DataDirectory::Open(path_);
  ASSERT_TRUE(first.ok());
  DataDirectory moved = *std::move(first);
  first = absl::CancelledError();

  EXPECT_FALSE(DataDirectory::Open(path_).ok());
}

TEST_F(DataDirectoryTest, KnowsItselfByAnotherName) {
  const auto directory = DataDirectory::Open(path_);
  ASSERT_TRUE(directory.ok());

  EXPECT_TRUE(directory->IsSame(path_ + "/."));
  EXPECT_FALSE(directory->IsSame(testing::TempDir()));
  EXPECT_FALSE(directory->IsSame(path_ + "/missing"));
}

TEST_F(DataDirectoryTest, FileInItsPlaceIsAnError) {
  std::ofstream(path_) << "x";
  const auto directory = DataDirectory::Open(path_);
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr(path_ + " cannot be created"));
}

TEST_F(DataDirectoryTest, DataOfZooKeeperIsNotTakenForEmpty) {
  std::filesystem::create_directories(path_ + "/version-2");
  EXPECT_TRUE(DataDirectory::Open(path_).ok());

  std::ofstream(path_ + "/version-2/log.100000001") << "ZKLG";
  const auto directory = DataDirectory::Open(path_);
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr("Apache ZooKeeper"));
}

}  // namespace
}  // namespace lockstep::shell
