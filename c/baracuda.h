/* baracuda in C: every op of the library through one kind of object, the plan.
 *
 *   baracuda_setting fields[] = {{"dtype", "f32"}, {"shape", "4,512"}};
 *   baracuda_plan* plan;
 *   if (baracuda_plan_create("rms_norm", fields, 2, NULL, 0, NULL, &plan)) puts(baracuda_last_error(NULL, NULL, NULL));
 *   ... baracuda_plan_run(plan, NULL, workspace, bytes, args, 3);
 *
 * Every function that can fail returns a baracuda_code; baracuda_last_error tells this thread's last failure in words. A
 * refused call has changed nothing; null pointers, unknown names and wrong counts are refused. Handles are checked for
 * null only: a destroyed one must not be used. Plans and streams may be used from many threads at once.
 * Names of ops, fields and arguments, roles and values are those of `baracuda ops` and baracuda_ops_json().
 * Tensors are DLPack's: memory stays the caller's and is read and written where it lies. */
#ifndef BARACUDA_H
#define BARACUDA_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BARACUDA_C_API __attribute__((visibility("default")))
#else
#define BARACUDA_C_API
#endif
#ifdef __cplusplus
extern "C" {
#endif

typedef enum baracuda_code {
  BARACUDA_OK = 0,
  BARACUDA_INVALID_PROBLEM = 1,     /* a wrong descriptor or argument: fix the call */
  BARACUDA_UNSUPPORTED = 2,         /* nothing wrong, but no kernel of this build does it */
  BARACUDA_MISALIGNED_OPERAND = 3,  /* a pointer that is not aligned as its element type or the workspace rule demands */
  BARACUDA_WORKSPACE_TOO_SMALL = 4, /* needed and got are bytes */
  BARACUDA_BUFFER_TOO_SMALL = 5,    /* likewise, for a tensor's memory */
  BARACUDA_OUT_OF_MEMORY = 6,
  BARACUDA_IO_ERROR = 7,
  BARACUDA_BACKEND_FAILURE = 8      /* a library or the driver failed */
} baracuda_code;

typedef struct baracuda_plan baracuda_plan;
typedef struct baracuda_stream baracuda_stream;

/* A descriptor's field or a preference, as text: {"shape", "2,3"}, {"axis", "-1"}, {"eps", "1e-6"}. */
typedef struct baracuda_setting { const char *key, *value; } baracuda_setting;

typedef enum baracuda_kind { BARACUDA_TENSORS = 0, BARACUDA_INT = 1, BARACUDA_UINT = 2, BARACUDA_FLOAT = 3 } baracuda_kind;
/* An argument by name. Optional arguments that are absent are left out. */
typedef struct baracuda_arg {
  const char* name;
  int32_t kind; /* a baracuda_kind */
  const DLTensor* const* tensors; /* one, or those of a list */
  size_t count;                   /* of tensors */
  const uint64_t* capacity;       /* null, or the bytes behind each tensor's `data`, which its elements must not leave */
  union { int64_t i; uint64_t u; double f; } number;
} baracuda_arg;

/* What a plan takes for an argument; the texts live as long as the plan. */
typedef struct baracuda_argument {
  const char* name;
  const char* role;     /* in, optional in, out, optional out, inout, optional inout, value */
  const char* type;     /* tensor, tensors, int, float */
  const char* presence; /* required, optional, unused: with this plan's descriptor */
  int has_dtype;        /* 0: the descriptor leaves the dtype open; 1 also where several are taken, and dtype is one of them */
  int has_shape;        /* likewise */
  DLDataType dtype;     /* code 255 for dtypes that DLPack has no code for */
  int32_t ndim;
  int64_t shape[8];
  size_t count;         /* tensors of a list that the plan asks for; 1 where it takes any number */
} baracuda_argument;

typedef enum baracuda_text {
  BARACUDA_TEXT_KERNEL = 0,     /* "rms_norm.cpu.row" */
  BARACUDA_TEXT_SKU = 1,        /* op, dtypes, device, kernel and backend */
  BARACUDA_TEXT_GUARANTEE = 2,  /* accumulator, determinism, batch invariance */
  BARACUDA_TEXT_DESCRIPTOR = 3, /* every field, defaults included */
  BARACUDA_TEXT_WORKSPACE = 4   /* one line "bytes name" per part of the workspace */
} baracuda_text;

/* The version of the library, "0.1.0". */
BARACUDA_C_API const char* baracuda_version(void);
/* This thread's last failure in words, "" before any; valid until the next failure. The pointers may be null: code, and for
 * the two codes about sizes the bytes that were needed and those that were there. */
BARACUDA_C_API const char* baracuda_last_error(baracuda_code* code, uint64_t* needed, uint64_t* got);
/* Every op with its fields, arguments and kernels, as JSON; lives as long as the process. Null when memory ran out. */
BARACUDA_C_API const char* baracuda_ops_json(void);
/* The size of the process's thread team, 1 or more; plans that exist keep the number they were made with. */
BARACUDA_C_API baracuda_code baracuda_set_threads(int32_t threads);

/* device_type kDLCPU or kDLCUDA; cuda_stream a cudaStream_t that stays the caller's. A null stream is the CPU everywhere. */
BARACUDA_C_API baracuda_code baracuda_stream_create(DLDevice device, void* cuda_stream, baracuda_stream** stream);
BARACUDA_C_API void baracuda_stream_destroy(baracuda_stream* stream); /* null is allowed */

/* Selects a kernel. Preferences: prefer_backend, require_backend, require_kernel, allow_nondeterministic,
 * require_batch_invariant, allow_tf32 (true, false), max_workspace (bytes). When every kernel refuses, the error lists the
 * reasons of each. */
BARACUDA_C_API baracuda_code baracuda_plan_create(const char* op, const baracuda_setting* fields, size_t field_count,
                                                  const baracuda_setting* preferences, size_t preference_count,
                                                  const baracuda_stream* stream, baracuda_plan** plan);
BARACUDA_C_API void baracuda_plan_destroy(baracuda_plan* plan); /* null is allowed */
/* Null for a null plan or an unknown text; lives as long as the plan. */
BARACUDA_C_API const char* baracuda_plan_text(const baracuda_plan* plan, baracuda_text which);
BARACUDA_C_API baracuda_code baracuda_plan_workspace_size(const baracuda_plan* plan, uint64_t* bytes);
/* Arguments are numbered from 0 in the op's order. */
BARACUDA_C_API baracuda_code baracuda_plan_argument_count(const baracuda_plan* plan, size_t* count);
BARACUDA_C_API baracuda_code baracuda_plan_argument(const baracuda_plan* plan, size_t index, baracuda_argument* argument);
/* Whether run would accept these arguments; workspace apart. */
BARACUDA_C_API baracuda_code baracuda_plan_can_implement(const baracuda_plan* plan, const baracuda_arg* args, size_t count);
/* workspace: aligned to 256 bytes, at least the workspace size; may be null where that is 0. */
BARACUDA_C_API baracuda_code baracuda_plan_run(const baracuda_plan* plan, const baracuda_stream* stream, void* workspace,
                                               uint64_t workspace_bytes, const baracuda_arg* args, size_t count);

#ifdef __cplusplus
}
#endif
#endif
