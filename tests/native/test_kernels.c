/* test_kernels.c - every kernel table of this machine gives the bits of the scalar one, on random and extreme inputs. */
#include "check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 80, COLUMNS_MOST = 256, TOKENS = 9 };

static uint8_t *packed_matrix(int32_t type, uint32_t rows, uint32_t columns, uint32_t begin, uint32_t end, const float *values,
                              cyb_matrix *matrix) {
  static float part[ROWS_MOST * COLUMNS_MOST];
  uint32_t width = end - begin;
  for (uint32_t row = 0; row < rows; row++)
    memcpy(part + (size_t)row * width, values + (size_t)row * columns + begin, width * sizeof *part);
  size_t bytes = cyb_matrix_bytes(type, rows, width);
  uint8_t *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!packed || cyb_matrix_pack(type, rows, width, part, packed, bytes) != CYB_OK) {
    printf("a matrix could not be packed\n");
    exit(1);
  }
  *matrix = (cyb_matrix){type, rows, width, packed, bytes};
  return packed;
}

/* Random shapes, panels and rows; then the same columns in two matrices, one going on from the other. */
static void product_case(const cyb_kernels *fast, const cyb_kernels *slow, uint32_t number) {
  static float values[ROWS_MOST * COLUMNS_MOST], x[TOKENS * COLUMNS_MOST], a[TOKENS * ROWS_MOST], b[TOKENS * ROWS_MOST];
  static float scale[TOKENS * COLUMNS_MOST / 32], scale2[COLUMNS_MOST / 32];
  static int16_t q[TOKENS * COLUMNS_MOST], q2[COLUMNS_MOST];
  uint32_t rows[TOKENS], n = 1 + number % TOKENS, columns = 32 * (1 + draw_below(COLUMNS_MOST / 32));
  uint32_t outputs = 1 + draw_below(ROWS_MOST), panels = (outputs + 15) / 16, groups = columns / 32;
  int32_t type = draw_below(2) ? CYB_Q8 : CYB_F16;
  int whole_scale = draw_below(4) == 0; /* largest integers everywhere: the sums must still be exact */
  for (uint32_t i = 0; i < outputs * columns; i++)
    values[i] = whole_scale ? 1.0f : draw_extreme();
  for (uint32_t i = 0; i < TOKENS * columns; i++)
    x[i] = whole_scale ? (draw_below(50) ? 1.0f : -1.0f) : draw_extreme();
  for (uint32_t t = 0; t < TOKENS; t++) {
    uint32_t split = 32 * draw_below(groups);
    rows[t] = t;
    fast->quantise(x + t * columns, 0, split, q + t * columns, scale + t * groups);
    fast->quantise(x + t * columns, split, columns, q + t * columns, scale + t * groups);
    slow->quantise(x + t * columns, 0, columns, q2, scale2);
    expect(!memcmp(q2, q + t * columns, columns * sizeof *q2) && !memcmp(scale2, scale + t * groups, groups * sizeof *scale2),
           "quantise", number);
  }
  for (uint32_t t = TOKENS - 1; t > 0; t--) { /* rows in any order */
    uint32_t other = draw_below(t + 1), row = rows[t];
    rows[t] = rows[other];
    rows[other] = row;
  }
  cyb_activations input = {x, q, scale, columns, columns, groups};
  cyb_matrix w;
  uint8_t *packed = packed_matrix(type, outputs, columns, 0, columns, values, &w);
  memset(a, 0, sizeof a);
  memset(b, 0, sizeof b);
  uint32_t begin = draw_below(panels), end = begin + 1 + draw_below(panels - begin);
  fast->product(&w, begin, end, &input, rows, n, NULL, a, ROWS_MOST);
  slow->product(&w, begin, end, &input, rows, n, NULL, b, ROWS_MOST);
  expect(!memcmp(a, b, sizeof a), "product, and nothing written beside it", number);
  fast->product(&w, 0, panels, &input, rows, n, a, a, ROWS_MOST);
  slow->product(&w, 0, panels, &input, rows, n, b, b, ROWS_MOST);
  expect(!memcmp(a, b, sizeof a), "product continued in place", number);
  if (groups > 1) {
    uint32_t split = 32 * (1 + draw_below(groups - 1));
    cyb_matrix left, right;
    uint8_t *packed_left = packed_matrix(type, outputs, columns, 0, split, values, &left);
    uint8_t *packed_right = packed_matrix(type, outputs, columns, split, columns, values, &right);
    cyb_activations rest = {x + split, q + split, scale + split / 32, columns, columns, groups};
    slow->product(&w, 0, panels, &input, rows, n, NULL, b, ROWS_MOST);
    memset(a, 0, sizeof a);
    fast->product(&left, 0, panels, &input, rows, n, NULL, a, ROWS_MOST);
    static float c[TOKENS * ROWS_MOST];
    memset(c, 0, sizeof c);
    fast->product(&right, 0, panels, &rest, rows, n, a, c, ROWS_MOST);
    for (uint32_t t = 0; t < n; t++)
      expect(!memcmp(c + rows[t] * ROWS_MOST, b + rows[t] * ROWS_MOST, panels * 16 * sizeof *c), "product over column blocks",
             number);
    free(packed_left);
    free(packed_right);
  }
  free(packed);
}

