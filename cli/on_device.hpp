#pragma once
// Where a command runs: its option --device, and tensors on both sides.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>
#include "baracuda/core/registry.hpp"

namespace baracuda::cli {

// "--device": cpu (default), cuda, which is cuda:0, or cuda:N. Other words are refused.
CLI::Option* add_device(CLI::App& app, std::string& device);
// unsupported where that device cannot be had: in one line what is missing.
Result<Stream> stream_on(std::string_view device);
// "2 threads", "cuda:0 (sm_90)".
std::string place(const Stream& stream);

// Tensors and their copies on the other side: of a host tensor on the stream's device, of a device tensor on the host. On the CPU
// a tensor is its own copy.
class Copies {
 public:
  explicit Copies(const Stream& stream) : stream_(stream) {}
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  // Memory for a copy, with the tensor's dtype, shape and strides; copied it is by the functions below.
  Result<TensorView> of(const TensorView& v);
  // All of them, and waits.
  Status to_device() const;
  Status to_host() const;

 private:
  struct Pair { void *host, *device; uint64_t bytes; bool host_is_copy; };
  Stream stream_;
  std::vector<Pair> pairs_;
};

// A plan with arguments of host tensors, as it takes them on its stream, and its workspace.
class Call {
 public:
  Call(const Stream& stream, const AnyPlan& plan) : stream_(stream), plan_(plan), scratch_(stream.device), copies_(stream) {}
  // Once; args outlives the call.
  Status take(std::span<const ArgValue> args);
  const Copies& copies() const { return copies_; }
  Status run() const { return plan_.run(stream_, workspace_, args_); }  // queued
  // There, run, and back again.
  Status once() const;

 private:
  Stream stream_;
  const AnyPlan& plan_;
  ScratchArena scratch_;
  Copies copies_;
  Workspace workspace_;
  std::vector<std::vector<TensorView>> views_;
  std::vector<ArgValue> args_;
};

}  // namespace baracuda::cli
