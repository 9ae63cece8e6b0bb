/*
** forward.c - block k of a set of rows over all layers, given the tape of the blocks below: the one fundamental operation.
**
** n_k = x[:D_k]/rms; q, k, v of block k; RoPE; attention over the positions that hold block-k KV; output; gated FFN. Activations are
** quantised before the division by rms, so a column is quantised once whatever block reads it.
**
** Work is split in one of two ways, with the same bits. By rows: a worker takes a tile of rows through a whole layer; rows meet only where
** attention needs the K and V that others write, which is one barrier a layer. By panels: where a layer's weights do not fit in a
** worker's cache, each product is split by rows of its matrix, every panel against all rows, so that weights are streamed once a pass.
*/
#include "engine.h"
#include "mutation.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { P = CYB_PAGE_POSITIONS, TILE = 32 };

typedef struct task task;
typedef struct workspace workspace;
/* Rows [begin, begin+n) of the pass through one stage of a layer. */
typedef void (*stage_function)(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n);
struct task {
  cyb_engine *engine;
  const cyb_row *const *rows; /* [n] */
  const uint32_t *slots;      /* [n] of the tape */
  uint32_t n, k, layer;
  stage_function stage; /* by panels: what rows go through now */
  uint32_t first, last; /* by panels: matrices that are multiplied now */
  atomic_uint next;
};

static uint32_t below(const uint32_t *widths, uint32_t k) {
  return k > 1 ? widths[k - 2] : 0;
}
static uint32_t panels(const cyb_matrix *w) {
  return (w->rows + CYB_PANEL_ROWS - 1) / CYB_PANEL_ROWS;
}

static cyb_activations activations(const cyb_tape *tape, const float *f, const int16_t *q, const float *scale, uint32_t layer,
                                   uint32_t width) {
  size_t columns = (size_t)layer * tape->slots * width;
  cyb_activations a = {f ? f + columns : NULL, q + columns, scale + columns / CYB_QUANT_GROUP, width, width,
                       width / CYB_QUANT_GROUP};
  return a;
}

/* What one worker needs while it computes a block, in its part of the engine's scratch. */
struct workspace {
  float *mixed;         /* [max(D, F)] attention output or gated units of one row */
  float *maximum, *sum; /* [D] softmax state, one a head */
  float *part;          /* [head_size] output of one chunk */
  uint16_t *half;       /* [D] */
};

static workspace workspace_of(const cyb_engine *engine, uint32_t worker) {
  const cyb_tape *tape = &engine->tape;
  workspace w;
  w.mixed = engine->scratch + worker * engine->scratch_floats;
  w.maximum = w.mixed + (tape->width > tape->ffn ? tape->width : tape->ffn);
  w.sum = w.maximum + tape->width;
  w.part = w.sum + tape->width;
  w.half = (uint16_t *)(void *)(w.part + engine->model.head_size);
  return w;
}

size_t cyb_forward_scratch(const cyb_engine *engine) {
  const cyb_tape *tape = &engine->tape;
  return (size_t)(tape->width > tape->ffn ? tape->width : tape->ffn) + 3 * (size_t)tape->width + engine->model.head_size;
}

#ifdef CYB_DEBUG
/* KV that is there already must come out the same when lower blocks are computed again. */
static void compare_kv(cyb_engine *engine, const uint16_t *keys, const uint16_t *values, uint32_t offset, const uint16_t *key,
                       const uint16_t *value) {
  uint32_t d1 = engine->model.width[0], hd = engine->model.head_size;
  int differs = 0;
  for (uint32_t c = 0; c < d1; c++)
    differs |= keys[(size_t)c * P + offset] != key[c] || values[((size_t)(c / hd) * P + offset) * hd + c % hd] != value[c];
  atomic_fetch_add(&engine->defects, (unsigned)differs);
}
#endif

