/* best.c - the CYB_CANDIDATES best of a distribution by (logit descending, id ascending): a heap with the worst at its root. */
#include "kernels.h"

static int worse(float a, uint32_t a_id, float b, uint32_t b_id) {
  return a < b || (a == b && a_id > b_id);
}

static void swap(cyb_best *best, uint32_t i, uint32_t j) {
  float logit = best->logit[i];
  uint32_t id = best->id[i];
  best->logit[i] = best->logit[j];
  best->id[i] = best->id[j];
  best->logit[j] = logit;
  best->id[j] = id;
}

static void sink(cyb_best *best, uint32_t i, uint32_t n) {
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= n)
      return;
    if (child + 1 < n && worse(best->logit[child + 1], best->id[child + 1], best->logit[child], best->id[child]))
      child++;
    if (!worse(best->logit[child], best->id[child], best->logit[i], best->id[i]))
      return;
    swap(best, i, child);
    i = child;
  }
}

void cyb_best_clear(cyb_best *best) {
  best->n = 0;
}

static void offer(cyb_best *best, float logit, uint32_t id) {
  if (best->n < CYB_CANDIDATES) {
    uint32_t i = best->n++;
    best->logit[i] = logit;
    best->id[i] = id;
    for (; i > 0 && worse(best->logit[i], best->id[i], best->logit[(i - 1) / 2], best->id[(i - 1) / 2]); i = (i - 1) / 2)
      swap(best, i, (i - 1) / 2);
    return;
  }
  if (!worse(best->logit[0], best->id[0], logit, id))
    return;
  best->logit[0] = logit;
  best->id[0] = id;
  sink(best, 0, CYB_CANDIDATES);
}

void cyb_best_offer(cyb_best *best, const float *logits, uint32_t first_id, uint32_t n) {
  uint32_t i = 0;
  for (; i < n && best->n < CYB_CANDIDATES; i++)
    offer(best, logits[i], first_id + i);
  for (; i + 32 <= n; i += 32) { /* most runs of 32 hold nothing that counts */
    float bar = best->logit[0];
    int any = 0;
    for (int j = 0; j < 32; j++)
      any |= logits[i + (uint32_t)j] >= bar;
    if (any)
      for (uint32_t j = 0; j < 32; j++)
        offer(best, logits[i + j], first_id + i + j);
  }
  for (; i < n; i++)
    offer(best, logits[i], first_id + i);
}

void cyb_best_sort(cyb_best *best) {
  for (uint32_t n = best->n; n > 1; n--) { /* heap sort: the worst goes to the end */
    swap(best, 0, n - 1);
    sink(best, 0, n - 1);
  }
}
