/* threads.c - a team of workers that run one task together. They spin a little, then sleep; with more workers than cores they sleep. */
#define _GNU_SOURCE
#include "kernels.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#elif defined(__APPLE__)
#include <pthread/qos.h>
#endif

enum { SPINS = 4000, WORKERS_MAX = 256 };

/*
** Invariant: `round` grows by one for each task; a worker that has finished round r adds one to `finished`; the caller returns when
** finished == count - 1 and sets it to 0 before the next round.
*/
struct cyb_threads {
  uint32_t count;
  int32_t low_priority, spin;
  pthread_t *handles; /* [count - 1] */
  pthread_mutex_t lock;
  pthread_cond_t start, done;
  atomic_uint round, finished;
  atomic_int stop;
  cyb_task task;
  void *argument;
};

typedef struct seat {
  cyb_threads *team;
  uint32_t worker;
} seat;

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void lower_priority(void) {
#ifdef __linux__
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid),
              5); /* a thread's own nice value on Linux; failure costs nothing but comfort */
#elif defined(__APPLE__)
  pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
#endif
}

static void *worker_main(void *argument) {
  seat mine = *(seat *)argument;
  free(argument);
  cyb_threads *team = mine.team;
  if (team->low_priority)
    lower_priority();
  unsigned seen = 0;
  for (;;) {
    for (int i = 0; team->spin && i < SPINS && atomic_load_explicit(&team->round, memory_order_acquire) == seen; i++)
      relax();
    if (atomic_load_explicit(&team->round, memory_order_acquire) == seen) {
      pthread_mutex_lock(&team->lock);
      while (atomic_load(&team->round) == seen)
        pthread_cond_wait(&team->start, &team->lock);
      pthread_mutex_unlock(&team->lock);
    }
    seen++;
    if (atomic_load(&team->stop))
      return NULL;
    team->task(team->argument, mine.worker, team->count);
    if (atomic_fetch_add_explicit(&team->finished, 1, memory_order_acq_rel) + 1 == team->count - 1) {
      pthread_mutex_lock(&team->lock);
      pthread_cond_signal(&team->done);
      pthread_mutex_unlock(&team->lock);
    }
  }
}

static void begin_round(cyb_threads *team) {
  pthread_mutex_lock(&team->lock);
  atomic_fetch_add_explicit(&team->round, 1, memory_order_acq_rel);
  pthread_cond_broadcast(&team->start);
  pthread_mutex_unlock(&team->lock);
}

cyb_status cyb_threads_create(uint32_t count, int32_t low_priority, cyb_threads **threads) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cores < 1)
    cores = 1;
  if (count == 0)
    count = (uint32_t)cores;
  if (count > WORKERS_MAX)
    return cyb_fail(CYB_INVALID_ARGUMENT, "%u threads asked for, at most %d are possible", count, WORKERS_MAX);
  cyb_threads *team = calloc(1, sizeof *team);
  if (!team || !(team->handles = calloc(count, sizeof *team->handles))) {
    free(team);
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for %u threads", count);
  }
  team->count = 1;
  team->low_priority = low_priority;
  team->spin = count <= (uint32_t)cores;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->start, NULL);
  pthread_cond_init(&team->done, NULL);
  team->count = count;
  for (uint32_t w = 1; w < count; w++) {
    seat *place = malloc(sizeof *place);
    int error = ENOMEM;
    if (place) {
      place->team = team;
      place->worker = w;
      error = pthread_create(&team->handles[w - 1], NULL, worker_main, place);
    }
    if (error) {
      free(place);
      team->count = w; /* those that run are stopped and joined */
      cyb_threads_destroy(team);
      return cyb_fail(CYB_OUT_OF_MEMORY, "only %u of %u threads could be started", w, count);
    }
  }
  *threads = team;
  return CYB_OK;
}

void cyb_threads_destroy(cyb_threads *team) {
  if (!team)
    return;
  atomic_store(&team->stop, 1);
  begin_round(team);
  for (uint32_t w = 1; w < team->count; w++)
    pthread_join(team->handles[w - 1], NULL);
  pthread_cond_destroy(&team->done);
  pthread_cond_destroy(&team->start);
  pthread_mutex_destroy(&team->lock);
  free(team->handles);
  free(team);
}

uint32_t cyb_threads_count(const cyb_threads *team) {
  return team->count;
}

void cyb_threads_run(cyb_threads *team, cyb_task task, void *argument) {
  if (team->count == 1) {
    task(argument, 0, 1);
    return;
  }
  team->task = task;
  team->argument = argument;
  atomic_store(&team->finished, 0);
  begin_round(team);
  task(argument, 0, team->count);
  for (int i = 0; team->spin && i < SPINS; i++) {
    if (atomic_load_explicit(&team->finished, memory_order_acquire) == team->count - 1)
      return;
    relax();
  }
  pthread_mutex_lock(&team->lock);
  while (atomic_load_explicit(&team->finished, memory_order_acquire) != team->count - 1)
    pthread_cond_wait(&team->done, &team->lock);
  pthread_mutex_unlock(&team->lock);
}