/* Writes block-k K (transposed) and V of one row into its pages. */
static void write_kv(cyb_engine *engine, const cyb_row *row, uint32_t layer, uint32_t k, const float *key, const float *value,
                     uint16_t *half) {
  const cyb_model *model = &engine->model;
  const cyb_sequence *sequence = row->sequence;
  uint32_t d1 = model->width[0], hd = model->head_size, i = row->position / P, offset = row->position % P;
  const uint32_t *pages = sequence->inherit != CYB_INHERIT_BACKFILL && k > 1
                              ? sequence->overlay + (size_t)i * engine->chunks.slots
                              : cyb_chunk_pages(&engine->chunks, sequence->chunks[i]);
  for (uint32_t s = engine->slot_end[k - 1]; s < engine->slot_end[k]; s++) {
    uint32_t column = (s - engine->slot_end[k - 1]) * d1;
    uint16_t *keys = cyb_pool_address(&engine->pool, pages[s]) + (size_t)layer * 2 * d1 * P;
    uint16_t *values = keys + (size_t)d1 * P;
    uint16_t *half_value = half + d1;
    engine->kernels->to_half(key + column, half, d1);
    engine->kernels->to_half(value + column, half_value, d1);
#ifdef CYB_DEBUG
    if (k < row->write_from) {
      /* not yet there if another row of this pass writes it; under a window, holes before it may have been filled since */
      int is_private = sequence->inherit != CYB_INHERIT_BACKFILL && k > 1;
      int stored = is_private ? sequence->inherit == CYB_INHERIT_ZEROS
                              : engine->chunks.items[sequence->chunks[i]].filled[k - 1] > offset;
      if (stored)
        compare_kv(engine, keys, values, offset, half, half_value);
      continue;
    }
#endif
    for (uint32_t c = 0; c < d1; c++)
      keys[(size_t)c * P + offset] = half[c];
    for (uint32_t h = 0; h < d1 / hd; h++)
      memcpy(values + ((size_t)h * P + offset) * hd, half_value + h * hd, hd * sizeof *half);
  }
}

/* Attention of block k of one row into out[block]. */
static void attend(const cyb_engine *engine, const workspace *w, const cyb_row *row, uint32_t layer, uint32_t k,
                   const float *query, float *out) {
  const cyb_model *model = &engine->model;
  const cyb_kernels *kernels = engine->kernels;
  const cyb_sequence *sequence = row->sequence;
  uint32_t d1 = model->width[0], hd = model->head_size, per_page = d1 / hd;
  uint32_t heads = (model->width[k - 1] - below(model->width, k)) / hd;
  uint32_t last = row->position / P;
  int is_private = sequence->inherit != CYB_INHERIT_BACKFILL && k > 1;
  float *m = w->maximum, *l = w->sum, *part = w->part;
  for (uint32_t h = 0; h < heads; h++) {
    m[h] = -INFINITY;
    l[h] = 0;
  }
  memset(out, 0, heads * hd * sizeof *out);
  uint32_t holes = 0;
  for (uint32_t n = 0; n <= last; n++) {
    uint32_t i = CYB_MUTATED(CYB_MUTATE_MERGE_ORDER) ? last - n : n;
    const cyb_chunk *chunk = &engine->chunks.items[sequence->chunks[i]];
    uint32_t upto = row->position - i * P + 1, valid = upto < chunk->count ? upto : chunk->count;
    uint32_t all = valid == P ? 0xFFFFu : (1u << valid) - 1u;
    uint32_t mask = is_private ? cyb_sequence_mask(sequence, &engine->chunks, i, k, row->position) & all : all;
    holes += valid - (uint32_t)__builtin_popcount(mask);
    if (mask == 0)
      continue;
    const uint32_t *pages = is_private && i >= sequence->shared ? sequence->overlay + (size_t)i * engine->chunks.slots
                                                                : cyb_chunk_pages(&engine->chunks, sequence->chunks[i]);
    for (uint32_t h = 0; h < heads; h++) {
      const uint16_t *page = cyb_pool_address(&engine->pool, pages[engine->slot_end[k - 1] + h / per_page]);
      const uint16_t *keys = page + (size_t)layer * 2 * d1 * P + (size_t)(h % per_page) * hd * P;
      float m2, l2;
      kernels->attend_chunk(query + h * hd, keys, keys + (size_t)d1 * P, mask, hd, &m2, &l2, part);
      kernels->merge(&m[h], &l[h], out + h * hd, m2, l2, part, hd);
    }
  }
  memset(part, 0, hd * sizeof *part);
  for (uint32_t h = 0; h < heads; h++) {
    if (holes > 0 && sequence->inherit == CYB_INHERIT_ZEROS)
      kernels->merge(&m[h], &l[h], out + h * hd, 0.0f, (float)holes, part, hd);
    for (uint32_t c = 0; c < hd; c++)
      out[h * hd + c] /= l[h];
  }
}

/* ---- products ---- */

