/* score.c - many short queries in shared passes: verification of proposals and evaluation. Their pages go back when they are answered. */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

/* What all queries share: results of targets, and filters in ascending order. */
typedef struct scoreboard {
  cyb_ranks *ranks;    /* [batch] */
  float *logit;        /* [targets] */
  atomic_uint *counts; /* [2][targets] better, equal */
  uint32_t *left_out;  /* [filter] */
  uint32_t targets;
  int wants_ranks;
} scoreboard;

static cyb_status check_request(const cyb_engine *engine, const cyb_score_request *q) {
  if (q->queries && (!q->offsets || !q->tokens || !q->policy || !q->context))
    return cyb_fail(CYB_INVALID_ARGUMENT, "queries need contexts, offsets, tokens and a policy");
  if ((q->targets && !q->target_offsets) || (q->filter && !q->filter_offsets))
    return cyb_fail(CYB_INVALID_ARGUMENT, "targets and filters need their offsets");
  cyb_status status = q->queries ? cyb_policy_check(engine, q->policy) : CYB_OK;
  if (status != CYB_OK)
    return status;
  for (uint32_t i = 0; i < q->queries; i++) {
    if (q->offsets[i + 1] < q->offsets[i] || q->offsets[i + 1] - q->offsets[i] <= q->personal)
      return cyb_fail(CYB_INVALID_ARGUMENT, "query %u has no token behind its personal layer", i);
    if (q->context[i] && !cyb_context_find(engine, q->context[i]))
      return CYB_NOT_FOUND;
    uint32_t before = q->context[i] ? engine->contexts[q->context[i] - 1].sequence.count : 0;
    if ((before + 2) * CYB_PAGE_POSITIONS + q->offsets[i + 1] - q->offsets[i] > engine->config.positions)
      return cyb_fail(CYB_INVALID_ARGUMENT, "query %u does not fit in %u positions", i, engine->config.positions);
    for (uint32_t t = q->offsets[i]; t < q->offsets[i + 1]; t++)
      if (q->tokens[t] >= engine->model.vocabulary)
        return cyb_fail(CYB_INVALID_ARGUMENT, "token %u of query %u is outside the vocabulary", q->tokens[t], i);
    for (uint32_t t = q->targets ? q->target_offsets[i] : 0; q->targets && t < q->target_offsets[i + 1]; t++)
      if (q->targets[t] >= engine->model.vocabulary)
        return cyb_fail(CYB_INVALID_ARGUMENT, "target %u of query %u is outside the vocabulary", q->targets[t], i);
    for (uint32_t t = q->filter ? q->filter_offsets[i] : 0; q->filter && t < q->filter_offsets[i + 1]; t++)
      if (q->filter[t] >= engine->model.vocabulary)
        return cyb_fail(CYB_INVALID_ARGUMENT, "filtered id %u of query %u is outside the vocabulary", q->filter[t], i);
  }
  if (q->candidates > engine->model.vocabulary)
    return cyb_fail(CYB_INVALID_ARGUMENT, "%u candidates exceed the vocabulary", q->candidates);
  return CYB_OK;
}

static cyb_status prepare(cyb_engine *engine, const cyb_score_request *q, uint32_t query, cyb_sequence *sequence, cyb_job *job,
                          uint32_t tape) {
  uint32_t begin = q->offsets[query], end = q->offsets[query + 1];
  cyb_status status = CYB_OK;
  sequence->inherit = q->policy->inherit;
  sequence->window = q->policy->window;
  if (q->context[query]) {
    const cyb_sequence *shared = &engine->contexts[q->context[query] - 1].sequence;
    for (uint32_t i = 0; i < shared->count && status == CYB_OK; i++)
      status = cyb_sequence_map(sequence, &engine->chunks, shared->chunks[i]);
    sequence->shared = sequence->count;
  }
  if (status == CYB_OK && q->personal)
    status = cyb_sequence_extend(sequence, &engine->chunks, q->tokens + begin, q->personal, CYB_LAYER_PERSONAL, 1);
  if (status == CYB_OK)
    status = cyb_sequence_extend(sequence, &engine->chunks, q->tokens + begin + q->personal, end - begin - q->personal,
                                 CYB_LAYER_KV, 0);
  if (status != CYB_OK)
    return status;
  memset(job, 0, sizeof *job);
  job->policy = q->policy;
  job->depth_min = q->policy->depth_min;
  job->depth_max = q->policy->depth_max;
  job->owner = CYB_NONE;
  job->row.sequence = sequence;
  job->row.position = cyb_sequence_end(sequence, &engine->chunks) - 1;
  job->row.token = q->tokens[end - 1];
  job->row.tape = tape;
  return CYB_OK;
}

