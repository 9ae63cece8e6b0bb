/*
** best.c - the CYB_CANDIDATES best of a distribution by (logit descending, id ascending).
**
** Candidates are keys that compare as whole numbers: the logit's bits made monotonic, then the id inverted. They are collected without
** order above a bar and thinned out when there is no room left, which costs a branch a run instead of a heap a candidate. Maxima that the
** softmax leaves behind set the bar before a tile is looked at, and say which parts of it need no look.
*/
#include "kernels.h"
#include <math.h>
#include <string.h>

enum { GROUP = 128, WORDS = CYB_TILE_MAXIMA / 32 }; /* logits that share eight maxima; words of a bit a maximum */
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

/* Bits of maxima that reach the bar, 8 a group of logits, and how many they are. */
static uint32_t reaching_maxima(const cyb_kernels *kernels, const float *maxima, float bar, uint32_t *mask) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < WORDS; i += 4) {
    kernels->reaching(maxima + 32 * i, 128, bar, mask + i);
    for (uint32_t j = i; j < i + 4; j++)
      count += (uint32_t)__builtin_popcount(mask[j]);
  }
  return count;
}

/* Raises the bar to what the tile sets by itself: as each maximum is another logit, CYB_CANDIDATES logits reach the CYB_CANDIDATES-th
** largest maximum. mask as above, for the bar that results. */
static void raise_bar(cyb_best *best, const cyb_kernels *kernels, const float *maxima, uint32_t *mask) {
  uint32_t count = reaching_maxima(kernels, maxima, best->bar, mask);
  if (count < CYB_CANDIDATES)
    return;
  uint64_t key[CYB_TILE_MAXIMA];
  int32_t n = 0;
  for (uint32_t i = 0; i < WORDS; i++)
    for (uint32_t bits = mask[i]; bits; bits &= bits - 1) {
      uint32_t at = 32 * i + (uint32_t)__builtin_ctz(bits);
      key[n++] = key_of(maxima[at], at);
    }
  select_largest(key, n, CYB_CANDIDATES);
  best->bar = logit_of(key[CYB_CANDIDATES - 1]);
  reaching_maxima(kernels, maxima, best->bar, mask);
}

void cyb_best_offer(cyb_best *best, const cyb_kernels *kernels, const float *logits, uint32_t first_id, uint32_t n,
                    const float *maxima) {
  uint32_t groups[WORDS];
  raise_bar(best, kernels, maxima, groups);
  for (uint32_t begin = 0; begin < n; begin += GROUP) {
    if (!(groups[begin / GROUP / 4] >> begin / GROUP % 4 * 8 & 0xFF))
      continue;
    uint32_t mask[GROUP / 32], count = 0;
    kernels->reaching(logits + begin, n - begin < GROUP ? n - begin : GROUP, best->bar, mask);
    for (uint32_t i = 0; i < GROUP / 32; i++)
      count += (uint32_t)__builtin_popcount(mask[i]);
    if (best->collected + count > CYB_BEST_ROOM)
      thin_out(best);
    for (uint32_t i = 0; i < GROUP / 32; i++)
      for (uint32_t bits = mask[i]; bits; bits &= bits - 1) {
        uint32_t at = begin + i * 32 + (uint32_t)__builtin_ctz(bits);
        best->key[best->collected++] = key_of(logits[at], first_id + at);
      }
  }
}

void cyb_best_merge(cyb_best *best, const cyb_best *other) {
  best->bar = best->bar > other->bar ? best->bar : other->bar;
  for (uint32_t i = 0; i < other->collected; i++) {
    if (logit_of(other->key[i]) < best->bar)
      continue;
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
