#include "baracuda/io/file.hpp"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace baracuda::io {
namespace {

Status failed(const std::string& what, const std::string& path, int error) {
  return {Code::io_error, "cannot " + what + " " + in_quotes(path) + ": " + strerror(error)};
}

// One piece may exceed what a single system call moves.
constexpr size_t kPiece = size_t(1) << 30;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// The file that a chain of links ends at, so that a rename replaces the file and not the link.
std::string follow_links(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string target = real;
  free(real);
  return target;
}

// Length of the well-formed UTF-8 sequence at s[0..n), 0 if malformed (overlong forms and surrogates included).
size_t utf8_length(const uint8_t* s, size_t n) {
  const auto tail = [&](size_t i) { return i < n && (s[i] & 0xC0) == 0x80; };
  if (s[0] < 0x80) return 1;
  if (s[0] >= 0xC2 && s[0] <= 0xDF) return tail(1) ? 2 : 0;
  if (s[0] >= 0xE0 && s[0] <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    return 3;
  }
  if (s[0] >= 0xF0 && s[0] <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 160;
  std::string s = "'";
  for (size_t i = 0; i < std::min(text.size(), kShown); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\x%02x", unsigned(c));
      s += escape;
    } else {
      s += char(c);
    }
  }
  return s + (text.size() > kShown ? "...'" : "'");
}

Result<InputFile> InputFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed("open", path, errno);
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    const bool folder = S_ISDIR(st.st_mode);
    ::close(fd);
    return Status(Code::io_error, "cannot read " + in_quotes(path) + ": " + (folder ? "it is a directory" : "it is not a regular file"));
  }
  return InputFile(fd, uint64_t(st.st_size), path);
}

InputFile::InputFile(InputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd_, to.data(), std::min(to.size(), kPiece), off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read", path_, errno);
    if (n == 0)
      return {Code::io_error, "cannot read " + in_quotes(path_) + ": it ends at byte " + std::to_string(offset) + ", " +
                                  std::to_string(to.size()) + " bytes short"};
    to = to.subspan(size_t(n));
    offset += uint64_t(n);
  }
  return {};
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  const std::string target = follow_links(path);
  struct stat st;
  if (target.empty()) return Status(Code::io_error, "cannot write '': the path is empty");
  if (stat(target.c_str(), &st) == 0 && !S_ISREG(st.st_mode))
    return Status(Code::io_error, "cannot write " + in_quotes(path) + ": it is " + (S_ISDIR(st.st_mode) ? "a directory" : "not a regular file"));
  // The lock keeps two processes from mixing their bytes in one partial file. It is taken on a file that may have been
  // renamed away between open and lock, so the name must still lead to the locked file.
  for (;;) {
    AtomicFile file(::open((target + ".partial").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), target);
    if (file.fd_ < 0) return failed("write", path, errno);
    if (flock(file.fd_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(std::exchange(file.fd_, -1));
      if (error == EWOULDBLOCK) return Status(Code::io_error, "cannot write " + in_quotes(path) + ": another process is writing it");
      return failed("lock", path, error);
    }
    struct stat ours, named;
    const bool same = fstat(file.fd_, &ours) == 0 && stat(file.partial().c_str(), &named) == 0 && ours.st_ino == named.st_ino;
    if (!same) {
      ::close(std::exchange(file.fd_, -1));
      continue;
    }
    if (ftruncate(file.fd_, 0) != 0) return failed("write", path, errno);
    return file;
  }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::unlink(partial().c_str());
  ::close(fd_);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  if (fd_ < 0) return {Code::io_error, "cannot write " + in_quotes(path_) + ": it is closed"};
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path_, errno);
    bytes = bytes.subspan(size_t(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (fd_ < 0) return {Code::io_error, "cannot write " + in_quotes(path_) + ": it is closed"};
  if (::fsync(fd_) != 0) return failed("write", path_, errno);
  if (::rename(partial().c_str(), path_.c_str()) != 0) return failed("replace", path_, errno);
  ::close(std::exchange(fd_, -1));
  // The rename itself must survive a power cut; a folder that cannot be opened for that has still been renamed in.
  if (const int dir = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    (void)::fsync(dir);
    ::close(dir);
  }
  return {};
}

Status write_text(const std::string& path, std::string_view text) {
  BARACUDA_TRY_ASSIGN(file, AtomicFile::create(path));
  BARACUDA_TRY(file.write(text));
  return file.commit();
}

Result<std::vector<uint8_t>> decode_text(std::span<const std::byte> file) {
  const auto* s = reinterpret_cast<const uint8_t*>(file.data());
  size_t n = file.size(), i = n >= 3 && s[0] == 0xEF && s[1] == 0xBB && s[2] == 0xBF ? 3 : 0;
  std::vector<uint8_t> text;
  text.reserve(n);
  while (i < n) {
    if (s[i] == 0) return Status(Code::invalid_problem, "not a text: NUL byte at offset " + std::to_string(i));
    const size_t length = utf8_length(s + i, n - i);
    if (length == 0) return Status(Code::invalid_problem, "not a UTF-8 text: malformed byte at offset " + std::to_string(i));
    const bool carriage_return_before_newline = s[i] == '\r' && i + 1 < n && s[i + 1] == '\n';
    if (!carriage_return_before_newline) text.insert(text.end(), s + i, s + i + length);
    i += length;
  }
  if (text.empty()) return Status(Code::invalid_problem, "the text is empty");
  return text;
}

Result<std::vector<uint8_t>> read_text(const std::string& path) {
  BARACUDA_TRY_ASSIGN(file, InputFile::open(path));
  std::vector<std::byte> bytes;
  try {
    bytes.resize(file.size());
  } catch (const std::exception&) {
    return Status(Code::out_of_memory, "cannot read " + in_quotes(path) + ": " + std::to_string(file.size()) + " bytes do not fit in memory");
  }
  BARACUDA_TRY(file.read(0, bytes));
  Result<std::vector<uint8_t>> text = decode_text(bytes);
  if (!text.ok()) return Status(text.status().code(), in_quotes(path) + ": " + text.status().message());
  return text;
}

}  // namespace baracuda::io
