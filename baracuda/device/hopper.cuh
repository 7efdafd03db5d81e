#pragma once
// Hopper's own instructions (sm_90a), as thin as they are: products of a warpgroup (wgmma), barriers in shared memory (mbarrier), tiles
// by the copy engine (TMA), named barriers, registers from one warpgroup to another. Addresses of shared memory are 32 bits.
//
// A tile of 16-bit elements has its columns in blocks of 64, 128 bytes a row, chunk c of 16 bytes of row r at c ^ (r % 8), each block at a multiple
// of 1024 bytes: what the copy engine's 128-byte swizzle writes and products read.
#include <cuda.h>
#include <cuda_runtime.h>
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace hopper {
#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // declared but never referenced: for other architectures these units' kernels are empty
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// c (+)= a b, 64 rows by 8 per sum: a from shared memory or, in fragments, from registers. kAcross: rows of the tile are what the product
// sums over; else they are rows of a, columns of b.
#define BARACUDA_SUMS4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define BARACUDA_SUMS16(j) BARACUDA_SUMS4(j), BARACUDA_SUMS4(j + 1), BARACUDA_SUMS4(j + 2), BARACUDA_SUMS4(j + 3)
#define BARACUDA_I0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define BARACUDA_I16 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define BARACUDA_I32 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define BARACUDA_I48 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define BARACUDA_I64 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define BARACUDA_I80 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define BARACUDA_I96 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define BARACUDA_I112 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define BARACUDA_WGMMA_OF(type, n, i0, i1, i2, i3, i4, given, ...) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " i2 ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" given "}, " i0 ", " i1 ", p, 1, 1, " i3 ", " i4 "; }" \
               : __VA_ARGS__ : "l"(a), "l"(b), "r"(accumulate), "n"(kAcrossA), "n"(kAcrossB))
#define BARACUDA_WGMMA_BY(type, n, i0, i1, i2, i3, i4, i5, i6, given, ...) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " i5 ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" given "}, {" i0 "," i1 "," i2 "," i3 "}, " i4 ", p, 1, 1, " i6 "; }" \
               : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kAcrossB))
#define BARACUDA_WGMMA(n, i0, i1, i2, i3, i4, i5, i6, given, ...) \
  template <class T, int kAcrossA = 0, int kAcrossB = 0> __device__ __forceinline__ void wgmma(float (&c)[n / 8][4], uint64_t a, uint64_t b, int accumulate) { \
    if constexpr (kIsF16<T>) BARACUDA_WGMMA_OF("f16", n, i0, i1, i2, i3, i4, given, __VA_ARGS__); \
    else BARACUDA_WGMMA_OF("bf16", n, i0, i1, i2, i3, i4, given, __VA_ARGS__); \
  } \
  template <class T, int kAcrossB = 1> __device__ __forceinline__ void wgmma(float (&c)[n / 8][4], const uint32_t (&a)[4], uint64_t b, int accumulate) { \
    if constexpr (kIsF16<T>) BARACUDA_WGMMA_BY("f16", n, i0, i1, i2, i3, i4, i5, i6, given, __VA_ARGS__); \
    else BARACUDA_WGMMA_BY("bf16", n, i0, i1, i2, i3, i4, i5, i6, given, __VA_ARGS__); \
  }
