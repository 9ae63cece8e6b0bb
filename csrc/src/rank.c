/*
** rank.c - where the targets of a query stand among the candidates, counted tile by tile as the logits pass, so that nobody stores a
** vocabulary of them. A target's own logit is needed before the first tile: its panel of the table is computed by itself, which gives
** the same bits as the tile will.
*/
#include "output.h"
#include <string.h>

void cyb_ranks_begin(const cyb_output_task *t, const cyb_job *job, float *scratch) {
  const cyb_model *model = &t->engine->model;
  const cyb_ranks *ranks = job->ranks;
  cyb_activations input;
  float factor, sums[CYB_PANEL_ROWS];
  cyb_output_load(t, &job, 1, scratch, &input, &factor);
  for (uint32_t i = 0; i < ranks->n; i++) {
    uint32_t id = ranks->targets[i];
    cyb_output_accumulate(t, 1, &input, id / CYB_PANEL_ROWS * CYB_PANEL_ROWS, CYB_PANEL_ROWS, sums, CYB_PANEL_ROWS);
    t->engine->kernels->logits(sums + id % CYB_PANEL_ROWS, factor, model->beta[t->k - 1], model->log_focus + id, 1,
                               &ranks->logit[i]);
    atomic_store_explicit(&ranks->better[i], 0, memory_order_relaxed);
    atomic_store_explicit(&ranks->equal[i], 0, memory_order_relaxed);
  }
}

/* First index of ascending id[0..n) that is at least `least`. */
static uint32_t lower_bound(const uint32_t *id, uint32_t n, uint32_t least) {
  uint32_t begin = 0;
  while (n > 0) {
    uint32_t half = n / 2;
    if (id[begin + half] < least) {
      begin += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return begin;
}

void cyb_ranks_tile(const cyb_ranks *ranks, const float *logits, uint32_t first, uint32_t rows) {
  if (first >= ranks->candidates)
    return;
  if (rows > ranks->candidates - first)
    rows = ranks->candidates - first;
  uint32_t skip_begin = lower_bound(ranks->left_out, ranks->left_out_count, first);
  for (uint32_t i = 0; i < ranks->n; i++) {
    float mine = ranks->logit[i];
    uint32_t better = 0, equal = 0;
    for (uint32_t r = 0; r < rows; r++) {
      better += logits[r] > mine;
      equal += logits[r] == mine;
    }
    if (ranks->targets[i] - first < rows) /* never counts itself */
      equal--;
    for (uint32_t s = skip_begin; s < ranks->left_out_count && ranks->left_out[s] - first < rows; s++) {
      if (ranks->left_out[s] == ranks->targets[i])
        continue;
      better -= logits[ranks->left_out[s] - first] > mine;
      equal -= logits[ranks->left_out[s] - first] == mine;
    }
    atomic_fetch_add_explicit(&ranks->better[i], better, memory_order_relaxed);
    atomic_fetch_add_explicit(&ranks->equal[i], equal, memory_order_relaxed);
  }
}
