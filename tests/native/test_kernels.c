/* test_kernels.c - every kernel table of this machine gives the bits of the scalar one, on random and extreme inputs. */
#include "kernels.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
static void expect(int holds, const char *what, uint32_t number) {
  if (holds)
    return;
  failures++;
  printf("FAIL %s, case %u\n", what, number);
}

static uint64_t drawn;
static float unit(void) {
  return cyb_random_unit(1, 2, drawn++);
}
static float value(void) {
  float kind = unit(), x = unit() * 2 - 1;
  return kind < 0.02f ? 0.0f : kind < 0.04f ? x * 1e-20f : kind < 0.06f ? x * 1e6f : x;
}

static void product_case(const cyb_kernels *fast, const cyb_kernels *slow, uint32_t number) {
  enum { ROWS = 80, COLUMNS = 96, TOKENS = 9 };
  static float values[ROWS * COLUMNS], x[TOKENS * COLUMNS], a[TOKENS * ROWS], b[TOKENS * ROWS], scale[TOKENS * 3];
  static int16_t q[TOKENS * COLUMNS];
  uint32_t rows[TOKENS], n = 1 + number % TOKENS;
  int32_t type = number % 2 ? CYB_Q8 : CYB_F16;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    values[i] = value() > 1e3f ? 1.0f : value();
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    x[i] = value();
  size_t bytes = cyb_matrix_bytes(type, ROWS, COLUMNS);
  void *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
  expect(cyb_matrix_pack(type, ROWS, COLUMNS, values, packed, bytes) == CYB_OK, "pack", number);
  cyb_matrix w = {type, ROWS, COLUMNS, packed, bytes};
  for (uint32_t t = 0; t < TOKENS; t++) {
    static int16_t q2[COLUMNS];
    static float scale2[3];
    rows[t] = TOKENS - 1 - t;
    fast->quantise(x + t * COLUMNS, 0, COLUMNS, q + t * COLUMNS, scale + t * 3);
    slow->quantise(x + t * COLUMNS, 0, COLUMNS, q2, scale2);
    expect(!memcmp(q2, q + t * COLUMNS, sizeof q2) && !memcmp(scale2, scale + t * 3, sizeof scale2), "quantise", number);
  }
  cyb_activations input = {x, q, scale, COLUMNS, COLUMNS, 3};
  memset(a, 0, sizeof a);
  memset(b, 0, sizeof b);
  fast->product(&w, 0, ROWS / 16, &input, rows, n, NULL, a, ROWS);
  slow->product(&w, 0, ROWS / 16, &input, rows, n, NULL, b, ROWS);
  expect(!memcmp(a, b, sizeof a), "product", number);
  fast->product(&w, 1, 3, &input, rows, n, a, a, ROWS);
  slow->product(&w, 1, 3, &input, rows, n, b, b, ROWS);
  expect(!memcmp(a, b, sizeof a), "product continued", number);
  free(packed);
}

static void vector_case(const cyb_kernels *fast, const cyb_kernels *slow, uint32_t number) {
  enum { N = 4112 };
  static float x[N], y[N], a[N], b[N];
  static uint16_t h[N], g[N];
  for (uint32_t i = 0; i < N; i++) {
    x[i] = value() * 8;
    y[i] = value();
  }
  float m1, s1, m2, s2;
  uint32_t n = 4096 - number % 64;
  fast->tile_softmax(x, n, &m1, &s1);
  slow->tile_softmax(x, n, &m2, &s2);
  expect(m1 == m2 && s1 == s2, "tile_softmax", number);
  expect(fast->sum_of_squares(y, 256) == slow->sum_of_squares(y, 256), "sum_of_squares", number);
  fast->silu_multiply(x, y, 0.7f, 96, a);
  slow->silu_multiply(x, y, 0.7f, 96, b);
  expect(!memcmp(a, b, 96 * sizeof *a), "silu_multiply", number);
  fast->to_half(x, h, 100);
  slow->to_half(x, g, 100);
  expect(!memcmp(h, g, 100 * sizeof *h), "to_half", number);
  fast->from_half(h, a, 100);
  slow->from_half(h, b, 100);
  expect(!memcmp(a, b, 100 * sizeof *a), "from_half", number);
  fast->logits(x, 0.3f, 1.5f, y, 1001, a);
  slow->logits(x, 0.3f, 1.5f, y, 1001, b);
  expect(!memcmp(a, b, 1001 * sizeof *a), "logits", number);
  uint32_t head = number % 2 ? 32 : 16, mask = number % 3 ? (uint32_t)cyb_random_u64(3, 4, number) & 0xFFFFu : 0;
  for (uint32_t i = 0; i < 2 * 32 * 16; i++)
    y[i] = unit() - 0.5f;
  fast->to_half(y, h, 2 * 32 * 16);
  float o1[32], o2[32], l1, l2;
  fast->attend_chunk(x, h, h + 512, mask, head, &m1, &l1, o1);
  slow->attend_chunk(x, h, h + 512, mask, head, &m2, &l2, o2);
  expect(m1 == m2 && l1 == l2 && !memcmp(o1, o2, head * sizeof *o1), "attend_chunk", number);
  float ma = -INFINITY, la = 0, mb = -INFINITY, lb = 0;
  memset(a, 0, 32 * sizeof *a);
  memset(b, 0, 32 * sizeof *b);
  for (int round = 0; round < 3; round++) {
    fast->merge(&ma, &la, a, m1 + (float)round, l1, o1, head);
    slow->merge(&mb, &lb, b, m1 + (float)round, l1, o1, head);
  }
  expect(la == lb && !memcmp(a, b, 32 * sizeof *a), "merge", number);
  cyb_best best;
  cyb_best_clear(&best);
  cyb_best_offer(&best, x, 0, 3000);
  cyb_best_sort(&best);
  expect(best.n == CYB_CANDIDATES, "best count", number);
  for (uint32_t i = 1; i < best.n; i++)
    expect(best.logit[i - 1] > best.logit[i] || (best.logit[i - 1] == best.logit[i] && best.id[i - 1] < best.id[i]),
           "best order", number);
  uint32_t better = 0;
  for (uint32_t i = 0; i < 3000; i++)
    better += x[i] > best.logit[best.n - 1];
  expect(better < CYB_CANDIDATES, "best holds the best", number);
}

int main(void) {
  const cyb_kernels *slow = cyb_kernels_get(CYB_ISA_REFERENCE);
  for (int32_t isa = CYB_ISA_REFERENCE; isa <= CYB_ISA_NEON; isa++) {
    if (!cyb_isa_supported(isa))
      continue;
    for (uint32_t number = 0; number < 60; number++) {
      product_case(cyb_kernels_get(isa), slow, number);
      vector_case(cyb_kernels_get(isa), slow, number);
    }
  }
  for (float x = -80; x < 80; x += 0.37f)
    expect(fabs(cyb_exp(x) / exp((double)x) - 1) < 2e-7, "exp", 0);
  for (float x = 1e-30f; x < 1e30f; x *= 1.7f)
    expect(fabs(cyb_log(x) - log((double)x)) < 2e-7 * fabs(log((double)x)) + 1e-7, "log", 0);
  printf("%d failures\n", failures);
  return failures != 0;
}
