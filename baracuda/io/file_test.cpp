#include "baracuda/io/file.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace baracuda::io {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view s) { return std::as_bytes(std::span(s)); }
std::string string_of(const std::vector<uint8_t>& v) { return {v.begin(), v.end()}; }
std::string contents(const fs::path& p) {
  std::ifstream f(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "baracuda_io_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir = name;
  }
  void TearDown() override { fs::remove_all(dir); }
  fs::path dir;
};
using File = Folder;

TEST(DecodeText, normalises_line_ends_and_byte_order_mark) {
  EXPECT_EQ(string_of(*decode_text(bytes("\xEF\xBB\xBF" "a\r\nb\rc\n"))), "a\nb\rc\n");
  EXPECT_EQ(string_of(*decode_text(bytes("na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x99\x82"))), "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x99\x82");
}

TEST(DecodeText, refuses_what_is_no_text) {
  const struct { std::string_view text, message; } cases[] = {
      {"", "the text is empty"},
      {"\xEF\xBB\xBF", "the text is empty"},
      {std::string_view("ab\0c", 4), "NUL byte at offset 2"},
      {"abc\xFF", "malformed byte at offset 3"},
      {"a\xC0\xAF", "malformed byte at offset 1"},          // overlong '/'
      {"\xE0\x80\xAF", "malformed byte at offset 0"},       // overlong, three bytes
      {"\xED\xA0\x80", "malformed byte at offset 0"},       // surrogate
      {"\xF4\x90\x80\x80", "malformed byte at offset 0"},   // above U+10FFFF
      {"ab\xE2\x82", "malformed byte at offset 2"},         // cut short
      {"\x80", "malformed byte at offset 0"},
  };
  for (const auto& c : cases) {
    const auto r = decode_text(bytes(c.text));
    ASSERT_FALSE(r.ok()) << c.message;
    EXPECT_EQ(r.status().code(), Code::invalid_problem);
    EXPECT_NE(r.status().message().find(c.message), std::string::npos) << r.status().message();
  }
}

TEST(InQuotes, is_one_short_line) {
  EXPECT_EQ(in_quotes("a\nb\x1b[31m"), "'a\\x0ab\\x1b[31m'");
  EXPECT_LT(in_quotes(std::string(1000, 'x')).size(), 200u);
}

TEST_F(File, read_errors_name_the_path_and_the_reason) {
  const struct { fs::path path; std::string_view reason; } cases[] = {
      {dir / "absent", "No such file"}, {dir, "it is a directory"}, {"/dev/null", "not a regular file"}, {"", "No such file"}};
  for (const auto& c : cases) {
    const auto r = read_text(c.path.string());
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.status().code(), Code::io_error);
    EXPECT_NE(r.status().message().find(c.reason), std::string::npos) << r.status().message();
    EXPECT_NE(r.status().message().find(c.path.string()), std::string::npos);
  }
}

TEST_F(File, reading_past_the_end_is_an_error) {
  ASSERT_TRUE(write_text((dir / "f").string(), "hello").ok());
  auto f = InputFile::open((dir / "f").string());
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->size(), 5u);
  std::byte b[6];
  EXPECT_TRUE(f->read(1, std::span(b, 4)).ok());
  const Status s = f->read(0, b);
  EXPECT_EQ(s.code(), Code::io_error);
  EXPECT_NE(s.message().find("ends at byte 5"), std::string::npos) << s.message();
}

TEST_F(File, atomic_write_replaces_only_on_commit) {
  const std::string path = (dir / "f").string();
  ASSERT_TRUE(write_text(path, "old").ok());
  {
    auto f = AtomicFile::create(path);
    ASSERT_TRUE(f.ok());
    ASSERT_TRUE(f->write("new content").ok());
    EXPECT_EQ(contents(path), "old");
    const auto second = AtomicFile::create(path);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.status().message().find("another process is writing it"), std::string::npos);
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_FALSE(fs::exists(path + ".partial"));
  std::ofstream(path + ".partial") << "left behind by a killed process, and longer than what follows";
  ASSERT_TRUE(write_text(path, "new").ok());
  EXPECT_EQ(contents(path), "new");
  EXPECT_FALSE(fs::exists(path + ".partial"));
}

TEST_F(File, atomic_write_follows_links_and_spares_devices) {
  ASSERT_TRUE(write_text((dir / "real").string(), "old").ok());
  fs::create_symlink(dir / "real", dir / "link");
  ASSERT_TRUE(write_text((dir / "link").string(), "new").ok());
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(contents(dir / "real"), "new");
  for (const std::string& path : {std::string("/dev/full"), dir.string(), (dir / "no" / "such").string(), std::string()}) {
    const Status s = write_text(path, "x");
    EXPECT_EQ(s.code(), Code::io_error) << path;
    EXPECT_NE(s.message().find(in_quotes(path)), std::string::npos) << s.message();
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

// A limit on file sizes stands in for a full disk where no file system can be mounted: both end a write() half way.
TEST_F(File, a_disk_that_fills_up_keeps_the_old_file) {
  const std::string path = (dir / "f").string();
  ASSERT_TRUE(write_text(path, "old").ok());
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status s = write_text(path, std::string(10000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(s.code(), Code::io_error);
  EXPECT_NE(s.message().find("File too large"), std::string::npos) << s.message();
  EXPECT_EQ(contents(path), "old");
  EXPECT_FALSE(fs::exists(path + ".partial"));
}

TEST_F(File, a_full_file_system_keeps_the_old_file) {
  if (mount("none", dir.c_str(), "tmpfs", 0, "size=16k") != 0) GTEST_SKIP() << "no right to mount a small file system";
  const std::string path = (dir / "f").string();
  EXPECT_TRUE(write_text(path, "old").ok());
  const Status s = write_text(path, std::string(100000, 'x'));
  EXPECT_EQ(s.code(), Code::io_error);
  EXPECT_NE(s.message().find("No space left"), std::string::npos) << s.message();
  EXPECT_EQ(contents(path), "old");
  EXPECT_FALSE(fs::exists(path + ".partial"));
  EXPECT_EQ(umount(dir.c_str()), 0);
}

}  // namespace
}  // namespace baracuda::io