static void attention_case(const cyb_kernels *fast, const cyb_kernels *slow, uint32_t number) {
  enum { HEAD = 128 };
  static uint16_t keys[HEAD * 16], values[16 * HEAD];
  static float q[HEAD], x[HEAD * 16], o1[HEAD], o2[HEAD], sum1[HEAD], sum2[HEAD], cosine[HEAD / 2], sine[HEAD / 2];
  static const uint32_t heads[] = {8, 16, 24, 32, 64, 128};
  uint32_t head = heads[number % 6];
  float m1 = -INFINITY, l1 = 0, m2 = -INFINITY, l2 = 0;
  memset(sum1, 0, sizeof sum1);
  memset(sum2, 0, sizeof sum2);
  for (uint32_t chunk = 0; chunk < 5; chunk++) {
    uint32_t kind = draw_below(4);
    uint32_t mask = kind == 0   ? 0xFFFFu
                    : kind == 1 ? 1u << draw_below(16)
                    : kind == 2 ? draw_below(65536)
                                : (2u << draw_below(16)) - 1;
    if (number % 10 == 0 && chunk == 2)
      mask = 0;
    mask &= 0xFFFFu;
    float strength = draw_below(5) ? 1.0f : 30.0f; /* far apart: most chances vanish */
    for (uint32_t i = 0; i < head * 16; i++)
      x[i] = draw_signed() * strength;
    slow->to_half(x, keys, head * 16);
    for (uint32_t i = 0; i < head * 16; i++)
      x[i] = draw_extreme() * 0.05f; /* stays finite as a half float */
    slow->to_half(x, values, head * 16);
    for (uint32_t i = 0; i < head; i++)
      q[i] = draw_signed();
    float ma, la, mb, lb;
    fast->attend_chunk(q, keys, values, mask, head, &ma, &la, o1);
    slow->attend_chunk(q, keys, values, mask, head, &mb, &lb, o2);
    expect(ma == mb && la == lb && !memcmp(o1, o2, head * sizeof *o1), "attend_chunk", number);
    expect(mask != 0 || (ma == -INFINITY && la == 0 && o1[0] == 0 && o1[head - 1] == 0), "nothing attended to", number);
    fast->merge(&m1, &l1, sum1, ma, la, o1, head);
    slow->merge(&m2, &l2, sum2, mb, lb, o2, head);
    expect(m1 == m2 && l1 == l2 && !memcmp(sum1, sum2, head * sizeof *sum1), "merge", number);
  }
  cyb_rope_table(10000.0f, head, number * 37, cosine, sine);
  fast->rotate(sum1, cosine, sine, head);
  slow->rotate(sum2, cosine, sine, head);
  expect(!memcmp(sum1, sum2, head * sizeof *sum1), "rotate", number);
}

static void vector_case(const cyb_kernels *fast, const cyb_kernels *slow, uint32_t number) {
  enum { N = 4112 };
  static float x[N], y[N], a[N], b[N];
  static uint16_t h[N], g[N];
  for (uint32_t i = 0; i < N; i++) {
    x[i] = draw_extreme() * 8;
    y[i] = draw_extreme();
  }
  float m1, s1, m2, s2, most1[CYB_TILE_MAXIMA], most2[CYB_TILE_MAXIMA];
  uint32_t n = number % 3 ? 4096 - number % 64 : 1 + draw_below(4096);
  fast->tile_softmax(x, n, &m1, &s1, most1);
  slow->tile_softmax(x, n, &m2, &s2, most2);
  expect(m1 == m2 && s1 == s2 && !memcmp(most1, most2, sizeof most1), "tile_softmax", number);
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
  uint32_t some = draw_below(129), mask1[4], mask2[4];
  fast->reaching(x, some, x[5], mask1);
  slow->reaching(x, some, x[5], mask2);
  expect(!memcmp(mask1, mask2, sizeof mask1), "reaching", number);
  fast->reaching(x, 128, x[5], mask1);
  slow->reaching(x, 128, x[5], mask2);
  expect(!memcmp(mask1, mask2, sizeof mask1) && mask1[0] >> 5 & 1, "reaching, a whole group", number);
  fast->logits(x, 0.3f, 1.5f, y, 1001, a);
  slow->logits(x, 0.3f, 1.5f, y, 1001, b);
  expect(!memcmp(a, b, 1001 * sizeof *a), "logits", number);
  fast->scale(a, 0.37f, 96);
  slow->scale(b, 0.37f, 96);
  expect(!memcmp(a, b, 96 * sizeof *a), "scale", number);
  fast->add(a, y, 96);
  slow->add(b, y, 96);
  expect(!memcmp(a, b, 96 * sizeof *a), "add", number);
  for (uint32_t i = 0; i < N; i++)
    if (draw_below(3) == 0)
      x[i] = -INFINITY;
  fast->tile_softmax(x, n, &m1, &s1, most1);
  slow->tile_softmax(x, n, &m2, &s2, most2);
  expect(m1 == m2 && s1 == s2 && !memcmp(most1, most2, sizeof most1), "tile_softmax, impossible ones among them", number);
  for (uint32_t i = 0; i < N; i++)
    x[i] = -INFINITY;
  fast->tile_softmax(x, n, &m1, &s1, most1);
  slow->tile_softmax(x, n, &m2, &s2, most2);
  expect(m1 == -INFINITY && m2 == m1 && s1 == 0 && s2 == 0, "tile_softmax, all impossible", number);
}

