/* test_threads.c - every worker runs every task once, before the call returns: few or many workers, many short tasks. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

typedef struct job {
  uint32_t runs[MOST]; /* [workers], each written by its worker alone */
  atomic_uint next, done;
  uint32_t workers, items, pause;
  unsigned char seen[4096]; /* [items] */
} job;

static void task(void *argument, uint32_t worker, uint32_t workers) {
  job *j = argument;
  if (workers != j->workers || worker >= workers)
    return;
  j->runs[worker]++;
  if (j->pause && worker % 2) {
    struct timespec little = {0, 300000};
    nanosleep(&little, NULL);
  }
  for (uint32_t i; (i = atomic_fetch_add(&j->next, 1)) < j->items;) {
    j->seen[i]++;
    atomic_fetch_add(&j->done, 1);
  }
}

static void team(uint32_t count, int32_t low_priority, uint32_t rounds, uint32_t pause) {
  static job j;
  cyb_threads *threads;
  if (cyb_threads_create(count, low_priority, &threads) != CYB_OK) {
    expect(0, "create", count);
    return;
  }
  memset(&j, 0, sizeof j);
  j.workers = cyb_threads_count(threads);
  j.pause = pause;
  expect(count == 0 ? j.workers >= 1 : j.workers == count, "count", count);
  for (uint32_t round = 1; round <= rounds; round++) {
    j.items = round % 5 ? round % 50 : 4096;
    memset(j.seen, 0, sizeof j.seen);
    atomic_store(&j.next, 0);
    atomic_store(&j.done, 0);
    cyb_threads_run(threads, task, &j);
    expect(atomic_load(&j.done) == j.items, "all items are done", round);
    for (uint32_t i = 0; i < j.items; i++)
      expect(j.seen[i] == 1, "an item is done once", i);
    for (uint32_t w = 0; w < j.workers && w < MOST; w++)
      expect(j.runs[w] == round, "a worker runs once a round", w);
  }
  cyb_threads_destroy(threads);
}

int main(void) {
  static const uint32_t counts[] = {0, 1, 2, 3, 8, 33};
  for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    team(counts[i], 0, 200, 0);
    team(counts[i], 1, 20, 1); /* long enough for all others to fall asleep */
    team(counts[i], 0, 0, 0);  /* workers that never had anything to do */
  }
  cyb_threads *none = NULL;
  expect(cyb_threads_create(100000, 0, &none) == CYB_INVALID_ARGUMENT && none == NULL, "too many are refused", 0);
  cyb_threads_destroy(NULL);
  return check_end();
}
