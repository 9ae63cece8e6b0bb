/*
** roofline.c - what this machine could do at best: bytes a second from memory, and arithmetic a second from registers, on all workers.
** Peaks use the instructions that the kernels use, so that a fraction of them says how good the kernels are, not which ones there are.
*/
#include "kernels.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

double cyb_seconds(void);

enum { ROUNDS = 5, ITERATIONS = 1 << 20, CHAINS = 10, INTEGER_CHAINS = 6, LEAST_BYTES = 1 << 20 };

/* ITERATIONS times so many operations that do not wait for each other; returns the multiply-adds of one iteration. */
typedef uint32_t work(uint64_t *sink);

typedef struct task {
  const uint8_t *memory; /* [bytes] read once by all workers together */
  size_t bytes;
  work *run;
  atomic_uint operations; /* multiply-adds of one iteration, as run says */
  atomic_ullong sink;     /* so that no compiler drops the work */
} task;

static uint64_t sum_words(const uint8_t *memory, size_t bytes) {
  typedef uint64_t words __attribute__((vector_size(32)));
  words sum[4] = {{0}};
  for (size_t i = 0; i + sizeof sum <= bytes; i += sizeof sum)
    for (int j = 0; j < 4; j++) {
      words next;
      memcpy(&next, memory + i + (size_t)j * sizeof next, sizeof next);
      sum[j] += next;
    }
  sum[0] += sum[1] + sum[2] + sum[3];
  return sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

static void read_memory(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  size_t share = t->bytes / workers / 128 * 128;
  atomic_fetch_add(&t->sink, sum_words(t->memory + worker * share, share));
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static uint32_t fma_avx2(uint64_t *sink) {
  __m256 sum[CHAINS], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (int c = 0; c < CHAINS; c++)
    sum[c] = _mm256_set1_ps((float)c);
  for (int i = 0; i < ITERATIONS; i++) {
#pragma GCC unroll 10
    for (int c = 0; c < CHAINS; c++)
      sum[c] = _mm256_fmadd_ps(sum[c], factor, term);
  }
  for (int c = 0; c < CHAINS; c++)
    *sink += (uint64_t)_mm256_cvtss_f32(sum[c]);
  return 8 * CHAINS;
}

__attribute__((target("avx2,fma"))) static uint32_t madd_avx2(uint64_t *sink) {
  __m256i sum[INTEGER_CHAINS], w[INTEGER_CHAINS];
  for (int c = 0; c < INTEGER_CHAINS; c++) {
    sum[c] = _mm256_setzero_si256();
    w[c] = _mm256_set1_epi16((int16_t)(c + 1));
  }
  for (int i = 0; i < ITERATIONS; i++) {
    __m256i x = _mm256_set1_epi16((int16_t)i);
    __asm__ volatile("" : "+x"(x)); /* not hoisted, not folded */
#pragma GCC unroll 6
    for (int c = 0; c < INTEGER_CHAINS; c++)
      sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(x, w[c]));
  }
  for (int c = 0; c < INTEGER_CHAINS; c++)
    *sink += (uint64_t)_mm256_extract_epi32(sum[c], 0);
  return 16 * INTEGER_CHAINS;
}
#elif defined(__aarch64__)
static uint32_t fma_neon(uint64_t *sink) {
  float32x4_t sum[CHAINS], factor = vdupq_n_f32(0.999f), term = vdupq_n_f32(0.001f);
  for (int c = 0; c < CHAINS; c++)
    sum[c] = vdupq_n_f32((float)c);
  for (int i = 0; i < ITERATIONS; i++) {
#pragma GCC unroll 10
    for (int c = 0; c < CHAINS; c++)
      sum[c] = vfmaq_f32(term, sum[c], factor);
  }
  for (int c = 0; c < CHAINS; c++)
    *sink += (uint64_t)vgetq_lane_f32(sum[c], 0);
  return 4 * CHAINS;
}

static uint32_t madd_neon(uint64_t *sink) {
  int32x4_t sum[INTEGER_CHAINS];
  for (int c = 0; c < INTEGER_CHAINS; c++)
    sum[c] = vdupq_n_s32(c);
  for (int i = 0; i < ITERATIONS; i++) {
    int16x4_t x = vdup_n_s16((int16_t)i);
    __asm__ volatile("" : "+w"(x));
#pragma GCC unroll 6
    for (int c = 0; c < INTEGER_CHAINS; c++)
      sum[c] = vmlal_s16(sum[c], x, x);
  }
  for (int c = 0; c < INTEGER_CHAINS; c++)
    *sink += (uint64_t)vgetq_lane_s32(sum[c], 0);
  return 4 * INTEGER_CHAINS;
}
#endif

#if !defined(__aarch64__)
/* Without vector instructions of our own: what the scalar kernels use. */
static uint32_t fma_scalar(uint64_t *sink) {
  float sum[CHAINS] = {0};
  for (int i = 0; i < ITERATIONS; i++)
    for (int c = 0; c < CHAINS; c++)
      sum[c] = sum[c] * 0.999f + 0.001f;
  for (int c = 0; c < CHAINS; c++)
    *sink += (uint64_t)sum[c];
  return CHAINS;
}

static uint32_t madd_scalar(uint64_t *sink) {
  uint32_t sum[CHAINS] = {0};
  for (int i = 0; i < ITERATIONS; i++) {
    int16_t x = (int16_t)i;
    __asm__ volatile("" : "+r"(x)); /* else the sums are known in advance */
    for (int c = 0; c < CHAINS; c++)
      sum[c] += (uint32_t)(x * (int8_t)(c + 1));
  }
  for (int c = 0; c < CHAINS; c++)
    *sink += sum[c];
  return CHAINS;
}
#endif

/* The work of this machine's kernels. */
static work *float_work(void) {
#if defined(__x86_64__)
  return cyb_isa_supported(CYB_ISA_AVX2) ? fma_avx2 : fma_scalar;
#elif defined(__aarch64__)
  return fma_neon;
#else
  return fma_scalar;
#endif
}

static work *integer_work(void) {
#if defined(__x86_64__)
  return cyb_isa_supported(CYB_ISA_AVX2) ? madd_avx2 : madd_scalar;
#elif defined(__aarch64__)
  return madd_neon;
#else
  return madd_scalar;
#endif
}

static void compute(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  uint64_t sink = 0;
  (void)worker, (void)workers;
  atomic_store(&t->operations, t->run(&sink));
  atomic_fetch_add(&t->sink, sink);
}

static double best_seconds(cyb_threads *threads, cyb_task run, task *t) {
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    double started = cyb_seconds();
    cyb_threads_run(threads, run, t);
    double spent = cyb_seconds() - started;
    best = spent < best ? spent : best;
  }
  return best > 1e-9 ? best : 1e-9;
}

