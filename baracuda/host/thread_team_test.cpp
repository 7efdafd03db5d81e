#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "baracuda/host/thread_team.hpp"

namespace {
using namespace baracuda;

#if defined(__SANITIZE_THREAD__)
constexpr bool kTsan = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kTsan = true;
#else
constexpr bool kTsan = false;
#endif
#else
constexpr bool kTsan = false;
#endif

struct Team : testing::Test {
  void TearDown() override { set_threads(0), set_worker_init(nullptr); }
};

TEST_F(Team, every_index_once_in_fixed_blocks) {
  for (int n : {1, 2, 3, 8}) {
    set_threads(n);
    EXPECT_EQ(threads(), n);
    for (int64_t count : {0, 1, 2, 7, 64, 1000, 4097})
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(size_t(count) + 1);
        std::atomic<bool> block_ok{true};
        parallel_for(count, grain, n, [&](int64_t begin, int64_t end, int worker) {
          if (begin % grain || end != std::min(count, begin + grain) || worker < 0 || worker >= n) block_ok = false;
          for (int64_t i = begin; i < end; ++i) ++seen[size_t(i)];
        });
        EXPECT_TRUE(block_ok) << count << ' ' << grain;
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen[size_t(i)], 1) << n << ' ' << count << ' ' << grain << ' ' << i;
        EXPECT_EQ(seen.back(), 0);
      }
  }
}

TEST_F(Team, one_block_or_one_thread_stays_on_the_caller) {
  set_threads(4);
  const auto self = std::this_thread::get_id();
  int calls = 0;
  const auto here = [&](int64_t, int64_t, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(worker, 0);
    ++calls;
  };
  parallel_for(10, 10, 0, here);
  parallel_for(10, 1, 1, here);
  parallel_for(0, 1, 0, here);
  parallel_for(-3, 1, 0, here);
  EXPECT_EQ(calls, 11);
}

// Blocks that wait for each other can only end when as many threads run as were asked for, and no worker index is shared.
TEST_F(Team, all_threads_take_part_with_their_own_index) {
  for (int n : {2, 3, 8}) {
    set_threads(n);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::atomic<int> arrived{0};
      std::vector<std::atomic<int>> used(static_cast<size_t>(n));
      parallel_for(n, 1, n, [&](int64_t, int64_t, int worker) {
        ++used[size_t(worker)];
        ++arrived;
        while (arrived < n) std::this_thread::yield();
      });
      for (auto& u : used) ASSERT_EQ(u, 1);
    }
  }
}

TEST_F(Team, max_threads_limits_the_workers) {
  set_threads(8);
  std::atomic<int> highest{0};
  for (int repeat = 0; repeat < 50; ++repeat)
    parallel_for(1000, 1, 3, [&](int64_t, int64_t, int worker) {
      int seen = highest;
      while (worker > seen && !highest.compare_exchange_weak(seen, worker)) {}
    });
  EXPECT_LT(highest, 3);
}

TEST_F(Team, workers_with_the_same_index_never_overlap) {
  set_threads(8);
  std::vector<int> plain(8);  // not atomic: a race is a test failure under TSan
  for (int repeat = 0; repeat < 200; ++repeat)
    parallel_for(64, 1, 8, [&](int64_t, int64_t, int worker) { ++plain[size_t(worker)]; });
  EXPECT_EQ(std::accumulate(plain.begin(), plain.end(), 0), 200 * 64);
}

TEST_F(Team, nested_calls_run_inline_on_their_worker) {
  set_threads(4);
  std::atomic<int64_t> sum{0};
  std::atomic<bool> inline_ok{true};
  parallel_for(16, 1, 0, [&](int64_t outer, int64_t, int) {
    const auto self = std::this_thread::get_id();
    parallel_for(100, 7, 0, [&](int64_t begin, int64_t end, int worker) {
      if (std::this_thread::get_id() != self || worker != 0) inline_ok = false;
      for (int64_t i = begin; i < end; ++i) sum += outer * 100 + i;
    });
  });
  EXPECT_TRUE(inline_ok);
  EXPECT_EQ(sum, 1600 * 1599 / 2);
}

TEST_F(Team, concurrent_callers) {
  set_threads(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int t = 0; t < 6; ++t)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 300; ++repeat) {
        std::vector<int> marks(97);
        parallel_for(97, 5, 0, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) marks[size_t(i)] = 1;
        });
        total += std::accumulate(marks.begin(), marks.end(), 0);
      }
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(total, 6 * 300 * 97);
}

TEST_F(Team, set_threads_while_jobs_run) {
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (int n = 1; !stop; n = n % 6 + 1) set_threads(n);
  });
  for (int repeat = 0; repeat < 2000; ++repeat) {
    std::atomic<int> sum{0};
    parallel_for(50, 1, 6, [&](int64_t i, int64_t, int) { sum += int(i); });
    ASSERT_EQ(sum, 49 * 50 / 2);
  }
  stop = true;
  changer.join();
}

