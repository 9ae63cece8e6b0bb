/* run.c - brings a batch of jobs to their answers: prefill and the first level in one pass, then escalations level by level. */
#include "engine.h"
#include "mutation.h"

/* Frees pages for `job`: agents outside the batch give way first, then what only others share, then the batch's own last waiting jobs.
** 0: nothing left to free. */
static int make_room(cyb_engine *engine, cyb_job **waiting, uint32_t n, const cyb_job *job) {
  if (cyb_preempt_one(engine) || cyb_reclaim(engine))
    return 1;
  for (uint32_t r = n; r-- > 0;) {
    if (waiting[r] == job || waiting[r]->dropped)
      continue;
    cyb_sequence_release_pages(waiting[r]->row.sequence, &engine->chunks);
    waiting[r]->dropped = CYB_JOB_NO_ROOM;
    return 1;
  }
  return 0;
}

/* Brings the jobs waiting[0..n) to `level`, in one pass if rows and pages allow. Jobs for which there is no room, or whose fills take
** more rows than this call may still compute, are dropped; fills that were computed stay. */
static void advance(cyb_engine *engine, cyb_job **waiting, uint32_t n, uint32_t level, int from_start) {
  uint32_t ready = 0;
  for (uint32_t r = 0; r < n; r++) {
    cyb_job *job = waiting[r];
    while (!job->dropped) {
      int status = cyb_gather(engine, job->row.sequence, job->row.position, level, job->depth_min);
      if (status == CYB_GATHER_DONE &&
          cyb_plan_decode(engine, job->row.sequence, job->row.position, level, &job->row.write_from)) {
        job->row.level = (uint8_t)level;
        engine->decode[ready] = job->row;
        if (CYB_MUTATED(CYB_MUTATE_STALE_TAPE) && !from_start && ready > 0)
          engine->decode[ready].tape = engine->decode[ready - 1].tape;
        ready++;
        break;
      }
      if (engine->fill_count || ready) {
        cyb_run_pass(engine, engine->decode, ready, level, from_start); /* this job and those behind it sit the pass out */
        ready = 0;
      }
      if (status == CYB_GATHER_ROWS_FULL) {
        if (engine->fills_left == 0)
          job->dropped = CYB_JOB_LATER;
      } else if (!make_room(engine, waiting + r, n - r, job)) {
        /* everything behind was dropped already: this job waits for the ones before it, or nothing fits at all */
        cyb_sequence_release_pages(job->row.sequence, &engine->chunks);
        job->dropped = CYB_JOB_NO_ROOM;
      }
    }
  }
  if (engine->fill_count || ready)
    cyb_run_pass(engine, engine->decode, ready, level, from_start);
}

static void distribution(cyb_engine *engine, cyb_job **jobs, uint32_t n, uint32_t level) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < n; r++)
    if (!jobs[r]->dropped)
      jobs[count++] = jobs[r];
  cyb_output(engine, jobs, count, level);
  for (uint32_t r = 0; r < count; r++) {
    cyb_job *job = jobs[r];
    job->answered = level >= job->depth_max || cyb_policy_answers(engine, job, level);
    if (!job->answered && job->owner != CYB_NONE)
      cyb_event_put(engine, CYB_EVENT_ESCALATED, job->owner, level, 0);
  }
}

uint32_t cyb_run_jobs(cyb_engine *engine, cyb_job *jobs, uint32_t n) {
  cyb_job **set = engine->job_set;
  engine->batch = jobs;
  engine->batch_count = n;
  for (uint32_t level = 1; level <= engine->model.levels; level++)
    for (int from_start = 0; from_start <= 1;
         from_start++) { /* jobs that go on from the level below, then jobs that start here */
      uint32_t count = 0;
      for (uint32_t r = 0; r < n; r++) {
        int goes_on = jobs[r].level > 0 && jobs[r].level == level - 1,
            starts = jobs[r].level == 0 && jobs[r].depth_min == level;
        if (!jobs[r].dropped && !jobs[r].answered && (from_start ? starts : goes_on))
          set[count++] = &jobs[r];
      }
      if (!count)
        continue;
      advance(engine, set, count, level, from_start);
      distribution(engine, set, count, level);
    }
  engine->batch_count = 0;
  uint32_t answered = 0;
  for (uint32_t r = 0; r < n; r++)
    answered += jobs[r].answered;
  return answered;
}
