/*
** kernels.h - the arithmetic of the runtime, one table a instruction set.
**
** Every entry of every table gives the same bits (tests/native compares each with the scalar reference):
**   - products: f32 fma over K ascending (f16 weights), or per 32-group an exact integer sum, then
**     fma((float)sum, weight_scale * activation_scale, acc), groups ascending (q8 weights, 13-bit activations: |q| <= 4095,
**     so |sum| <= 32*127*4095 < 2^24 and its conversion is exact);
**   - vector reductions use 16 virtual lanes (element i in lane i%16, ascending), folded ((l+8),(l+4),(l+2),(l+1));
**   - exp, log, silu, sin/cos are ours; -ffp-contract=off; fma only where written; subnormals are kept.
** "rows" below are row numbers into the caller's arrays (row r of x starts at x + r*stride), so that a subset of tokens runs
** without a copy.
*/
#ifndef CYB_KERNELS_H
#define CYB_KERNELS_H
#include "cyb.h"

/* Activations of a set of rows in both forms; columns appended block by block, so lower blocks are never quantised twice. */
typedef struct cyb_activations {
  const float *x;                          /* [.][x_stride] used by f16 weights */
  const int16_t *q;                        /* [.][q_stride] used by q8 weights */
  const float *scale;                      /* [.][scale_stride] one per 32 columns */
  size_t x_stride, q_stride, scale_stride; /* elements */
} cyb_activations;

typedef struct cyb_kernels {
  /* out[r][p*16 + i] = W . x[r], for panels [panel_begin, panel_end) and r in rows[0..n); starts from init[r] (same layout as
  ** out, may equal out) or from 0 when init is NULL. K order ascending, so a product continued over column blocks keeps its bits. */
  void (*product)(const cyb_matrix *w, uint32_t panel_begin, uint32_t panel_end, const cyb_activations *x, const uint32_t *rows,
                  uint32_t n, const float *init, float *out, size_t out_stride);
  /* Quantises columns [begin, end) (multiples of 32) of one row: scale = amax/4095, q = round-half-even(x/scale); 0 if amax is 0. */
  void (*quantise)(const float *x, uint32_t begin, uint32_t end, int16_t *q, float *scale);
  /* Sum of squares of x[0..n), n a multiple of 16, 16 virtual lanes. */
  float (*sum_of_squares)(const float *x, uint32_t n);
  /* out[i] = silu(gate[i]*factor) * (up[i]*factor) */
  void (*silu_multiply)(const float *gate, const float *up, float factor, uint32_t n, float *out);
  /* x[i] *= factor; x[i] += y[i] */
  void (*scale)(float *x, float factor, uint32_t n);
  void (*add)(float *x, const float *y, uint32_t n);
  /* Rotates pairs (i, i + head_size/2) of one head by cos/sin[head_size/2]. */
  void (*rotate)(float *head, const float *cosine, const float *sine, uint32_t head_size);
  void (*to_half)(const float *x, uint16_t *h, uint32_t n); /* round to nearest even */
  void (*from_half)(const uint16_t *h, float *x, uint32_t n);
  /* One attention chunk of one head. keys [head_size][16] f16 (transposed), values [16][head_size] f16, mask bit i = position i
  ** counts. Gives m, l and o[head_size] from zero, positions ascending; an empty mask gives m = -INFINITY, l = 0, o = 0. */
  void (*attend_chunk)(const float *q, const uint16_t *keys, const uint16_t *values, uint32_t mask, uint32_t head_size,
                       float *m, float *l, float *o);
  /* Folds chunk (m2, l2, o2) into (m, l, o), the only merge there is. */
  void (*merge)(float *m, float *l, float *o, float m2, float l2, const float *o2, uint32_t head_size);
  /* Statistics of one vocabulary tile of logits x[0..n), n <= 4096: maximum and sum of exp(x - maximum), 0 when there is no entry above
  ** -INFINITY. On the way, maxima[CYB_TILE_MAXIMA]: x[i] counts in number i/128*8 + i%8; -INFINITY where there is no x. */
  void (*tile_softmax)(const float *x, uint32_t n, float *maximum, float *sum, float *maxima);
  /* Bit i%32 of mask[i/32] = x[i] >= bar, n <= 128; other bits of mask[4] are 0. */
  void (*reaching)(const float *x, uint32_t n, float bar, uint32_t *mask);
  /* logits[i] = fma(beta, log_focus[i], accumulator[i] * factor) */
  void (*logits)(const float *accumulator, float factor, float beta, const float *log_focus, uint32_t n, float *logits);
} cyb_kernels;

const cyb_kernels *cyb_kernels_get(int32_t isa); /* NULL when this machine or build has no such table */

/* Scalar mathematics shared by every path (bit-equal to the vector versions). */
float cyb_exp(float x); /* relative error < 2e-7; exp(-INFINITY) = 0 */
float cyb_log(float x);
float cyb_silu(float x);
void cyb_rope_table(float base, uint32_t head_size, uint32_t position, float *cosine, float *sine); /* [head_size/2] each */
uint64_t cyb_random_u64(uint64_t seed, uint64_t serial, uint64_t position);                         /* counter-based */
float cyb_random_unit(uint64_t seed, uint64_t serial, uint64_t position);                           /* [0, 1) */

/* Keeps the best CYB_CANDIDATES of the logits offered so far by (logit descending, id ascending). */
enum { CYB_BEST_ROOM = 224, CYB_TILE_MAXIMA = CYB_VOCAB_TILE / 16 };
/*
** Invariant: key[0..collected) holds the best of what was offered, unordered, and maybe others; nothing below bar can be among them.
** n, logit and id are what cyb_best_sort made of it.
*/
typedef struct cyb_best {
  uint32_t n, collected;
  float bar;
  float logit[CYB_CANDIDATES];
  uint32_t id[CYB_CANDIDATES];
  uint64_t key[CYB_BEST_ROOM];
} cyb_best;
void cyb_best_clear(cyb_best *best);
/* maxima as tile_softmax gives them of the same logits, n <= 4096 */
void cyb_best_offer(cyb_best *best, const cyb_kernels *kernels, const float *logits, uint32_t first_id, uint32_t n,
                    const float *maxima);
void cyb_best_merge(cyb_best *best, const cyb_best *other); /* as if what was offered to other had been offered to best */
void cyb_best_sort(cyb_best *best);

/* ---- worker threads ---- */
typedef struct cyb_threads cyb_threads;
typedef void (*cyb_task)(void *argument, uint32_t worker, uint32_t workers);
cyb_status cyb_threads_create(uint32_t count, int32_t low_priority, cyb_threads **threads); /* count includes the caller */
void cyb_threads_destroy(cyb_threads *threads);
uint32_t cyb_threads_count(const cyb_threads *threads);
/* Runs task(argument, worker, workers) once on every worker, the caller being worker 0; returns when all are done. Spins briefly,
** then sleeps; survives more workers than cores. */
void cyb_threads_run(cyb_threads *threads, cyb_task task, void *argument);

/* error text, set by any module */
cyb_status cyb_fail(cyb_status status, const char *format, ...);
#endif