TEST_F(Team, sleeping_workers_wake) {
  set_threads(2);
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived{0};
    parallel_for(2, 1, 2, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

std::atomic<int> init_calls{0}, init_round{0};
thread_local int init_here = 0;  // the round whose hook ran on this thread
TEST_F(Team, worker_init_runs_once_per_worker_before_its_blocks) {
  set_threads(3);
  init_calls = 0;
  const int round = ++init_round;
  set_worker_init([] { ++init_calls, init_here = init_round; });
  std::atomic<bool> ok{true};
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::atomic<int> arrived{0};
    parallel_for(3, 1, 3, [&](int64_t, int64_t, int worker) {
      if ((init_here == round) != (worker != 0)) ok = false;
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
  }
  EXPECT_TRUE(ok);
  EXPECT_EQ(init_calls, 2);
}

TEST_F(Team, a_forked_child_has_a_team_of_its_own) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer allows no threads after fork";
  set_threads(3);
  parallel_for(100, 1, 3, [](int64_t, int64_t, int) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> arrived{0};
    parallel_for(3, 1, 3, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived < 3) std::this_thread::yield();  // hangs, and the alarm kills it, unless three threads exist
    });
    _exit(arrived == 3 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  for (int i = 0; i < 1000 && waitpid(child, &status, WNOHANG) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!WIFEXITED(status)) kill(child, SIGKILL);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  parallel_for(100, 1, 3, [](int64_t, int64_t, int) {});  // the parent's team still works
}

// A process that leaves by exit(), with workers asleep, spinning, or running a job of another thread.
TEST_F(Team, process_exit_is_clean) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer allows no threads after fork";
  const auto exits = [](auto body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      std::exit(7);
    }
    int status = -1;
    for (int i = 0; i < 1000; ++i) {
      if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) && WEXITSTATUS(status) == 7;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
  };
  set_threads(3);
  EXPECT_TRUE(exits([] { parallel_for(100, 1, 3, [](int64_t, int64_t, int) {}); }));
  EXPECT_TRUE(exits([] {
    parallel_for(100, 1, 3, [](int64_t, int64_t, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }));
  EXPECT_TRUE(exits([] {
    static std::atomic<bool> busy{false};
    std::thread([] {
      parallel_for(1000, 1, 3, [](int64_t, int64_t, int) {
        busy = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      });
    }).detach();
    while (!busy) std::this_thread::yield();
  }));
  EXPECT_TRUE(exits([] {
    parallel_for(3, 1, 3, [](int64_t, int64_t, int worker) {
      if (worker == 1) std::exit(7);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
  }));
}

TEST_F(Team, environment_and_default) {
  setenv("BARACUDA_NUM_THREADS", "5", 1);
  set_threads(0);
  EXPECT_EQ(threads(), 5);
  ::testing::internal::CaptureStderr();
  for (const char* nonsense : {"many", "0", "-2", "3x", ""}) {
    setenv("BARACUDA_NUM_THREADS", nonsense, 1);
    set_threads(0);
    EXPECT_GE(threads(), 1) << nonsense;
    EXPECT_LE(threads(), int(std::thread::hardware_concurrency())) << nonsense;
  }
  const std::string told = ::testing::internal::GetCapturedStderr();  // once
  EXPECT_EQ(told.find("baracuda: BARACUDA_NUM_THREADS is 'many', which is not a positive number; "), 0u) << told;
  EXPECT_EQ(told.find('\n'), told.size() - 1) << told;
  unsetenv("BARACUDA_NUM_THREADS");
  set_threads(1000000);
  EXPECT_EQ(threads(), kMaxThreads);
  set_threads(-1);
  EXPECT_GE(threads(), 1);
}

// Two numbers: a job that the caller finishes before the worker looks, and one in which both threads must meet, which
// holds the way to the worker and back.
TEST_F(Team, cost_of_a_job) {
  set_threads(2);
  const auto best_ns = [](auto job) {
    double best = 1e9;
    const auto first = std::chrono::steady_clock::now();
    for (int round = 0; round < 50; ++round) {
      const auto start = std::chrono::steady_clock::now();
      if (start - first > std::chrono::milliseconds(300)) break;
      for (int i = 0; i < 20; ++i) job();
      best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 20);
    }
    return best;
  };
  const double empty = best_ns([] { parallel_for(2, 1, 2, [](int64_t, int64_t, int) {}); });
  const double meeting = best_ns([] {
    std::atomic<int> arrived{0};
    parallel_for(2, 1, 2, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived < 2) {}
    });
  });
  RecordProperty("empty_job_ns", int(empty));
  RecordProperty("meeting_job_ns", int(meeting));
  EXPECT_LT(empty, 10e6);    // at the worst a wake-up per call
  EXPECT_LT(meeting, 1e9);   // a scheduler that is loaded may take its turn for each; hot it is 200 ns
}

}  // namespace