/* Panels [first, last) of one matrix of a layer against rows [begin, begin+n). */
static void multiply(const task *t, uint32_t layer, uint32_t which, uint32_t first, uint32_t last, uint32_t begin, uint32_t n) {
  cyb_engine *engine = t->engine;
  cyb_tape *tape = &engine->tape;
  float *const outputs[CYB_W_COUNT] = {tape->query, tape->key, tape->value, tape->delta, tape->gate, tape->up, tape->delta};
  cyb_activations input;
  if (which <= CYB_W_V)
    input = activations(tape, tape->input_f, tape->input_q, tape->input_scale, layer, tape->width);
  else if (which == CYB_W_O)
    input = activations(tape, tape->mixed_f, tape->mixed_q, tape->mixed_scale, layer, tape->width);
  else if (which <= CYB_W_UP)
    input = activations(tape, tape->middle_f, tape->middle_q, tape->middle_scale, layer, tape->width);
  else
    input = activations(tape, tape->units_f, tape->units_q, tape->units_scale, layer, tape->ffn);
  engine->kernels->product(cyb_weight(engine, layer, t->k, which), first, last, &input, t->slots + begin, n, NULL,
                           outputs[which], which == CYB_W_GATE || which == CYB_W_UP ? tape->ffn : tape->width);
}

static void multiply_all(const task *t, uint32_t layer, uint32_t first, uint32_t last, uint32_t begin, uint32_t n) {
  for (uint32_t which = first; which <= last; which++)
    multiply(t, layer, which, 0, panels(cyb_weight(t->engine, layer, t->k, which)), begin, n);
}

/* ---- stages ---- */

/* Columns of block k of one row's x: its sum of squares goes on from that of the blocks below, and it becomes an input of products. */
static void take_input(const task *t, uint32_t slot, uint32_t place, int16_t *q, float *scale, float *full) {
  cyb_engine *engine = t->engine;
  cyb_tape *tape = &engine->tape;
  uint32_t k = t->k, begin = below(engine->model.width, k), end = engine->model.width[k - 1];
  const float *x = tape->x + (size_t)slot * tape->width;
  float *squares = &tape->squares[(size_t)place * tape->slots + slot],
        mine = engine->kernels->sum_of_squares(x + begin, end - begin);
  *squares = k == 1 ? mine : *squares + mine;
  engine->kernels->quantise(x, begin, end, q, scale);
  if (full)
    memcpy(full + begin, x + begin, (end - begin) * sizeof *x);
}

/* 1 / rms of what take_input has seen. */
static float inverse_rms(const task *t, uint32_t slot, uint32_t place) {
  const cyb_model *model = &t->engine->model;
  float mean = t->engine->tape.squares[(size_t)place * t->engine->tape.slots + slot] / (float)model->width[t->k - 1];
  return 1.0f / sqrtf(mean + model->epsilon);
}

static void begin_layer(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_tape *tape = &t->engine->tape;
  (void)w;
  for (uint32_t r = begin; r < begin + n; r++) {
    size_t at = ((size_t)layer * tape->slots + t->slots[r]) * tape->width;
    take_input(t, t->slots[r], 2 * layer, tape->input_q + at, tape->input_scale + at / CYB_QUANT_GROUP,
               tape->input_f ? tape->input_f + at : NULL);
  }
}

static void place_kv(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_engine *engine = t->engine;
  const cyb_model *model = &engine->model;
  const cyb_kernels *kernels = engine->kernels;
  cyb_tape *tape = &engine->tape;
  uint32_t block = model->width[t->k - 1] - below(model->width, t->k), hd = model->head_size;
  float *outputs[3] = {tape->query, tape->key, tape->value};
  for (uint32_t r = begin; r < begin + n; r++) {
    const cyb_row *row = t->rows[r];
    size_t at = (size_t)t->slots[r] * tape->width;
    float inverse = inverse_rms(t, t->slots[r], 2 * layer);
    for (uint32_t which = 0; which < 3; which++)
      kernels->scale(outputs[which] + at, inverse, block);
    const float *cosine = engine->cosine + (size_t)row->position * (hd / 2);
    const float *sine = engine->sine + (size_t)row->position * (hd / 2);
    for (uint32_t h = 0; h < block / hd; h++) {
      kernels->rotate(tape->query + at + h * hd, cosine, sine, hd);
      kernels->rotate(tape->key + at + h * hd, cosine, sine, hd);
    }
#ifndef CYB_DEBUG
    if (t->k >= row->write_from)
#endif
      write_kv(engine, row, layer, t->k, tape->key + at, tape->value + at, w->half);
  }
}