BARACUDA_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38", BARACUDA_I0 "," BARACUDA_I16, BARACUDA_SUMS16(0), BARACUDA_SUMS16(4))
BARACUDA_WGMMA(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46", BARACUDA_I0 "," BARACUDA_I16 "," "%32,%33,%34,%35,%36,%37,%38,%39", BARACUDA_SUMS16(0), BARACUDA_SUMS16(4), BARACUDA_SUMS4(8), BARACUDA_SUMS4(9))
BARACUDA_WGMMA(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54", BARACUDA_I0 "," BARACUDA_I16 "," BARACUDA_I32, BARACUDA_SUMS16(0), BARACUDA_SUMS16(4), BARACUDA_SUMS16(8))
BARACUDA_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70", BARACUDA_I0 "," BARACUDA_I16 "," BARACUDA_I32 "," BARACUDA_I48, BARACUDA_SUMS16(0), BARACUDA_SUMS16(4), BARACUDA_SUMS16(8), BARACUDA_SUMS16(12))
BARACUDA_WGMMA(192, "%96", "%97", "%98", "%99", "%100", "%101", "%102", BARACUDA_I0 "," BARACUDA_I16 "," BARACUDA_I32 "," BARACUDA_I48 "," BARACUDA_I64 "," BARACUDA_I80, BARACUDA_SUMS16(0), BARACUDA_SUMS16(4), BARACUDA_SUMS16(8), BARACUDA_SUMS16(12), BARACUDA_SUMS16(16), BARACUDA_SUMS16(20))
BARACUDA_WGMMA(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134", BARACUDA_I0 "," BARACUDA_I16 "," BARACUDA_I32 "," BARACUDA_I48 "," BARACUDA_I64 "," BARACUDA_I80 "," BARACUDA_I96 "," BARACUDA_I112, BARACUDA_SUMS16(0), BARACUDA_SUMS16(4), BARACUDA_SUMS16(8), BARACUDA_SUMS16(12), BARACUDA_SUMS16(16), BARACUDA_SUMS16(20), BARACUDA_SUMS16(24), BARACUDA_SUMS16(28))
#undef BARACUDA_SUMS4
#undef BARACUDA_SUMS16
#undef BARACUDA_I0
#undef BARACUDA_I16
#undef BARACUDA_I32
#undef BARACUDA_I48
#undef BARACUDA_I64
#undef BARACUDA_I80
#undef BARACUDA_I96
#undef BARACUDA_I112
#undef BARACUDA_WGMMA_OF
#undef BARACUDA_WGMMA_BY
#undef BARACUDA_WGMMA

// A tile as an operand: `blocks` bytes from one block of 64 columns to the next, where rows are what the product sums over.
__device__ __forceinline__ uint64_t operand(uint32_t at, uint32_t blocks = 16) {
  return uint64_t(at >> 4 & 0x3fff) | uint64_t(blocks >> 4) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}
// The operand so many bytes further on.
__device__ __forceinline__ uint64_t further(uint64_t operand, int bytes) { return (operand & 0xffffffff00000000u) | (uint32_t(operand) + uint32_t(bytes) / 16); }
// The compiler may not keep what follows from it across a loop: there are more such numbers than registers.
__device__ __forceinline__ uint32_t anew(uint32_t v) {
  asm volatile("" : "+r"(v));
  return v;
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory"); }
// What was written to shared memory by this thread is what products and the copy engine read.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// The compiler keeps uses of sums on their side of a wait.
template <int n> __device__ __forceinline__ void pin(float (&c)[n][4]) {
#pragma unroll
  for (int j = 0; j < n; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[j][i])::"memory");
}
template <int n> __device__ __forceinline__ void pin(uint32_t (&words)[n][2]) {
#pragma unroll
  for (int j = 0; j < n; ++j) asm volatile("" : "+r"(words[j][0]), "+r"(words[j][1])::"memory");
}

// Barriers in shared memory: a phase ends when `count` threads have arrived and the bytes that they announced have come.
__device__ __forceinline__ void barrier_init(uint32_t at, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory"); }
__device__ __forceinline__ void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }  // before other threads or the copy engine see them
__device__ __forceinline__ void barrier_arrive(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ __forceinline__ void barrier_expect(uint32_t at, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
// Until the phase of this parity is over; of a new barrier the phase before the first counts as over.
__device__ __forceinline__ void barrier_wait(uint32_t at, uint32_t parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(at), "r"(parity) : "memory");
}

// The same, at once.
__device__ __forceinline__ bool barrier_over(uint32_t at, uint32_t parity) {
  int over;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(over) : "r"(at), "r"(parity) : "memory");
  return over != 0;
}

// Named barriers (0 is __syncthreads): `threads` of those that wait and those that only arrive.
__device__ __forceinline__ void named_wait(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// The same, and whether any of them says so.
__device__ __forceinline__ bool named_any(int id, int threads, bool mine) {
  int any;
  asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %3, 0; barrier.cta.red.or.pred q, %1, %2, p; selp.b32 %0, 1, 0, q; }" : "=r"(any) : "r"(id), "r"(threads), "r"(int(mine)) : "memory");
  return any != 0;
}

// Blocks of a cluster: all have come here, and see what the others wrote before; what lies at the same address in block `rank`.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ float2 load_of_block(uint32_t at, int rank) {
  float2 v;
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %2, %3; ld.shared::cluster.v2.f32 {%0, %1}, [there]; }" : "=f"(v.x), "=f"(v.y) : "r"(at), "r"(rank) : "memory");
  return v;
}

template <int n> __device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n)); }
template <int n> __device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n)); }