/* Operations a second of all workers, two a multiply-add. */
static double operations_per_second(cyb_threads *threads, work *run, task *t) {
  t->run = run;
  double seconds = best_seconds(threads, compute, t);
  return 2.0 * ITERATIONS * cyb_threads_count(threads) * atomic_load(&t->operations) / seconds;
}

cyb_status cyb_roofline_measure(uint32_t threads, uint64_t bytes, cyb_roofline *roofline) {
  if (bytes < LEAST_BYTES)
    return cyb_fail(CYB_INVALID_ARGUMENT, "at least %d bytes are needed to measure memory", LEAST_BYTES);
  cyb_threads *team = NULL;
  cyb_status status = cyb_threads_create(threads, 0, &team);
  if (status != CYB_OK)
    return status;
  uint8_t *memory = malloc(bytes);
  if (!memory) {
    cyb_threads_destroy(team);
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for a buffer of %llu bytes", (unsigned long long)bytes);
  }
  memset(memory, 1, bytes);
  uint32_t workers = cyb_threads_count(team);
  task t = {.memory = memory, .bytes = bytes};
  roofline->dram_bytes_per_second = (double)(bytes / workers / 128 * 128 * workers) / best_seconds(team, read_memory, &t);
  roofline->f32_flops = operations_per_second(team, float_work(), &t);
  roofline->int8_ops = operations_per_second(team, integer_work(), &t);
  free(memory);
  cyb_threads_destroy(team);
  return CYB_OK;
}