/* Every half float, and floats of any bits but those that are no numbers. */
static void half_case(const cyb_kernels *fast, const cyb_kernels *slow) {
  static uint16_t h[65536], g[65536];
  static float a[65536], b[65536];
  for (uint32_t i = 0; i < 65536; i++)
    h[i] = (uint16_t)((i & 0x7C00u) == 0x7C00u ? i & 0xFC00u : i);
  fast->from_half(h, a, 65536);
  slow->from_half(h, b, 65536);
  expect(!memcmp(a, b, sizeof a), "every half float", 0);
  for (uint32_t i = 0; i < 65536; i++) {
    uint32_t bits = (uint32_t)draw();
    if ((bits & 0x7F800000u) == 0x7F800000u)
      bits &= 0xFF800000u;
    if (i % 2) /* near the range of half floats */
      bits = (bits & 0x807FFFFFu) | (100 + draw_below(45)) << 23;
    memcpy(&a[i], &bits, sizeof bits);
  }
  fast->to_half(a, h, 65535);
  slow->to_half(a, g, 65535);
  expect(!memcmp(h, g, 65535 * sizeof *h), "floats to half floats", 0);
}

typedef struct ranked {
  float logit;
  uint32_t id;
} ranked;

static int better_first(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->logit != b->logit)
    return a->logit > b->logit ? -1 : 1;
  return a->id < b->id ? -1 : 1;
}

/* Offered in pieces to several and merged, with many ties: what sorting all of it gives. */
static void best_case(uint32_t number) {
  enum { N = 5000, PARTS = 3 };
  static float x[N];
  static ranked all[N];
  uint32_t n = number % 4 ? 1 + draw_below(N) : 1 + draw_below(100), at = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t kind = number % 5;
    x[i] = kind == 0 ? (float)draw_below(20) - 10 : kind == 1 ? (float)i : kind == 2 ? -(float)i : draw_extreme();
    if (kind == 3 && draw_below(2))
      x[i] = -INFINITY;
    all[i] = (ranked){x[i], i};
  }
  static cyb_best best[PARTS];
  float maximum, sum, maxima[CYB_TILE_MAXIMA];
  for (uint32_t p = 0; p < PARTS; p++)
    cyb_best_clear(&best[p]);
  while (at < n) {
    uint32_t piece = 1 + draw_below(number % 2 ? 700 : CYB_VOCAB_TILE);
    piece = piece < n - at ? piece : n - at;
    cyb_kernels_get(CYB_ISA_REFERENCE)->tile_softmax(x + at, piece, &maximum, &sum, maxima);
    cyb_best_offer(&best[draw_below(PARTS)], cyb_kernels_get(cyb_isa_best()), x + at, at, piece, maxima);
    at += piece;
  }
  for (uint32_t p = 1; p < PARTS; p++)
    cyb_best_merge(&best[0], &best[p]);
  cyb_best_sort(&best[0]);
  qsort(all, n, sizeof *all, better_first);
  expect(best[0].n == (n < CYB_CANDIDATES ? n : CYB_CANDIDATES), "as many as there are", number);
  for (uint32_t i = 0; i < best[0].n && i < n; i++)
    expect(best[0].id[i] == all[i].id && best[0].logit[i] == all[i].logit, "the best in order", number);
}

int main(void) {
  const cyb_kernels *slow = cyb_kernels_get(CYB_ISA_REFERENCE);
  for (int32_t isa = CYB_ISA_REFERENCE; isa <= CYB_ISA_NEON; isa++) {
    if (!cyb_isa_supported(isa))
      continue;
    const cyb_kernels *fast = cyb_kernels_get(isa);
    for (uint32_t number = 0; number < 60; number++) {
      product_case(fast, slow, number);
      attention_case(fast, slow, number);
      vector_case(fast, slow, number);
    }
    half_case(fast, slow);
  }
  for (uint32_t number = 0; number < 60; number++)
    best_case(number);
  expect(cyb_kernels_get(-1) == NULL && cyb_kernels_get(99) == NULL, "unknown instruction set", 0);
  expect(cyb_isa_supported(cyb_isa_best()) == 1, "the best is supported", 0);
  return check_end();
}
