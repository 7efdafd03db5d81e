#pragma once
// Files: errors as one sentence with path and reason, and writes that never leave a half-written file behind.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "baracuda/core/status.hpp"

namespace baracuda::io {

// Text from outside made fit for a one-line message: quoted, control characters escaped, long text shortened.
std::string in_quotes(std::string_view text);

// A regular file open for reading at any offset. io_error: missing, a directory or device, no permission.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Fills `to` from `offset`; io_error when the file ends before that.
  Status read(uint64_t offset, std::span<std::byte> to) const;

 private:
  InputFile(int fd, uint64_t size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
};

// Replaces `path` all at once: bytes go to `path`.partial, commit() flushes them to the disk and renames. Until commit
// succeeds the old file stays as it was; a destroyed, uncommitted file is removed. A symbolic link is followed.
// io_error: no such folder, no permission, disk full, not a regular file, or another process is writing the same path.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Status commit();

 private:
  AtomicFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  std::string partial() const { return path_ + ".partial"; }
  int fd_ = -1;
  std::string path_;
};

// Creates and replaces `path` with `text`.
Status write_text(const std::string& path, std::string_view text);

// A text as the bytes that a byte-level model reads: UTF-8, without byte order mark, lines ended by '\n'.
// invalid_problem: empty, NUL bytes or malformed UTF-8 (with the offset).
Result<std::vector<uint8_t>> decode_text(std::span<const std::byte> file);
Result<std::vector<uint8_t>> read_text(const std::string& path);

}  // namespace baracuda::io
