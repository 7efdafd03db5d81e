#pragma once
// Status and Result<T>: what went wrong, as a code, a sentence that names op, argument, rule and numbers, and, where a
// buffer was too small, how many bytes it takes. Success costs one null pointer. Nothing here ends the process;
// .value() throws std::runtime_error for those who like exceptions.
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#if defined(BARACUDA_BUILDING)
#define BARACUDA_API __attribute__((visibility("default")))
#else
#define BARACUDA_API
#endif

namespace baracuda {

enum class Code : uint8_t {
  ok,
  invalid_problem,      // a wrong descriptor or argument: fix the call
  unsupported,          // nothing wrong, but no kernel of this build does it
  misaligned_operand,   // a pointer that is not aligned as its element type or the workspace rule demands
  workspace_too_small,  // needed() and got() tell the bytes
  buffer_too_small,     // likewise, for a tensor's memory
  out_of_memory,
  io_error,             // a file could not be read or written
  backend_failure,      // a library or the driver failed: the text names it, its code and its words
};
constexpr std::string_view name(Code c) {
  constexpr std::string_view names[] = {"ok",           "invalid_problem",     "unsupported",
                                        "misaligned_operand", "workspace_too_small", "buffer_too_small",
                                        "out_of_memory", "io_error",           "backend_failure"};
  return uint8_t(c) < std::size(names) ? names[uint8_t(c)] : "unknown code";
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : detail_(std::make_shared<const Detail>(Detail{code, 0, 0, std::move(message)})) {}
  Status(Code code, std::string message, uint64_t needed, uint64_t got)
      : detail_(std::make_shared<const Detail>(Detail{code, needed, got, std::move(message)})) {}
  bool ok() const { return !detail_; }
  explicit operator bool() const { return ok(); }
  Code code() const { return detail_ ? detail_->code : Code::ok; }
  const std::string& message() const { static const std::string none; return detail_ ? detail_->message : none; }
  uint64_t needed() const { return detail_ ? detail_->needed : 0; }
  uint64_t got() const { return detail_ ? detail_->got : 0; }
  std::string to_string() const { return ok() ? "ok" : std::string(name(code())) + ": " + message(); }
  void value() const { if (!ok()) throw std::runtime_error(to_string()); }

 private:
  struct Detail { Code code; uint64_t needed, got; std::string message; };
  std::shared_ptr<const Detail> detail_;
};

template <class T> class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  const T& value() const& { status_.value(); return *value_; }
  T&& value() && { status_.value(); return *std::move(value_); }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T* operator->() const { return &*value_; }
  T* operator->() { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace baracuda

// Returns the status of `expr` from the enclosing function when it is an error.
#define BARACUDA_TRY(expr)                               \
  do {                                                   \
    if (::baracuda::Status baracuda_status_ = (expr); !baracuda_status_.ok()) return baracuda_status_; \
  } while (0)
// Declares `name` as the value of a Result, or returns its status.
#define BARACUDA_TRY_ASSIGN(name, expr)                 \
  auto name##_result_ = (expr);                          \
  if (!name##_result_.ok()) return name##_result_.status(); \
  auto& name = *name##_result_
