/* step.c - one tick: every running agent gets one token, in batches that share their passes. */
#include "engine.h"
#include "step.h"
#include <string.h>

static int runs(const cyb_slot *slot) {
  return slot->state == CYB_AGENT_RUNNING || slot->state == CYB_AGENT_PREEMPTED;
}

static void open_tick(cyb_engine *engine) {
  engine->tick++;
  engine->tick_open = 1;
  uint32_t running = 0;
  for (uint32_t a = 0; a < engine->config.agents; a++) {
    engine->agents[a].done = 0;
    engine->has_token[a] = 0;
    running += runs(&engine->agents[a]);
  }
  if (running)
    cyb_count_batched_step(engine);
}

static void to_job(cyb_engine *engine, uint32_t a, uint32_t tape, cyb_job *job) {
  cyb_slot *agent = &engine->agents[a];
  const cyb_policy *policy = &engine->policies[agent->group];
  memset(job, 0, offsetof(cyb_job, best));
  cyb_sequence_set_inherit(&agent->sequence, &engine->chunks, policy->inherit, policy->window);
  job->policy = policy;
  cyb_effective_depth(engine, agent, &job->depth_min, &job->depth_max);
  job->owner = a;
  job->row.sequence = &agent->sequence;
  job->row.position = cyb_sequence_end(&agent->sequence, &engine->chunks) - 1;
  job->row.token = agent->tokens[agent->token_count - 1];
  job->row.tape = tape;
  agent->busy = 1;
  if (!agent->admitted)
    cyb_event_put(engine, CYB_EVENT_ADMITTED, a, agent->sequence.count, 0);
  else if (agent->state == CYB_AGENT_PREEMPTED)
    cyb_event_put(engine, CYB_EVENT_RESUMED, a, 0, 0);
  agent->admitted = 1;
  agent->state = CYB_AGENT_RUNNING;
}

static void answer(cyb_engine *engine, cyb_job *job) {
  cyb_slot *agent = &engine->agents[job->owner];
  cyb_counters *counters = &engine->counters;
  float probability;
  float unit = cyb_random_unit(engine->config.seed, agent->serial, (agent->episode << 32) | job->row.position);
  uint32_t token = cyb_sample(job, job->policy->temperature, unit, &probability);
  cyb_token *out = &engine->tokens[job->owner];
  memset(out, 0, sizeof *out);
  out->slot = job->owner;
  out->token = token;
  out->position = job->row.position + 1;
  out->depth = job->level;
  out->probability = probability;
  for (uint32_t k = 0; k < engine->model.levels; k++)
    out->confidence[k] = job->top[k];
  for (uint32_t i = 0; i < 3 && i < job->best.n; i++) {
    out->alternatives[i] = job->best.id[i];
    out->alternative_probability[i] = cyb_exp(job->best.logit[i] - job->maximum) / job->sum;
  }
  counters->generated++;
  counters->by_level[job->level - 1]++;
  cyb_count_generated(engine, &agent->sequence, job->row.position);
  agent->agent.model_depth = job->level;
  agent->generated++;
  agent->by_level[job->level - 1]++;
  agent->generated_episode++;
  agent->last_token = token;
  agent->confidence = job->top[job->level - 1];
  agent->done = 1;
  engine->has_token[job->owner] = 1;
  cyb_status status = cyb_agent_append(engine, agent, token, (uint8_t)job->level);
  int full = cyb_sequence_end(&agent->sequence, &engine->chunks) >= engine->config.positions;
  if (status != CYB_OK || full || (agent->stop_after && agent->generated_episode >= agent->stop_after)) {
    out->finished = 1;
    agent->state = CYB_AGENT_IDLE;
    cyb_event_put(engine, CYB_EVENT_FINISHED, job->owner, agent->generated_episode, 0);
  }
}

static void refuse(cyb_engine *engine, uint32_t a) {
  cyb_slot *agent = &engine->agents[a];
  agent->state = CYB_AGENT_IDLE;
  agent->done = 1;
  engine->counters.refused++;
  cyb_event_put(engine, CYB_EVENT_REFUSED, a, agent->sequence.count, 0);
  cyb_fail(CYB_POOL_FULL, "the pool of %u pages has no room for one agent of %u chunks", engine->pool.pages,
           agent->sequence.count);
}

cyb_status cyb_step(cyb_engine *engine, cyb_step_report *report) {
  double started = cyb_seconds();
  uint64_t preempted = engine->counters.preemptions;
  uint64_t rows_before = engine->rows_run;
  uint32_t rows = 0, refused = 0, produced = 0, limit = engine->decode_capacity;
  memset(report, 0, sizeof *report);
  if (!engine->tick_open)
    open_tick(engine);
  uint32_t bound = engine->config.step_rows;
  int complete = 0;
  engine->fills_left = bound ? bound : CYB_NONE;
  while (!complete && (bound == 0 || rows < bound) && engine->fills_left > 0) {
    uint32_t n = 0, room = bound && bound - rows < limit ? bound - rows : limit;
    complete = 1;
    for (uint32_t a = 0; a < engine->config.agents; a++) {
      if (!runs(&engine->agents[a]) || engine->agents[a].done)
        continue;
      if (n == room) {
        complete = 0;
        break;
      }
      to_job(engine, a, n, &engine->jobs[n]);
      n++;
    }
    if (n == 0)
      break;
    uint32_t answered = cyb_run_jobs(engine, engine->jobs, n), no_room = 0;
    for (uint32_t r = 0; r < n; r++) {
      cyb_slot *agent = &engine->agents[engine->jobs[r].owner];
      agent->busy = 0;
      if (engine->jobs[r].answered) {
        answer(engine, &engine->jobs[r]);
        cyb_sequence_seal(&agent->sequence, &engine->chunks);
      } else {
        complete = 0;
        no_room += engine->jobs[r].dropped == CYB_JOB_NO_ROOM;
      }
    }
    cyb_contexts_seal(engine);
    rows += n;
    produced += answered;
    /* nothing fits: a smaller batch needs fewer pages, down to one agent alone */
    if (answered == 0 && no_room) {
      if (n == 1) {
        refuse(engine, engine->jobs[0].owner);
        refused++;
      }
      limit = n > 1 ? n / 2 : 1;
    }
  }
  engine->counters.steps++;
  uint32_t total = 0;
  for (uint32_t a = 0; a < engine->config.agents; a++)
    total += engine->has_token[a];
  if (complete) {
    engine->tick_open = 0;
    engine->counters.ticks++;
  }
  report->tick_complete = (uint32_t)complete;
  report->tick = engine->tick;
  report->generated = total;
  report->rows = (uint32_t)(engine->rows_run - rows_before);
  report->preempted = (uint32_t)(engine->counters.preemptions - preempted);
  report->seconds = cyb_seconds() - started;
  return refused && produced == 0 && total == 0 ? CYB_POOL_FULL : CYB_OK;
}

cyb_status cyb_tick_tokens(cyb_engine *engine, uint32_t capacity, cyb_token *tokens, uint32_t *n) {
  uint32_t count = 0;
  for (uint32_t a = 0; a < engine->config.agents; a++) {
    if (!engine->has_token[a])
      continue;
    if (count < capacity)
      tokens[count] = engine->tokens[a];
    count++;
  }
  *n = count;
  return count > capacity ? cyb_fail(CYB_INVALID_ARGUMENT, "%u tokens do not fit in %u", count, capacity) : CYB_OK;
}
