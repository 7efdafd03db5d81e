#pragma once
// Scratch memory. The caller owns it, aligned to 256 bytes; a plan tells how much it needs and what for. One workspace
// serves one run at a time.
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>
#include "baracuda/core/device.hpp"

namespace baracuda {

inline constexpr uint64_t kWorkspaceAlignment = 256;

struct Workspace {
  void* data = nullptr;
  uint64_t bytes = 0;
  static Workspace none() { return {}; }
};

struct WorkspaceItem { std::string_view name; uint64_t bytes; };

// Carves a workspace by name. A kernel row has one function that takes its pieces from a Carver; it is run on nothing
// to learn the size (and the items), and on the caller's memory to get the pointers, so the two cannot differ.
class Carver {
 public:
  // `threads`: the most workers that a CPU run of this plan will use, for per-worker scratch.
  explicit Carver(int threads, std::vector<WorkspaceItem>* items = nullptr) : threads_(threads), items_(items) {}
  Carver(Workspace w, int threads) : base_(static_cast<char*>(w.data)), threads_(threads) {}

  template <class T> T* take(std::string_view name, int64_t count) {
    return static_cast<T*>(take_bytes(name, count < 0 ? -1 : count, sizeof(T)));
  }
  void* take_bytes(std::string_view name, int64_t count, uint64_t element);
  int threads() const { return threads_; }
  uint64_t size() const { return overflow_ ? UINT64_MAX : used_; }

 private:
  char* base_ = nullptr;
  uint64_t used_ = 0;
  bool overflow_ = false;
  int threads_;
  std::vector<WorkspaceItem>* items_ = nullptr;
};

// Convenience for callers who do not pool: grows to the largest request and hands out the same memory again, so it
// serves one stream. Pointers from an earlier get() die with a larger one. Not thread-safe.
class ScratchArena {
 public:
  explicit ScratchArena(Device device = {}) : device_(device) {}
  ~ScratchArena();
  ScratchArena(const ScratchArena&) = delete;
  ScratchArena& operator=(const ScratchArena&) = delete;
  Result<Workspace> get(uint64_t bytes);

 private:
  Device device_;
  Workspace memory_;
};

// Memory aligned for workspaces and tensors. out_of_memory names the bytes.
Result<void*> allocate(Device device, uint64_t bytes);
void deallocate(Device device, void* data);

}  // namespace baracuda