static void attend_rows(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_engine *engine = t->engine;
  cyb_tape *tape = &engine->tape;
  uint32_t from = below(engine->model.width, t->k), to = engine->model.width[t->k - 1];
  for (uint32_t r = begin; r < begin + n; r++) {
    size_t at = ((size_t)layer * tape->slots + t->slots[r]) * tape->width;
    attend(engine, w, t->rows[r], layer, t->k, tape->query + (size_t)t->slots[r] * tape->width, w->mixed + from);
    engine->kernels->quantise(w->mixed, from, to, tape->mixed_q + at, tape->mixed_scale + at / CYB_QUANT_GROUP);
    if (tape->mixed_f)
      memcpy(tape->mixed_f + at + from, w->mixed + from, (to - from) * sizeof *w->mixed);
  }
}

static void add_delta(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_tape *tape = &t->engine->tape;
  uint32_t from = below(t->engine->model.width, t->k), block = t->engine->model.width[t->k - 1] - from;
  (void)w, (void)layer;
  for (uint32_t r = begin; r < begin + n; r++) {
    size_t at = (size_t)t->slots[r] * tape->width;
    t->engine->kernels->add(tape->x + at + from, tape->delta + at, block);
  }
}

static void add_attention(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_tape *tape = &t->engine->tape;
  add_delta(t, w, layer, begin, n);
  for (uint32_t r = begin; r < begin + n; r++) {
    size_t at = ((size_t)layer * tape->slots + t->slots[r]) * tape->width;
    take_input(t, t->slots[r], 2 * layer + 1, tape->middle_q + at, tape->middle_scale + at / CYB_QUANT_GROUP,
               tape->middle_f ? tape->middle_f + at : NULL);
  }
}

static void gate_units(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_engine *engine = t->engine;
  cyb_tape *tape = &engine->tape;
  uint32_t from = below(engine->model.ffn_width, t->k), to = engine->model.ffn_width[t->k - 1];
  for (uint32_t r = begin; r < begin + n; r++) {
    size_t own = (size_t)t->slots[r] * tape->ffn, at = (size_t)layer * tape->slots * tape->ffn + own;
    engine->kernels->silu_multiply(tape->gate + own, tape->up + own, inverse_rms(t, t->slots[r], 2 * layer + 1), to - from,
                                   w->mixed + from);
    engine->kernels->quantise(w->mixed, from, to, tape->units_q + at, tape->units_scale + at / CYB_QUANT_GROUP);
    if (tape->units_f)
      memcpy(tape->units_f + at + from, w->mixed + from, (to - from) * sizeof *w->mixed);
  }
}

static void load_token(const task *t, const workspace *w, const cyb_row *row) {
  cyb_engine *engine = t->engine;
  const cyb_model *model = &engine->model;
  uint32_t k = t->k, begin = below(model->width, k), block = model->width[k - 1] - begin;
  const cyb_matrix *table = &model->embedding[k - 1];
  float *x = engine->tape.x + (size_t)row->tape * engine->tape.width + begin;
  uint32_t token = row->token, panel = token / CYB_PANEL_ROWS, lane = token % CYB_PANEL_ROWS;
  if (table->type == CYB_F16) {
    const uint16_t *data = (const uint16_t *)table->data + (size_t)panel * block * CYB_PANEL_ROWS + lane;
    for (uint32_t c = 0; c < block; c++)
      w->half[c] = data[(size_t)c * CYB_PANEL_ROWS];
    engine->kernels->from_half(w->half, x, block);
  } else {
    const uint8_t *group = (const uint8_t *)table->data + (size_t)panel * (block / CYB_QUANT_GROUP) * 544;
    for (uint32_t g = 0; g < block / CYB_QUANT_GROUP; g++, group += 544) {
      uint16_t half[16];
      float scale[16];
      memcpy(half, group, sizeof half);
      engine->kernels->from_half(half, scale, 16);
      const int8_t *values = (const int8_t *)(group + 32);
      for (uint32_t c = 0; c < CYB_QUANT_GROUP; c++)
        x[g * CYB_QUANT_GROUP + c] = scale[lane] * (float)values[(c / 2) * 32 + lane * 2 + c % 2];
    }
  }
  engine->kernels->scale(x, model->input_scale, block);
}

static void load_tokens(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  (void)layer;
  for (uint32_t r = begin; r < begin + n; r++)
    load_token(t, w, t->rows[r]);
}

