#pragma once
// One team of threads for the whole process, libraries included: kernels split their work with parallel_for.
//
//   parallel_for(rows, 16, plan_threads, [&](int64_t begin, int64_t end, int worker) { ... });
//
// Every call of f gets exactly one block, [k grain, min((k + 1) grain, count)), whatever the number of threads, so a
// result that depends on blocks still does not depend on threads. Which worker takes a block is not fixed; worker is in
// [0, max_threads) and no two calls with the same worker overlap, so it may index scratch. The caller's thread takes
// part. f must not throw. Nothing is allocated per call.
// A call from inside f runs inline on its worker. Callers on several threads at once are safe: one gets the team, the
// others run inline. After fork() the child starts a team of its own; a child forked inside f must not go on with f.
#include <cstdint>
#include <type_traits>

namespace baracuda {

// The size of the team, the caller included: BARACUDA_NUM_THREADS, else the processors that this process may use.
int threads();
// n <= 0 restores that default. At most kMaxThreads. Takes effect with the next parallel_for.
void set_threads(int n);
inline constexpr int kMaxThreads = 256;
// Called once on every worker thread before its next block, for libraries with a thread count per thread
// (omp_set_num_threads(1)). Null removes it.
void set_worker_init(void (*init)());

namespace host_detail {
using BlockFunction = void (*)(void* f, int64_t begin, int64_t end, int worker);
void run_blocks(int64_t count, int64_t grain, int max_threads, BlockFunction call, void* f);
}  // namespace host_detail

// max_threads <= 0 means threads().
template <class F> void parallel_for(int64_t count, int64_t grain, int max_threads, F&& f) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  if (count <= grain) return (void)f(int64_t(0), count, 0);
  using G = std::remove_reference_t<F>;
  host_detail::run_blocks(
      count, grain, max_threads,
      [](void* g, int64_t begin, int64_t end, int worker) { (*static_cast<G*>(g))(begin, end, worker); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace baracuda
