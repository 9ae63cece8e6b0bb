/*
** best.c - the CYB_CANDIDATES best of a distribution by (logit descending, id ascending).
**
** Candidates are keys that compare as whole numbers: the logit's bits made monotonic, then the id inverted. They are collected without
** order above a bar and thinned out when there is no room left, which costs a branch a run instead of a heap a candidate.
*/
#include "kernels.h"
#include <math.h>
#include <string.h>

enum { RUN = 32 };
typedef float floats __attribute__((vector_size(16)));
typedef int32_t mask __attribute__((vector_size(16)));

static uint64_t key_of(float logit, uint32_t id) {
  uint32_t bits;
  logit += 0.0f; /* -0 and 0 are equal, so that the id decides */
  memcpy(&bits, &logit, sizeof bits);
  bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (uint64_t)bits << 32 | (uint32_t)~id;
}

static float logit_of(uint64_t key) {
  uint32_t bits = (uint32_t)(key >> 32);
  float logit;
  bits = bits >> 31 ? bits & 0x7FFFFFFFu : ~bits;
  memcpy(&logit, &bits, sizeof logit);
  return logit;
}

/* Brings the `most` largest of key[0..n) to the front, in any order (Hoare's find, 0 < most <= n). */
static void select_largest(uint64_t *key, int32_t n, int32_t most) {
  int32_t low = 0, high = n - 1, at = most - 1;
  while (low < high) {
    uint64_t pivot = key[at];
    int32_t i = low, j = high;
    do {
      while (key[i] > pivot)
        i++;
      while (key[j] < pivot)
        j--;
      if (i <= j) {
        uint64_t other = key[i];
        key[i++] = key[j];
        key[j--] = other;
      }
    } while (i <= j);
    if (j < at)
      low = i;
    if (at < i)
      high = j;
  }
}

static void thin_out(cyb_best *best) {
  if (best->collected <= CYB_CANDIDATES)
    return;
  select_largest(best->key, (int32_t)best->collected, CYB_CANDIDATES);
  best->collected = CYB_CANDIDATES;
  uint64_t least = best->key[0];
  for (uint32_t i = 1; i < CYB_CANDIDATES; i++)
    least = best->key[i] < least ? best->key[i] : least;
  best->bar = logit_of(least);
}

void cyb_best_clear(cyb_best *best) {
  best->n = best->collected = 0;
  best->bar = -INFINITY;
}

static int any_reaches(const float *x, float bar) {
  const floats bars = {bar, bar, bar, bar};
  mask any = {0};
  for (int j = 0; j < RUN; j += 4) {
    floats four;
    memcpy(&four, x + j, sizeof four);
    any |= four >= bars;
  }
  return (any[0] | any[1] | any[2] | any[3]) != 0;
}

void cyb_best_offer(cyb_best *best, const float *logits, uint32_t first_id, uint32_t n) {
  for (uint32_t i = 0; i < n; i += RUN) {
    uint32_t run = n - i < RUN ? n - i : RUN;
    float bar = best->bar;
    if (run == RUN && !any_reaches(logits + i, bar))
      continue;
    if (best->collected + run > CYB_BEST_ROOM) {
      thin_out(best);
      bar = best->bar;
    }
    for (uint32_t j = 0; j < run; j++)
      if (logits[i + j] >= bar)
        best->key[best->collected++] = key_of(logits[i + j], first_id + i + j);
  }
}

void cyb_best_merge(cyb_best *best, const cyb_best *other) {
  for (uint32_t i = 0; i < other->collected; i++) {
    if (best->collected == CYB_BEST_ROOM)
      thin_out(best);
    best->key[best->collected++] = other->key[i];
  }
}

void cyb_best_sort(cyb_best *best) {
  thin_out(best);
  uint64_t *key = best->key;
  for (uint32_t i = 1; i < best->collected; i++) {
    uint64_t mine = key[i];
    uint32_t j = i;
    for (; j > 0 && key[j - 1] < mine; j--)
      key[j] = key[j - 1];
    key[j] = mine;
  }
  best->n = best->collected;
  for (uint32_t i = 0; i < best->n; i++) {
    best->logit[i] = logit_of(key[i]);
    best->id[i] = ~(uint32_t)key[i];
  }
}
