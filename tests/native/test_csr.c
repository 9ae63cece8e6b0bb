/* test_csr.c - the sparse product: against a plain loop, the same bits for any number of threads, and what is refused. */
#include "check.h"
#include <math.h>
#include <string.h>

enum { N = 300, NONZEROS = 4000, WIDTH = 9 };
static uint64_t offsets[N + 1];
static uint32_t columns[NONZEROS];
static float values[NONZEROS], x[N * WIDTH], one[N * WIDTH], many[N * WIDTH];

static cyb_csr random_matrix(uint32_t n) {
  uint64_t at = 0;
  for (uint32_t row = 0; row < n; row++) {
    offsets[row] = at;
    for (uint32_t e = draw_below(3) ? draw_below(13) : 0; e > 0; e--) {
      columns[at] = draw_below(n);
      values[at++] = draw_signed();
    }
  }
  offsets[n] = at;
  return (cyb_csr){n, offsets, columns, values};
}

static void product(uint64_t number) {
  cyb_csr matrix = random_matrix(1 + draw_below(N));
  uint32_t width = 1 + draw_below(WIDTH);
  for (uint32_t i = 0; i < matrix.n * width; i++)
    x[i] = draw_signed();
  memset(one, 0xAA, sizeof one);
  expect(cyb_csr_multiply(&matrix, x, width, one, 1) == CYB_OK, "product", number);
  for (uint32_t row = 0; row < matrix.n; row++)
    for (uint32_t c = 0; c < width; c++) {
      double wanted = 0;
      for (uint64_t e = offsets[row]; e < offsets[row + 1]; e++)
        wanted += (double)values[e] * x[columns[e] * width + c];
      expect(fabs(one[row * width + c] - wanted) < 1e-5, "value", number);
    }
  for (uint32_t threads = 2; threads <= 5; threads++) {
    memset(many, 0x55, sizeof many);
    expect(cyb_csr_multiply(&matrix, x, width, many, threads) == CYB_OK, "product on threads", threads);
    expect(!memcmp(one, many, (size_t)matrix.n * width * sizeof *one), "same bits", threads);
  }
}

int main(void) {
  for (uint64_t number = 0; number < 30; number++)
    product(number);
  cyb_csr matrix = random_matrix(40);
  expect(cyb_csr_multiply(&matrix, x, 0, one, 1) == CYB_INVALID_ARGUMENT, "no column", 0);
  expect(cyb_csr_multiply(NULL, x, 1, one, 1) == CYB_INVALID_ARGUMENT, "no matrix", 0);
  columns[0] = 40;
  expect(offsets[40] > 0 && cyb_csr_multiply(&matrix, x, 1, one, 1) == CYB_INVALID_ARGUMENT, "column out of range", 0);
  columns[0] = 0;
  offsets[7] = offsets[8] + 1;
  expect(cyb_csr_multiply(&matrix, x, 1, one, 1) == CYB_INVALID_ARGUMENT, "offsets descend", 0);
  return check_end();
}
