/*
** output.c - the distribution over the vocabulary: accumulators of E, logits, softmax statistics by tile and the best candidates.
**
** Tiles of 4,096 rows in fixed order, folded left, so the bits do not depend on how the work is split. Work goes tile by tile over all
** jobs, so that the table is streamed once a pass and its tile serves them from cache. Logits are not stored unless a job asks for
** them. Nor are accumulators: a job that goes one level deeper computes those of the blocks below again, in the same order and so with
** the same bits, since the table's columns are fewer bytes than every job's sums, and the arithmetic costs no more than moving them.
*/
#include "output.h"
#include <math.h>
#include <string.h>

/* Sums of 16 jobs go on from block to block while few panels of them are in the first cache; a row of sums is a little longer than a tile,
** as rows at the same place in every page would push each other out of it. */
enum { ROWS = 16, TILE = CYB_VOCAB_TILE, STRIDE = TILE + 16, PANELS = 8 };

/* The panels of one tile as a matrix of their own; first is a multiple of 16. */
static cyb_matrix tile_of(const cyb_matrix *table, uint32_t first, uint32_t rows) {
  size_t row_bytes = table->type == CYB_F16 ? (size_t)table->columns * 2 : (size_t)(table->columns / CYB_QUANT_GROUP) * 34;
  cyb_matrix tile = *table;
  tile.rows = rows;
  tile.data = (const uint8_t *)table->data + first * row_bytes;
  return tile;
}

void cyb_output_accumulate(const cyb_output_task *t, uint32_t n, const cyb_activations *input, uint32_t first, uint32_t rows,
                           float *sums, size_t stride) {
  const cyb_model *model = &t->engine->model;
  uint32_t panels = (rows + CYB_PANEL_ROWS - 1) / CYB_PANEL_ROWS, index[ROWS];
  for (uint32_t r = 0; r < n; r++)
    index[r] = r;
  for (uint32_t done = 0; done < panels; done += PANELS)
    for (uint32_t k = 1; k <= t->k; k++) {
      uint32_t begin = k > 1 ? model->width[k - 2] : 0, end = panels - done < PANELS ? panels : done + PANELS;
      cyb_matrix part = tile_of(&model->embedding[k - 1], first, rows);
      cyb_activations columns = *input;
      columns.x += begin;
      columns.q += begin;
      columns.scale += begin / CYB_QUANT_GROUP;
      t->engine->kernels->product(&part, done, end, &columns, index, n, k > 1 ? sums : NULL, sums, stride);
    }
}

void cyb_output_load(const cyb_output_task *t, const cyb_job *const *jobs, uint32_t n, float *scratch, cyb_activations *input,
                     float *factor) {
  const cyb_model *model = &t->engine->model;
  const cyb_tape *tape = &t->engine->tape;
  uint32_t width = tape->width, groups = width / CYB_QUANT_GROUP, end = model->width[t->k - 1];
  float *x = scratch, *scale = x + (size_t)n * width;
  int16_t *q = (int16_t *)(void *)(scale + (size_t)n * groups);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t slot = jobs[r]->row.tape;
    memcpy(x + (size_t)r * width, tape->x + (size_t)slot * width, end * sizeof *x);
    memcpy(q + (size_t)r * width, tape->final_q + (size_t)slot * width, end * sizeof *q);
    memcpy(scale + (size_t)r * groups, tape->final_scale + (size_t)slot * groups, end / CYB_QUANT_GROUP * sizeof *scale);
    float mean = tape->squares[(size_t)(2 * model->layers) * tape->slots + slot] / (float)end;
    factor[r] = model->tau[t->k - 1] * (1.0f / sqrtf(mean + model->epsilon));
  }
  *input = (cyb_activations){x, q, scale, width, width, groups};
}

static void do_item(const cyb_output_task *t, uint32_t item, cyb_best *best, float *scratch) {
  cyb_engine *engine = t->engine;
  const cyb_model *model = &engine->model;
  uint32_t first_job = item % t->groups * ROWS, tile = item / t->groups;
  uint32_t n = t->n - first_job < ROWS ? t->n - first_job : ROWS;
  cyb_job **jobs = t->jobs + first_job;
  float *sums = scratch, factor[ROWS], maxima[CYB_TILE_MAXIMA];
  cyb_activations input;
  cyb_output_load(t, (const cyb_job *const *)jobs, n, scratch + (size_t)ROWS * STRIDE, &input, factor);
  uint32_t first = tile * TILE, rows = model->vocabulary - first < TILE ? model->vocabulary - first : TILE;
  cyb_output_accumulate(t, n, &input, first, rows, sums, STRIDE);
  for (uint32_t r = 0; r < n; r++) {
    float *logits = sums + (size_t)r * STRIDE;
    engine->kernels->logits(logits, factor[r], model->beta[t->k - 1], model->log_focus + first, rows, logits);
    float *stats = engine->tile_stats + ((size_t)(first_job + r) * t->tiles + tile) * 2;
    engine->kernels->tile_softmax(logits, rows, &stats[0], &stats[1], maxima);
    cyb_best_offer(&best[first_job + r], engine->kernels, logits, first, rows, maxima);
    if (jobs[r]->ranks)
      cyb_ranks_tile(jobs[r]->ranks, logits, first, rows);
    if (jobs[r]->logits)
      memcpy(jobs[r]->logits + first, logits, rows * sizeof *logits);
  }
}

