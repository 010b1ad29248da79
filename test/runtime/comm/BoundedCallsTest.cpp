//===- BoundedCallsTest.cpp - Calls that hang, and where a store is served ---===//

#include "comm/BoundedCalls.h"
#include "comm/ServerSocket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netdb.h>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>

using namespace fsdp::rt;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kShort{1}, kLong{60'000};

// Answers and exceptions come back; calls run in order.
TEST(BoundedCalls, Answers) {
  BoundedCalls calls;
  std::future<int> first = calls.start([] { return 1; });
  EXPECT_EQ(calls.ask([] { return 2; }, kLong), 2);
  EXPECT_EQ(first.wait_for(milliseconds(0)), std::future_status::ready);
  EXPECT_THROW(calls.ask([]() -> int { throw std::runtime_error("no"); }, kLong),
               std::runtime_error);
}

// Nobody waits for a call that hangs: not who asks for it, not who asks next, not the end.
TEST(BoundedCalls, NobodyWaitsForACallThatHangs) {
  auto release = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  auto began = std::make_shared<std::promise<void>>();
  std::future<void> end = ended->get_future(), begin = began->get_future();
  {
    BoundedCalls calls;
    EXPECT_FALSE(calls.ask(
        [release, began, ended] {
          began->set_value();
          release->get_future().wait();
          ended->set_value();
          return true;
        },
        kShort));
    EXPECT_FALSE(calls.ask([] { return true; }, kShort));
    begin.wait(); // what has not begun is dropped
  }
  release->set_value();
  end.wait();
}

std::string placeOf(const FileDescriptor &socket) {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char digits[NI_MAXHOST] = {};
  EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr *>(&own), &length), 0);
  EXPECT_EQ(getnameinfo(reinterpret_cast<sockaddr *>(&own), length, digits, sizeof(digits), nullptr,
                        0, NI_NUMERICHOST),
            0);
  return digits;
}

// What names this host alone is served there alone.
TEST(ServerSocket, BindsWhereNamed) {
  Result<FileDescriptor> loopback = bindWhereNamed("127.0.0.1", 0);
  ASSERT_TRUE(loopback.ok()) << loopback.status().message();
  EXPECT_EQ(placeOf(*loopback), "127.0.0.1");
  Result<FileDescriptor> local = bindWhereNamed("localhost", 0);
  ASSERT_TRUE(local.ok()) << local.status().message();
  EXPECT_THAT(placeOf(*local), testing::AnyOf("127.0.0.1", "::1"));
}

// Names that others may resolve to other addresses, and addresses of no interface, are not.
TEST(ServerSocket, LeavesOthersToAllInterfaces) {
  for (const char *host : {"node0.invalid", "192.0.2.1"}) {
    Result<FileDescriptor> socket = bindWhereNamed(host, 0);
    EXPECT_TRUE(socket.ok() && !socket->valid()) << host;
  }
}

TEST(ServerSocket, SaysWhyAPortCannotBeHad) {
  Result<FileDescriptor> first = bindWhereNamed("127.0.0.1", 0);
  ASSERT_TRUE(first.ok() && listen(first->get(), 1) == 0);
  sockaddr_in own{};
  socklen_t length = sizeof(own);
  getsockname(first->get(), reinterpret_cast<sockaddr *>(&own), &length);
  uint16_t port = ntohs(own.sin_port);
  EXPECT_EQ(bindWhereNamed("127.0.0.1", port).status().message(),
            "cannot listen at 127.0.0.1 port " + std::to_string(port) + ": Address already in use");
}

} // namespace
