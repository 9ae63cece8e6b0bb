/* csr.c - sparse products for the spectrum. Rows are independent, each summed in the order of its entries. */
#include "kernels.h"
#include <stdatomic.h>
#include <string.h>

typedef struct task {
  const cyb_csr *matrix;
  const float *x;
  float *y;
  uint32_t width;
  atomic_uint next;
} task;

static void work(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  (void)worker;
  (void)workers;
  const cyb_csr *a = t->matrix;
  size_t width = t->width;
  for (uint32_t begin; (begin = atomic_fetch_add(&t->next, 64)) < a->n;)
    for (uint32_t row = begin; row < a->n && row < begin + 64; row++) {
      float *y = t->y + row * width;
      memset(y, 0, width * sizeof *y);
      for (uint64_t e = a->offsets[row]; e < a->offsets[row + 1]; e++) {
        const float *x = t->x + a->columns[e] * width;
        float value = a->values[e];
        for (size_t c = 0; c < width; c++)
          y[c] += value * x[c];
      }
    }
}

cyb_status cyb_csr_multiply(const cyb_csr *matrix, const float *x, uint32_t width, float *y, uint32_t threads) {
  if (!matrix || !x || !y || width == 0)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a sparse product needs a matrix, x, y and at least one column");
  for (uint32_t row = 0; row < matrix->n; row++)
    if (matrix->offsets[row + 1] < matrix->offsets[row])
      return cyb_fail(CYB_INVALID_ARGUMENT, "offsets of the sparse matrix descend at row %u", row);
  for (uint64_t e = 0; e < matrix->offsets[matrix->n]; e++)
    if (matrix->columns[e] >= matrix->n)
      return cyb_fail(CYB_INVALID_ARGUMENT, "entry %llu names column %u of a matrix of %u", (unsigned long long)e,
                      matrix->columns[e], matrix->n);
  cyb_threads *workers;
  cyb_status status = cyb_threads_create(threads, 0, &workers);
  if (status != CYB_OK)
    return status;
  task t = {.matrix = matrix, .x = x, .y = y, .width = width};
  atomic_init(&t.next, 0);
  cyb_threads_run(workers, work, &t);
  cyb_threads_destroy(workers);
  return CYB_OK;
}