/* Before any tile: what targets have to be compared with. */
static void begin(void *argument, uint32_t worker, uint32_t workers) {
  cyb_output_task *t = argument;
  (void)workers;
  for (uint32_t r; (r = atomic_fetch_add(&t->next, 1)) < t->n;)
    if (t->jobs[r]->ranks)
      cyb_ranks_begin(t, t->jobs[r], t->engine->scratch + worker * t->engine->scratch_floats);
}

static void work(void *argument, uint32_t worker, uint32_t workers) {
  cyb_output_task *t = argument;
  (void)workers;
  cyb_best *best = t->engine->partial_best + (size_t)worker * t->engine->decode_capacity;
  for (uint32_t r = 0; r < t->n; r++)
    cyb_best_clear(&best[r]);
  for (uint32_t item; (item = atomic_fetch_add(&t->next, 1)) < t->groups * t->tiles;)
    do_item(t, item, best, t->engine->scratch + worker * t->engine->scratch_floats);
}

/* Tiles into one distribution a job: maximum, sum, the best candidates, and what confidence is judged by. */
static void fold(void *argument, uint32_t worker, uint32_t workers) {
  cyb_output_task *t = argument;
  cyb_engine *engine = t->engine;
  (void)worker;
  for (uint32_t r; (r = atomic_fetch_add(&t->next, 1)) < t->n;) {
    cyb_job *job = t->jobs[r];
    const float *stats = engine->tile_stats + (size_t)r * t->tiles * 2;
    job->maximum = stats[0];
    job->sum = stats[1];
    for (uint32_t tile = 1; tile < t->tiles; tile++) {
      float maximum = job->maximum > stats[2 * tile] ? job->maximum : stats[2 * tile];
      job->sum = job->sum * cyb_exp(job->maximum - maximum) + stats[2 * tile + 1] * cyb_exp(stats[2 * tile] - maximum);
      job->maximum = maximum;
    }
    cyb_best_clear(&job->best);
    for (uint32_t part = 0; part < workers; part++)
      cyb_best_merge(&job->best, &engine->partial_best[(size_t)part * engine->decode_capacity + r]);
    cyb_best_sort(&job->best);
    cyb_job_features(job, t->k);
  }
}

void cyb_output(cyb_engine *engine, cyb_job **jobs, uint32_t n, uint32_t k) {
  if (n == 0)
    return;
  const cyb_model *model = &engine->model;
  cyb_output_task t = {.engine = engine, .jobs = jobs, .n = n, .k = k};
  t.tiles = (model->vocabulary + TILE - 1) / TILE;
  t.groups = (n + ROWS - 1) / ROWS;
  double started = cyb_seconds();
  uint32_t targets = 0, stored = 0;
  for (uint32_t r = 0; r < n; r++) {
    targets += jobs[r]->ranks ? jobs[r]->ranks->n : 0;
    stored += jobs[r]->logits != NULL;
  }
  atomic_init(&t.next, 0);
  if (targets)
    cyb_threads_run(engine->threads, begin, &t);
  atomic_store(&t.next, 0);
  cyb_threads_run(engine->threads, work, &t);
  atomic_store(&t.next, 0);
  cyb_threads_run(engine->threads, fold, &t);
  cyb_counters *counters = &engine->counters;
  counters->multiply_adds += ((uint64_t)n * model->vocabulary + (uint64_t)targets * CYB_PANEL_ROWS) * model->width[k - 1];
  for (uint32_t j = 1; j <= k; j++) {
    uint32_t columns = model->width[j - 1] - (j > 1 ? model->width[j - 2] : 0);
    counters->weight_bytes[j - 1] +=
        engine->table_bytes[j - 1] + targets * cyb_matrix_bytes(model->embedding[j - 1].type, CYB_PANEL_ROWS, columns);
  }
  /* ln focus is streamed once a pass, as the table is; then logits that somebody wants to have, and the final activations */
  counters->other_bytes +=
      ((uint64_t)stored + 1) * model->vocabulary * sizeof(float) + n * cyb_input_bytes(engine, k, model->width[k - 1]);
  for (uint32_t r = 0; r < n; r++)
    jobs[r]->level = k;
  counters->seconds_by_level[k - 1] += cyb_seconds() - started;
}