static int compare_ids(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void rank_query(const cyb_score_request *q, uint32_t query, const scoreboard *board, cyb_ranks *ranks) {
  uint32_t begin = q->target_offsets[query];
  memset(ranks, 0, sizeof *ranks);
  ranks->targets = q->targets + begin;
  ranks->n = q->target_offsets[query + 1] - begin;
  ranks->logit = board->logit + begin;
  ranks->better = board->counts + begin;
  ranks->equal = board->counts + board->targets + begin;
  ranks->candidates = board->wants_ranks ? q->candidates : 0;
  if (!q->filter)
    return;
  uint32_t *id = board->left_out + q->filter_offsets[query], n = q->filter_offsets[query + 1] - q->filter_offsets[query];
  memcpy(id, q->filter + q->filter_offsets[query], n * sizeof *id);
  qsort(id, n, sizeof *id, compare_ids);
  ranks->left_out = id;
  for (uint32_t i = 0; i < n; i++)
    if (id[i] < q->candidates && (i == 0 || id[i] != id[i - 1]))
      board->left_out[q->filter_offsets[query] + ranks->left_out_count++] = id[i];
}

static void report(cyb_engine *engine, const cyb_score_request *q, uint32_t query, const cyb_job *job,
                   cyb_score_result *result) {
  uint32_t levels = engine->model.levels;
  if (result->depth)
    result->depth[query] = job->level;
  for (uint32_t k = 0; k < levels; k++) {
    if (result->top_probability)
      result->top_probability[(size_t)query * levels + k] = job->top[k];
    if (result->gain_features)
      memcpy(result->gain_features + ((size_t)query * levels + k) * CYB_GAIN_FEATURES, job->features[k],
             sizeof job->features[k]);
  }
  for (uint32_t i = 0; i < CYB_CANDIDATES; i++) {
    if (result->best)
      result->best[(size_t)query * CYB_CANDIDATES + i] = i < job->best.n ? job->best.id[i] : CYB_NONE;
    if (result->best_probability)
      result->best_probability[(size_t)query * CYB_CANDIDATES + i] =
          i < job->best.n ? cyb_exp(job->best.logit[i] - job->maximum) / job->sum : 0;
  }
  const cyb_ranks *ranks = job->ranks;
  for (uint32_t i = 0; ranks && i < ranks->n; i++) {
    uint32_t t = q->target_offsets[query] + i;
    if (result->target_logprob)
      result->target_logprob[t] = ranks->logit[i] - job->maximum - cyb_log(job->sum);
    if (result->target_rank)
      result->target_rank[t] = 1.0f + (float)atomic_load(&ranks->better[i]) + 0.5f * (float)atomic_load(&ranks->equal[i]);
  }
}

static void count(cyb_engine *engine, const cyb_score_request *q, const cyb_job *job, uint32_t tokens) {
  const cyb_model *model = &engine->model;
  if (q->purpose == 0)
    engine->counters.verify++;
  else
    engine->counters.evaluated++;
  uint32_t end = job->row.position + 1;
  for (uint32_t i = 0; i < tokens; i++)
    engine->counters.always_deepest_multiply_adds += cyb_deepest_multiply_adds(engine, end > i ? end - i : 1);
  engine->counters.always_deepest_multiply_adds += (uint64_t)model->vocabulary * model->width[model->levels - 1];
}

cyb_status cyb_score(cyb_engine *engine, const cyb_score_request *q, cyb_score_result *result) {
  cyb_status status = check_request(engine, q);
  if (status != CYB_OK || q->queries == 0)
    return status;
  uint32_t most = engine->decode_capacity < 128 ? engine->decode_capacity : 128;
  int asks = q->targets && (result->target_logprob || result->target_rank);
  scoreboard board = {.targets = asks ? q->target_offsets[q->queries] : 0, .wants_ranks = result->target_rank != NULL};
  board.ranks = calloc(most, sizeof *board.ranks);
  board.logit = calloc((size_t)board.targets + 1, sizeof *board.logit);
  board.counts = calloc(2 * (size_t)board.targets + 1, sizeof *board.counts);
  board.left_out = calloc((q->filter ? (size_t)q->filter_offsets[q->queries] : 0) + 1, sizeof *board.left_out);
  cyb_sequence *sequences = calloc(most, sizeof *sequences);
  cyb_job *jobs = calloc(most, sizeof *jobs);
  if (!sequences || !jobs || !board.ranks || !board.logit || !board.counts || !board.left_out) {
    status = cyb_fail(CYB_OUT_OF_MEMORY, "no memory for %u queries", most);
    goto out;
  }
  for (uint32_t i = 0; i < most; i++)
    cyb_sequence_init(&sequences[i], engine->next_serial++ & ~CYB_OWNER_OVERLAY);
  uint32_t size = most;
  engine->fills_left = CYB_NONE;
  for (uint32_t first = 0; first < q->queries && status == CYB_OK;) {
    uint32_t n = q->queries - first < size ? q->queries - first : size;
    for (uint32_t r = 0; r < n && status == CYB_OK; r++) {
      status = prepare(engine, q, first + r, &sequences[r], &jobs[r], r);
      if (result->logits)
        jobs[r].logits = result->logits + (size_t)(first + r) * engine->model.vocabulary;
      if (asks) {
        rank_query(q, first + r, &board, &board.ranks[r]);
        jobs[r].ranks = &board.ranks[r];
      }
    }
    uint32_t done = 0;
    if (status == CYB_OK) {
      cyb_run_jobs(engine, jobs, n);
      while (done < n && jobs[done].answered) {
        report(engine, q, first + done, &jobs[done], result);
        count(engine, q, &jobs[done], q->offsets[first + done + 1] - q->offsets[first + done]);
        done++;
      }
      cyb_contexts_seal(engine);
    }
    for (uint32_t r = 0; r < n; r++)
      cyb_sequence_clear(&sequences[r], &engine->chunks);
    if (status == CYB_OK && done == 0 && n == 1)
      status = cyb_fail(CYB_POOL_FULL, "the pool of %u pages has no room for one query", engine->pool.pages);
    size = done == 0 && n > 1 ? n / 2 : size;
    first += done;
  }
out:
  for (uint32_t i = 0; sequences && i < most; i++)
    cyb_sequence_free(&sequences[i], &engine->chunks);
  free(sequences);
  free(jobs);
  free(board.ranks);
  free(board.logit);
  free(board.counts);
  free(board.left_out);
  return status;
}
