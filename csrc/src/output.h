/* output.h - what output.c and rank.c share of the product over the vocabulary. */
#ifndef CYB_OUTPUT_H
#define CYB_OUTPUT_H
#include "engine.h"

/* The distribution of jobs[0..n) at level k. */
typedef struct cyb_output_task {
  cyb_engine *engine;
  cyb_job **jobs; /* [n] */
  uint32_t n, k;
  uint32_t tiles, groups; /* one work item a tile and group of 16 jobs, tile by tile */
  atomic_uint next;
} cyb_output_task;

/* Gathers the final activations of n <= 16 jobs in scratch, as rows 0..n of input; factor[n]: tau_k / rms. */
void cyb_output_load(const cyb_output_task *t, const cyb_job *const *jobs, uint32_t n, float *scratch, cyb_activations *input,
                     float *factor);
/* Accumulators of these rows for rows [first, first+rows) of the table, first a multiple of 16, into sums [n][stride]: the chain of sums
** over blocks 1..k. */
void cyb_output_accumulate(const cyb_output_task *t, uint32_t n, const cyb_activations *input, uint32_t first, uint32_t rows,
                           float *sums, size_t stride);
#endif
