/* The C functions, from C: a plan from names, its queries, a run, refusals. */
#include "baracuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
#define CHECK(fact)                                                                                     \
  do {                                                                                                  \
    if (!(fact)) {                                                                                      \
      ++failures;                                                                                       \
      printf("%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #fact, baracuda_last_error(0, 0, 0)); \
    }                                                                                                   \
  } while (0)

static DLTensor dense(void* data, uint8_t bits, int32_t ndim, int64_t* shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = ndim;
  t.dtype.code = kDLFloat, t.dtype.bits = bits, t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

int main(void) {
  baracuda_setting fields[] = {{"kind", "reglu"}, {"shape", "2,3"}, {"dtype", "f32"}};
  baracuda_setting bad_field[] = {{"sahpe", "2,3"}};
  baracuda_setting preferences[] = {{"max_workspace", "0"}, {"require_kernel", "gated.cpu.map"}};
  baracuda_plan* plan = NULL;
  baracuda_stream* stream = NULL;
  baracuda_code code = BARACUDA_OK;
  uint64_t bytes = 1, needed = 0, got = 0, capacity = 24, too_little = 20;
  size_t count = 0, i;
  baracuda_argument argument;
  float gate[6] = {-1, 2, 3, 0, 1, -2}, up[6] = {1, 10, 100, 1, 2, 3}, y[6] = {0};
  const float expected[6] = {0, 20, 300, 0, 2, 0};
  int64_t shape[2] = {2, 3};
  DLTensor tg = dense(gate, 32, 2, shape), tu = dense(up, 32, 2, shape), ty = dense(y, 32, 2, shape);
  const DLTensor *pg = &tg, *pu = &tu, *py = &ty;
  baracuda_arg args[3];
  DLDevice cpu = {kDLCPU, 0};

  printf("baracuda %s\n", baracuda_version());
  CHECK(strstr(baracuda_ops_json(), "\"gated\"") != NULL);
  CHECK(baracuda_set_threads(2) == BARACUDA_OK);
  CHECK(baracuda_stream_create(cpu, NULL, &stream) == BARACUDA_OK);

  CHECK(baracuda_plan_create("gated", fields, 3, preferences, 2, stream, &plan) == BARACUDA_OK);
  CHECK(strcmp(baracuda_plan_text(plan, BARACUDA_TEXT_KERNEL), "gated.cpu.map") == 0);
  CHECK(strcmp(baracuda_plan_text(plan, BARACUDA_TEXT_DESCRIPTOR), "kind=reglu dtype=f32 shape=[2, 3] alpha=none limit=none") == 0);
  CHECK(strstr(baracuda_plan_text(plan, BARACUDA_TEXT_SKU), "gated.cpu.map") != NULL);
  CHECK(strstr(baracuda_plan_text(plan, BARACUDA_TEXT_GUARANTEE), "deterministic") != NULL);
  CHECK(strcmp(baracuda_plan_text(plan, BARACUDA_TEXT_WORKSPACE), "") == 0);
  CHECK(baracuda_plan_workspace_size(plan, &bytes) == BARACUDA_OK && bytes == 0);

  CHECK(baracuda_plan_argument_count(plan, &count) == BARACUDA_OK && count == 3);
  CHECK(baracuda_plan_argument(plan, 2, &argument) == BARACUDA_OK);
  CHECK(strcmp(argument.name, "y") == 0 && strcmp(argument.role, "out") == 0 && strcmp(argument.type, "tensor") == 0);
  CHECK(strcmp(argument.presence, "required") == 0 && argument.has_dtype && argument.has_shape && argument.ndim == 2);
  CHECK(argument.shape[0] == 2 && argument.shape[1] == 3 && argument.dtype.code == kDLFloat && argument.dtype.bits == 32);
  CHECK(baracuda_plan_argument(plan, 3, &argument) == BARACUDA_INVALID_PROBLEM);

  memset(args, 0, sizeof args);
  args[0].name = "gate", args[0].tensors = &pg, args[0].count = 1, args[0].capacity = &capacity;
  args[1].name = "up", args[1].tensors = &pu, args[1].count = 1;
  args[2].name = "y", args[2].tensors = &py, args[2].count = 1;
  CHECK(baracuda_plan_can_implement(plan, args, 3) == BARACUDA_OK);
  CHECK(baracuda_plan_run(plan, stream, NULL, 0, args, 3) == BARACUDA_OK);
  for (i = 0; i < 6; ++i) CHECK(y[i] == expected[i]);

  CHECK(baracuda_plan_run(plan, NULL, NULL, 0, args, 2) == BARACUDA_INVALID_PROBLEM);
  CHECK(strstr(baracuda_last_error(&code, NULL, NULL), "gated: y is missing") != NULL && code == BARACUDA_INVALID_PROBLEM);
  args[0].capacity = &too_little;
  CHECK(baracuda_plan_run(plan, NULL, NULL, 0, args, 3) == BARACUDA_BUFFER_TOO_SMALL);
  CHECK(strstr(baracuda_last_error(&code, &needed, &got), "gate[0]") != NULL && needed == 24 && got == 20);
  baracuda_plan_destroy(plan);
  CHECK(baracuda_plan_create("gated", bad_field, 1, NULL, 0, NULL, &plan) == BARACUDA_INVALID_PROBLEM && plan == NULL);
  CHECK(strstr(baracuda_last_error(NULL, NULL, NULL), "no field 'sahpe'") != NULL);
  CHECK(baracuda_plan_create("no such op", NULL, 0, NULL, 0, NULL, &plan) == BARACUDA_INVALID_PROBLEM);
  baracuda_stream_destroy(stream);
  baracuda_plan_destroy(NULL);
  if (failures == 0) puts("passed");
  return failures != 0;
}
