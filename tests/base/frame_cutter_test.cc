#include "core/base/frame_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

std::string Framed(std::string_view body) {
  std::string bytes;
  for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(body.size() >> shift));
  return bytes.append(body);
}

std::vector<std::string> AllFrames(FrameCutter* cutter) {
  std::vector<std::string> frames;
  while (true) {
    absl::StatusOr<std::optional<Bytes>> frame = cutter->Next();
    EXPECT_TRUE(frame.ok());
    if (!frame.ok() || !frame->has_value()) return frames;
    frames.emplace_back((*frame)->view());
  }
}

TEST(FrameCutter, AFrameInOnePieceIsASliceOfIt) {
  const Bytes piece = Bytes::Copy(Framed("one") + Framed("") + Framed("two") + "\0");
  FrameCutter cutter(100);
  cutter.Add(piece);
  EXPECT_EQ((*cutter.Next())->data(), piece.data() + 4);
  EXPECT_EQ((*cutter.Next())->size(), 0u);
  EXPECT_EQ((*cutter.Next())->data(), piece.data() + 15);
  EXPECT_FALSE(cutter.Next()->has_value());
}

TEST(FrameCutter, FindsTheSameFramesHoweverTheStreamIsCut) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& bodies) {
    std::string stream;
    for (const std::string& body : bodies) stream += Framed(body);
    FrameCutter cutter(1 << 20);
    std::vector<std::string> found;
    while (!stream.empty()) {
      const size_t size = *rc::gen::inRange<size_t>(1, 12);
      cutter.Add(Bytes::Copy(stream.substr(0, size)));
      stream.erase(0, size);
      // Not after every piece: pieces may pile up while reading is paused.
      if (*rc::gen::arbitrary<bool>()) {
        for (std::string& frame : AllFrames(&cutter)) found.push_back(std::move(frame));
      }
    }
    for (std::string& frame : AllFrames(&cutter)) found.push_back(std::move(frame));
    RC_ASSERT(found == bodies);
    RC_ASSERT(cutter.buffered() == 0u);
  }));
}

TEST(FrameCutter, LengthsOutOfBoundsAreErrorsThatStay) {
  for (const std::string& length : {std::string("\xff\xff\xff\xff", 4),
                                    std::string("\0\0\0\x0b", 4), std::string("\x80\0\0\0", 4)}) {
    for (size_t cut : {4u, 1u}) {
      FrameCutter cutter(10);
      cutter.Add(Bytes::Copy(Framed("fine")));
      cutter.Add(Bytes::Copy(length.substr(0, cut)));
      cutter.Add(Bytes::Copy(length.substr(cut) + "0123456789ab"));
      EXPECT_EQ((*cutter.Next())->view(), "fine");
      EXPECT_FALSE(cutter.Next().ok());
      EXPECT_FALSE(cutter.Next().ok());
    }
  }
}

TEST(FrameCutter, ABoundAboveTheSignedRangeDoesNotLetNegativeLengthsThrough) {
  FrameCutter cutter(0xffffffff);
  cutter.Add(Bytes::Copy("\xff\xff\xff\xff"));
  EXPECT_FALSE(cutter.Next().ok());
}

TEST(FrameCutter, AFrameAtTheBoundIsGiven) {
  FrameCutter cutter(10);
  cutter.Add(Bytes::Copy(Framed("0123456789")));
  EXPECT_THAT(AllFrames(&cutter), ElementsAre("0123456789"));
}

}  // namespace
}  // namespace lockstep
