// A caller hands a job to the workers it wants by setting their slots, works itself, and when no block is left takes
// back the slots of workers that have not begun: a sleeping worker never delays a short job.
#include "baracuda/host/thread_team.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace baracuda {
namespace {

using host_detail::BlockFunction;

// A worker's slot. Only the caller that holds the team writes kReady, only the worker leaves kReady for kRunning.
enum State : uint32_t { kIdle, kSleeping, kReady, kRunning, kRunningWaited, kStop };

struct alignas(64) Slot {
  std::atomic<uint32_t> state{kIdle};
  pthread_t thread{};
};

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  static_assert(sizeof word == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// About 20 microseconds: the gap between the calls of one training step is shorter, a wake-up costs more than that.
constexpr int kSpins = 1000;

int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}
int default_threads() {
  const int own = std::min(processors(), kMaxThreads);
  const char* text = std::getenv("BARACUDA_NUM_THREADS");
  if (!text || !*text) return own;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (end != text && *end == 0 && n >= 1) return int(std::min<long>(n, kMaxThreads));
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) std::fprintf(stderr, "baracuda: BARACUDA_NUM_THREADS is '%s', which is not a positive number; %d threads are used\n", text, own);
  return own;
}

// Trivially destructible, so that workers and late callers may look at it while the process ends.
struct Team {
  Slot slots[kMaxThreads];  // slot 0 is the caller's and stays unused
  int created = 1;          // workers 1 .. created - 1 exist; guarded by busy
  std::atomic<bool> busy{false}, stopped{false};
  std::atomic<int> wanted{0};  // 0: not decided yet
  std::atomic<int> spins{kSpins};
  std::atomic<void (*)()> init{nullptr};
  std::atomic<unsigned> init_round{0};  // counts set_worker_init
  // The job: written before a slot becomes kReady, read after the slot is taken.
  BlockFunction call = nullptr;
  void* f = nullptr;
  int64_t count = 0, grain = 1, blocks = 0;
  alignas(64) std::atomic<int64_t> next{0};
};
Team team;
thread_local bool inside = false;  // this thread is running a block

void take_blocks(int worker) {
  const int64_t grain = team.grain, count = team.count, blocks = team.blocks;
  for (;;) {
    const int64_t k = team.next.fetch_add(1, std::memory_order_relaxed);
    if (k >= blocks) return;
    team.call(team.f, k * grain, std::min(count, k * grain + grain), worker);
  }
}

void* worker_main(void* argument) {
  const int worker = int(reinterpret_cast<intptr_t>(argument));
  std::atomic<uint32_t>& state = team.slots[worker].state;
  unsigned initialised = 0;
  inside = true;
  for (;;) {
    uint32_t now = state.load(std::memory_order_acquire);
    for (int spin = team.spins.load(std::memory_order_relaxed); now == kIdle && spin > 0; --spin) {
      relax();
      now = state.load(std::memory_order_acquire);
    }
    if (now == kIdle) {
      if (state.compare_exchange_strong(now, kSleeping, std::memory_order_relaxed)) now = kSleeping;
    }
    while (now == kSleeping) {
      futex_wait(state, kSleeping);
      now = state.load(std::memory_order_acquire);
    }
    if (now == kStop) return nullptr;
    if (now != kReady || !state.compare_exchange_strong(now, kRunning, std::memory_order_acquire)) continue;
    if (const unsigned round = team.init_round.load(std::memory_order_acquire); round != initialised) {
      initialised = round;
      if (void (*init)() = team.init.load(std::memory_order_acquire)) init();
    }
    take_blocks(worker);
    if (state.exchange(kIdle, std::memory_order_release) == kRunningWaited) futex_wake(state);
  }
}

void signal(Slot& slot, State s) {
  if (slot.state.exchange(s, std::memory_order_acq_rel) == kSleeping) futex_wake(slot.state);
}
// The worker has not begun and will not, or has finished.
void settle(Slot& slot) {
  uint32_t now = kReady;
  if (slot.state.compare_exchange_strong(now, kIdle, std::memory_order_acquire)) return;
  for (int spin = team.spins.load(std::memory_order_relaxed); now == kRunning && spin > 0; --spin) {
    relax();
    now = slot.state.load(std::memory_order_acquire);
  }
  if (now == kRunning && slot.state.compare_exchange_strong(now, kRunningWaited, std::memory_order_acquire))
    now = kRunningWaited;
  while (now == kRunningWaited) {
    futex_wait(slot.state, kRunningWaited);
    now = slot.state.load(std::memory_order_acquire);
  }
}

void in_child() {  // only the forking thread lives on
  for (Slot& slot : team.slots) slot.state.store(kIdle, std::memory_order_relaxed);
  team.created = 1;
  team.busy.store(false, std::memory_order_relaxed);
}

// Workers that exist for a job of n threads, the caller's included; fewer where the system gives no more threads.
int grow(int n) {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
  while (team.created < n) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the application's threads
    Slot& slot = team.slots[team.created];
    const int failed = pthread_create(&slot.thread, nullptr, worker_main, reinterpret_cast<void*>(intptr_t(team.created)));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed) return team.created;
    ++team.created;
  }
  return n;
}

// At the end of the process (or when the library is unloaded) idle workers are ended. Where a job is still running
// somewhere, they are left to the system.
struct Ending {
  ~Ending() {
    team.stopped.store(true);
    if (inside || team.busy.exchange(true)) return;
    for (int i = 1; i < team.created; ++i) signal(team.slots[i], kStop);
    for (int i = 1; i < team.created; ++i) pthread_join(team.slots[i].thread, nullptr);
    team.created = 1;
  }
} ending;

void run_inline(int64_t count, int64_t grain, BlockFunction call, void* f) {
  for (int64_t begin = 0; begin < count; begin += grain) call(f, begin, std::min(count, begin + grain), 0);
}

}  // namespace

int threads() {
  int n = team.wanted.load(std::memory_order_relaxed);
  if (n == 0) {
    set_threads(0);
    n = team.wanted.load(std::memory_order_relaxed);
  }
  return n;
}
void set_threads(int n) {
  n = n <= 0 ? default_threads() : std::min(n, kMaxThreads);
  // Where threads share processors, a spinning one keeps a working one from its processor.
  team.spins.store(n <= processors() ? kSpins : 0, std::memory_order_relaxed);
  team.wanted.store(n, std::memory_order_relaxed);
}
void set_worker_init(void (*init)()) {
  team.init.store(init, std::memory_order_release);
  team.init_round.fetch_add(1, std::memory_order_acq_rel);
}

void host_detail::run_blocks(int64_t count, int64_t grain, int max_threads, BlockFunction call, void* f) {
  const int64_t blocks = (count - 1) / grain + 1;
  int n = max_threads <= 0 ? threads() : std::min(max_threads, threads());
  if (n > blocks) n = int(blocks);
  if (n <= 1 || inside || team.stopped.load(std::memory_order_relaxed) ||
      team.busy.exchange(true, std::memory_order_acquire))
    return run_inline(count, grain, call, f);
  n = grow(n);
  team.call = call, team.f = f, team.count = count, team.grain = grain, team.blocks = blocks;
  team.next.store(0, std::memory_order_relaxed);
  for (int i = 1; i < n; ++i) signal(team.slots[i], kReady);
  inside = true;
  take_blocks(0);
  inside = false;
  for (int i = 1; i < n; ++i) settle(team.slots[i]);
  team.busy.store(false, std::memory_order_release);
}

}  // namespace baracuda
