/* run.c - brings a batch of jobs to their answers: prefill and the first level in one pass, then escalations level by level. */
#include "engine.h"
#include "mutation.h"
#include <string.h>

/* Frees pages for `job` by preempting agents outside the batch, then the batch's own last waiting jobs. 0: nothing left to free. */
static int make_room(cyb_engine *engine, cyb_job **waiting, uint32_t n, const cyb_job *job) {
  if (cyb_preempt_one(engine))
    return 1;
  for (uint32_t r = n; r-- > 0;) {
    if (waiting[r] == job || waiting[r]->dropped)
      continue;
    /* pages of a sequence with planned rows must stay until the pass has run: the caller runs it first */
    cyb_sequence_release_pages(waiting[r]->row.sequence, &engine->chunks);
    waiting[r]->dropped = 1;
    return 1;
  }
  return 0;
}

/* Runs one pass that brings all jobs in waiting[0..n) to `level`. Jobs for which the pool has no room are dropped. */
static void advance(cyb_engine *engine, cyb_job **waiting, uint32_t n, uint32_t level, int from_start) {
  for (uint32_t r = 0; r < n; r++) {
    cyb_job *job = waiting[r];
    while (!job->dropped) {
      int status = cyb_gather(engine, job->row.sequence, job->row.position, level, job->depth_min);
      if (status == CYB_GATHER_DONE &&
          cyb_plan_decode(engine, job->row.sequence, job->row.position, level, &job->row.write_from))
        break;
      if (status == CYB_GATHER_ROWS_FULL) {
        cyb_run_pass(engine, NULL, 0, 0, 0); /* the others sit this pass out */
        continue;
      }
      if (engine->fill_count)
        cyb_run_pass(engine, NULL, 0, 0, 0);
      if (!make_room(engine, waiting + r, n - r, job)) {
        /* everything behind was dropped already: this job waits for the ones before it, or nothing fits at all */
        cyb_sequence_release_pages(job->row.sequence, &engine->chunks);
        job->dropped = 1;
      }
    }
  }
  cyb_row decode[n];
  uint32_t count = 0;
  for (uint32_t r = 0; r < n; r++) {
    if (waiting[r]->dropped)
      continue;
    waiting[r]->row.level = (uint8_t)level;
    decode[count] = waiting[r]->row;
    if (CYB_MUTATED(CYB_MUTATE_STALE_TAPE) && !from_start && count > 0)
      decode[count].tape = decode[count - 1].tape;
    count++;
  }
  cyb_run_pass(engine, decode, count, level, from_start);
}

static void distribution(cyb_engine *engine, cyb_job **jobs, uint32_t n, uint32_t level) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < n; r++)
    if (!jobs[r]->dropped)
      jobs[count++] = jobs[r];
  cyb_output(engine, jobs, count, level);
  for (uint32_t r = 0; r < count; r++) {
    cyb_job *job = jobs[r];
    cyb_job_features(engine, job, level);
    job->answered = level >= job->depth_max || cyb_policy_answers(engine, job, level);
  }
}

uint32_t cyb_run_jobs(cyb_engine *engine, cyb_job *jobs, uint32_t n) {
  cyb_job *set[n];
  for (uint32_t level = 1; level <= engine->model.levels; level++) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < n; r++) /* jobs that go on from the level below */
      if (!jobs[r].dropped && !jobs[r].answered && jobs[r].level == level - 1 && jobs[r].level > 0)
        set[count++] = &jobs[r];
    if (count) {
      advance(engine, set, count, level, 0);
      distribution(engine, set, count, level);
      for (uint32_t r = 0; r < count; r++)
        if (!set[r]->dropped && !set[r]->answered)
          cyb_event_put(engine, CYB_EVENT_ESCALATED, set[r]->owner, level, 0);
    }
    count = 0;
    for (uint32_t r = 0; r < n; r++) /* jobs that start here */
      if (!jobs[r].dropped && jobs[r].level == 0 && jobs[r].depth_min == level)
        set[count++] = &jobs[r];
    if (count) {
      advance(engine, set, count, level, 1);
      distribution(engine, set, count, level);
    }
  }
  uint32_t answered = 0;
  for (uint32_t r = 0; r < n; r++)
    answered += jobs[r].answered;
  return answered;
}
