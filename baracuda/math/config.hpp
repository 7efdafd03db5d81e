#pragma once
// What a unit is compiled for: the host/device mark, the namespace of its instruction set, the width of its vectors.
#if defined(__CUDACC__)
#define BARACUDA_HD __host__ __device__ __forceinline__
#else
#define BARACUDA_HD inline __attribute__((always_inline))
#endif

// Every unit with a -march of its own has a namespace of its own, given by the build, so that the linker can never mix
// code of two instruction sets. Units without one (tests, CUDA) have theirs here.
#ifndef BARACUDA_ISA
#if defined(__CUDACC__)
#define BARACUDA_ISA cuda
#else
#define BARACUDA_ISA baseline
#endif
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && !defined(__CUDACC__)
#define BARACUDA_VECTOR_BYTES 64
#define BARACUDA_VECTOR_OP(name) _mm512_##name
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(__CUDACC__)
#define BARACUDA_VECTOR_BYTES 32
#define BARACUDA_VECTOR_OP(name) _mm256_##name
#else
#define BARACUDA_VECTOR_BYTES 0
#endif
