#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "cli/interrupt.h"
#include "cli/safetensors.h"
#include "cli/safetensors_writer.h"
#include "cli_fixtures.h"

namespace samebits::cli {
namespace {

const std::vector<OutputTensor> kTensors = {{"logp", ElementType::kF32, {2, 2}},
                                            {"targets", ElementType::kI64, {1}}};
const std::array<std::byte, 16> kData = {std::byte{1}, std::byte{2}, std::byte{3}};

void fill(SafetensorsWriter& writer) {
  writer.write(0, 0, std::span(kData).first(8));
  writer.write(0, 8, std::span(kData).last(8));
  writer.write(1, 0, std::span(kData).first(8));
}

TEST(WriterTest, what_it_writes_reads_back) {
  const TemporaryFolder folder;
  const std::string path = folder / "out.safetensors";
  SafetensorsWriter writer(path, false, kTensors, {{"digest", "0000"}});
  fill(writer);
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.commit({{"digest", "\"\x01"}});
  const std::string file = read_all(path);
  const SafetensorsFile contents = read_safetensors(as_file(file), path);
  EXPECT_EQ(contents.metadata.at("digest"), "\"\x01");
  ASSERT_EQ(contents.tensors.size(), 2u);
  EXPECT_EQ(contents.find("logp")->shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(std::ranges::equal(contents.find("logp")->data, kData));
  EXPECT_EQ((contents.find("targets")->data.data() - as_file(file).data()) % 8, 0);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(WriterTest, an_abandoned_file_leaves_nothing) {
  const TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder / "out", false, kTensors, {});
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(WriterTest, refuses_to_overwrite_without_force_and_keeps_the_mode_with_it) {
  const TemporaryFolder folder;
  const std::string path = folder / "out";
  write_all(path, "precious");
  ::chmod(path.c_str(), 0640);
  expect_refusal([&] { SafetensorsWriter(path, false, kTensors, {}); }, "exists; give --force");
  EXPECT_EQ(read_all(path), "precious");
  SafetensorsWriter writer(path, true, kTensors, {});
  EXPECT_EQ(read_all(path), "precious");
  fill(writer);
  writer.commit({});
  EXPECT_NE(read_all(path), "precious");
  struct stat info{};
  ::stat(path.c_str(), &info);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST(WriterTest, a_file_that_appears_meanwhile_is_kept) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "out", false, kTensors, {});
  fill(writer);
  write_all(folder / "out", "precious");
  expect_refusal([&] { writer.commit({}); }, "appeared meanwhile");
  EXPECT_EQ(read_all(folder / "out"), "precious");
}

TEST(WriterTest, force_replaces_the_target_of_a_link_and_never_a_device_or_folder) {
  const TemporaryFolder folder;
  write_all(folder / "real", "old");
  std::filesystem::create_symlink("real", folder / "link");
  SafetensorsWriter writer(folder / "link", true, kTensors, {});
  fill(writer);
  writer.commit({});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_NE(read_all(folder / "real"), "old");
  std::filesystem::create_directory(folder / "sub");
  expect_refusal([&] { SafetensorsWriter(folder / "sub", true, kTensors, {}); }, "not a regular file");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  expect_refusal([&] { SafetensorsWriter(folder / "pipe", true, kTensors, {}); }, "not a regular file");
}

TEST(WriterTest, folders_that_cannot_be_written_are_named) {
  const TemporaryFolder folder;
  expect_refusal([&] { SafetensorsWriter(folder / "no/such/out", false, kTensors, {}); }, "no/such/out");
  expect_refusal([&] { SafetensorsWriter(folder / "new/", false, kTensors, {}); }, "new/");
  expect_refusal([&] { SafetensorsWriter("", false, kTensors, {}); }, "folder");
}

TEST(WriterTest, sizes_that_overflow_are_refused) {
  const TemporaryFolder folder;
  const std::int64_t huge = std::int64_t{1} << 61;
  expect_refusal([&] { SafetensorsWriter(folder / "out", false, {{"x", ElementType::kF64, {huge, 8}}}, {}); },
                 "too large");
  expect_refusal([&] { SafetensorsWriter(folder / "out", false, {{"x", ElementType::kF64, {huge}}}, {}); },
                 "out");
  EXPECT_EQ(folder.entries(), 0u);
}

// Runs `body` in a child process and returns its wait status.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(WriterTest, a_signal_removes_the_temporary_file_and_ends_the_process) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    const int status = in_child([&] {
      ::signal(signal, SIG_DFL);  // a runner in the background may have it ignored, and that would be kept
      install_signal_handlers();
      SafetensorsWriter writer(folder / "out", false, kTensors, {});
      if (folder.entries() != 1) ::_exit(3);
      ::raise(signal);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_EQ(folder.entries(), 0u);
  }
}

TEST(WriterTest, kill_leaves_nothing_under_the_final_name) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    SafetensorsWriter writer(folder / "out", false, kTensors, {});
    fill(writer);
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(WriterTest, a_size_limit_is_an_error_that_leaves_nothing) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    install_signal_handlers();
    const rlimit limit = {64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = refusal([&] { SafetensorsWriter(folder / "out", false, kTensors, {}); });
    ::_exit(message.find("File too large") != std::string::npos ? 0 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace samebits::cli
