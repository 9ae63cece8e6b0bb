/* bench_product.c - multiply-adds a second of the product kernels, one thread: build by hand, not a test.
** cmake -S csrc -B build -DCYB_TESTS=ON && cmake --build build && \
** cc -O3 -ffp-contract=off -Icsrc/include -Icsrc/src csrc/bench/bench_product.c build/libcyb_static.a -lpthread -lm -o bench_product */
#include "kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void) {
  enum { ROWS = 4096, TOKENS = 256 };
  const uint32_t columns[] = {32, 96, 128, 256}, tokens[] = {1, 4, 16, 64, 256};
  for (int type = CYB_F16; type <= CYB_Q8; type++)
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
      uint32_t width = columns[c];
      float *values = malloc((size_t)ROWS * width * sizeof *values), *x = malloc((size_t)TOKENS * width * sizeof *x);
      for (size_t i = 0; i < (size_t)ROWS * width; i++)
        values[i] = cyb_random_unit(1, 2, i) - 0.5f;
      for (size_t i = 0; i < (size_t)TOKENS * width; i++)
        x[i] = cyb_random_unit(3, 4, i) - 0.5f;
      cyb_matrix w = {type, ROWS, width, NULL, cyb_matrix_bytes(type, ROWS, width)};
      void *packed = aligned_alloc(64, (w.bytes + 63) / 64 * 64);
      cyb_matrix_pack(type, ROWS, width, values, packed, w.bytes);
      w.data = packed;
      const cyb_kernels *kernels = cyb_kernels_get(cyb_isa_best());
      int16_t *q = malloc((size_t)TOKENS * width * sizeof *q);
      float *scale = malloc((size_t)TOKENS * width / 32 * sizeof *scale), *out = malloc((size_t)TOKENS * ROWS * sizeof *out);
      uint32_t rows[TOKENS];
      for (uint32_t t = 0; t < TOKENS; t++) {
        rows[t] = t;
        kernels->quantise(x + (size_t)t * width, 0, width, q + (size_t)t * width, scale + (size_t)t * width / 32);
      }
      cyb_activations a = {x, q, scale, width, width, width / 32};
      printf("%s %4u columns:", type == CYB_Q8 ? "q8 " : "f16", width);
      for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++) {
        double best = 1e9;
        for (int round = 0; round < 15; round++) {
          double start = now();
          kernels->product(&w, 0, ROWS / 16, &a, rows, tokens[n], NULL, out, ROWS);
          double spent = now() - start;
          best = spent < best ? spent : best;
        }
        printf("  %3u tokens %6.1f G/s", tokens[n], (double)ROWS * width * tokens[n] / best * 1e-9);
      }
      printf("\n");
      free(values), free(x), free(packed), free(q), free(scale), free(out);
    }
  return 0;
}