// The copy engine will read it soon.
__device__ __forceinline__ void fetch_map(const CUtensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
// A box of the tensor at these coordinates to shared memory; its bytes count at the barrier.
__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap& map, uint32_t barrier, int column, int row, int head, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], [%2];"
               ::"r"(to), "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch) : "memory");
}
// A box from shared memory, as it is or added to the f32 numbers there; what lies outside the tensor is left out.
__device__ __forceinline__ void store_box(const CUtensorMap& map, uint32_t from, int column, int row) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4,%4}], [%1];" ::"l"(&map), "r"(from), "r"(column), "r"(row), "r"(0) : "memory");
}
__device__ __forceinline__ void add_box(const CUtensorMap& map, uint32_t from, int column, int row) {
  asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2,%3,%4,%4}], [%1];" ::"l"(&map), "r"(from), "r"(column), "r"(row), "r"(0) : "memory");
}
// The same as load_box for `bytes` bytes in a row, all at multiples of 16.
__device__ __forceinline__ void load_bytes(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// From shared memory, as they are or added to f32 numbers there.
__device__ __forceinline__ void store_bytes(void* to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void add_floats(float* to, uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }  // shared memory is free
__device__ __forceinline__ void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }            // they are in memory
// Between the copy engine's accesses to global memory and a thread's own.
__device__ __forceinline__ void fence_engine() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ __forceinline__ int load_acquire(const int* at) {
  int v;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(int* at, int v) { asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }

#endif

// A tensor, [batch, head, row, column] with strides in elements, whose boxes are `rows` rows of 128 bytes, zeros outside the tensor. False: the copy
// engine cannot read it (a stride or the base is not a multiple of 16 bytes, a stride is negative or too long).
inline bool make_map(CUtensorMap& map, CUtensorMapDataType type, const void* p, const int64_t (&extent)[4], const int64_t (&stride)[4], int rows) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    return cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) == cudaSuccess ? reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found) : nullptr;
  }();
  const int size = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
  cuuint64_t extents[4], strides[3];
  for (int i = 0; i < 4; ++i) {
    if (extent[3 - i] < 1 || extent[3 - i] > INT32_MAX) return false;
    extents[i] = cuuint64_t(extent[3 - i]);
  }
  for (int i = 0; i < 3; ++i) {
    strides[i] = extents[i + 1] == 1 ? 16 : cuuint64_t(size * stride[2 - i]);  // of one row, head or item: any
    if (stride[2 - i] < 0 || strides[i] < 16 || strides[i] % 16 != 0 || strides[i] >= cuuint64_t(1) << 40) return false;
  }
  if (extents[1] == 1) strides[0] = (cuuint64_t(size) * extents[0] + 15) / 16 * 16;
  if (!encode || uintptr_t(p) % 16 != 0) return false;
  const cuuint32_t box[4] = {cuuint32_t(128 / size), cuuint32_t(rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  return encode(&map, type, 4, const_cast<void*>(p), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

inline bool make_map(CUtensorMap& map, bool is_f16, const void* p, const int64_t (&extent)[4], const int64_t (&stride)[4], int rows) {
  return make_map(map, is_f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, p, extent, stride, rows);
}

}  // namespace hopper
}  // namespace baracuda