static void finish_rows(const task *t, const workspace *w, uint32_t layer, uint32_t begin, uint32_t n) {
  cyb_tape *tape = &t->engine->tape;
  (void)w;
  for (uint32_t r = begin; r < begin + n; r++) {
    size_t at = (size_t)t->slots[r] * tape->width;
    take_input(t, t->slots[r], 2 * layer, tape->final_q + at, tape->final_scale + at / CYB_QUANT_GROUP, NULL);
  }
}

/* ---- by rows ---- */

/* Tiles of rows: the end of the layer before, from attention on, and the beginning of this one, up to its K and V. */
static void work_layer(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  workspace w = workspace_of(t->engine, worker);
  uint32_t size = t->n / workers / 2, layers = t->engine->model.layers;
  size = size < 4 ? 4 : size > TILE ? TILE : size;
  for (uint32_t begin; (begin = atomic_fetch_add(&t->next, size)) < t->n;) {
    uint32_t n = t->n - begin < size ? t->n - begin : size;
    if (t->layer == 0) {
      load_tokens(t, &w, 0, begin, n);
    } else {
      uint32_t layer = t->layer - 1;
      attend_rows(t, &w, layer, begin, n);
      multiply_all(t, layer, CYB_W_O, CYB_W_O, begin, n);
      add_attention(t, &w, layer, begin, n);
      multiply_all(t, layer, CYB_W_GATE, CYB_W_UP, begin, n);
      gate_units(t, &w, layer, begin, n);
      multiply_all(t, layer, CYB_W_DOWN, CYB_W_DOWN, begin, n);
      add_delta(t, &w, layer, begin, n);
    }
    if (t->layer == layers) {
      finish_rows(t, &w, layers, begin, n);
    } else {
      begin_layer(t, &w, t->layer, begin, n);
      multiply_all(t, t->layer, CYB_W_Q, CYB_W_V, begin, n);
      place_kv(t, &w, t->layer, begin, n);
    }
  }
}

/* ---- by panels ---- */

static void work_stage(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  workspace w = workspace_of(t->engine, worker);
  (void)workers;
  for (uint32_t r; (r = atomic_fetch_add(&t->next, 1)) < t->n;)
    t->stage(t, &w, t->layer, r, 1);
}

/* One panel of matrices first..last at a time, against all rows. */
static void work_panels(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  (void)worker, (void)workers;
  for (;;) {
    uint32_t panel = atomic_fetch_add(&t->next, 1), which = t->first;
    for (; which <= t->last; which++) {
      uint32_t count = panels(cyb_weight(t->engine, t->layer, t->k, which));
      if (panel < count)
        break;
      panel -= count;
    }
    if (which > t->last)
      return;
    multiply(t, t->layer, which, panel, panel + 1, 0, t->n);
  }
}

static void run_stage(task *t, stage_function stage) {
  t->stage = stage;
  atomic_store(&t->next, 0);
  cyb_threads_run(t->engine->threads, work_stage, t);
}

static void run_panels(task *t, uint32_t first, uint32_t last) {
  t->first = first;
  t->last = last;
  atomic_store(&t->next, 0);
  cyb_threads_run(t->engine->threads, work_panels, t);
}

static void forward_by_panels(task *t) {
  run_stage(t, load_tokens);
  for (t->layer = 0; t->layer < t->engine->model.layers; t->layer++) {
    run_stage(t, begin_layer);
    run_panels(t, CYB_W_Q, CYB_W_V);
    run_stage(t, place_kv);
    run_stage(t, attend_rows);
    run_panels(t, CYB_W_O, CYB_W_O);
    run_stage(t, add_attention);
    run_panels(t, CYB_W_GATE, CYB_W_UP);
    run_stage(t, gate_units);
    run_panels(t, CYB_W_DOWN, CYB_W_DOWN);
    run_stage(t, add_delta);
  }
  run_stage(t, finish_rows);
}

void cyb_forward_block(cyb_engine *engine, const cyb_row *const *rows, uint32_t n, uint32_t k) {
  task t = {.engine = engine, .rows = rows, .slots = engine->pass_slots, .n = n, .k = k};
  for (uint32_t r = 0; r < n; r++)
    engine->pass_slots[r] = rows[r]->tape;
  if (engine->block_bytes[k - 1] / engine->model.layers > engine->cached_bytes) {
    forward_by_panels(&t);
    return;
  }
  for (t.layer = 0; t.layer <= engine->model.layers; t.layer++) {
    atomic_store(&t.next, 0);
    cyb_threads_run(engine->threads, work_layer, &t);
  }
}
