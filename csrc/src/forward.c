/*
** forward.c - block k of a set of rows over all layers, given the tape of the blocks below: the one fundamental operation.
**
** n_k = x[:D_k]/rms; q, k, v of block k; RoPE; attention over the positions that hold block-k KV; output; gated FFN. Activations are
** quantised before the division by rms, so a column is quantised once whatever block reads it. Work is split by rows; rows meet only
** where attention needs the K and V that others write, which is one barrier a layer.
*/
#include "engine.h"
#include "mutation.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { P = CYB_PAGE_POSITIONS, TILE = 32 };

typedef struct task {
  cyb_engine *engine;
  const cyb_row *const *rows; /* [n] */
  uint32_t n, k, layer;       /* finishes layer-1 and starts layer */
  atomic_uint next;
} task;

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
typedef struct workspace {
  float *mixed;         /* [max(D, F)] attention output or gated units of one row */
  float *maximum, *sum; /* [D] softmax state, one a head */
  float *part;          /* [head_size] output of one chunk */
  uint16_t *half;       /* [D] */
} workspace;

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

static void start_layer(const task *t, const workspace *w, const uint32_t *slots, const cyb_row *const *rows, uint32_t n) {
  cyb_engine *engine = t->engine;
  const cyb_model *model = &engine->model;
  const cyb_kernels *kernels = engine->kernels;
  cyb_tape *tape = &engine->tape;
  uint32_t k = t->k, layer = t->layer, begin = below(model->width, k), end = model->width[k - 1], block = end - begin;
  uint32_t hd = model->head_size, groups = tape->width / CYB_QUANT_GROUP;
  size_t base = (size_t)layer * tape->slots;
  for (uint32_t r = 0; r < n; r++) {
    const float *x = tape->x + (size_t)slots[r] * tape->width;
    float *squares = &tape->squares[(size_t)(2 * layer) * tape->slots + slots[r]];
    float mine = kernels->sum_of_squares(x + begin, block);
    *squares = k == 1 ? mine : *squares + mine;
    kernels->quantise(x, begin, end, tape->input_q + (base + slots[r]) * tape->width,
                      tape->input_scale + (base + slots[r]) * groups);
    if (tape->input_f)
      memcpy(tape->input_f + (base + slots[r]) * tape->width + begin, x + begin, block * sizeof *x);
  }
  cyb_activations input = activations(tape, tape->input_f, tape->input_q, tape->input_scale, layer, tape->width);
  float *outputs[3] = {tape->query, tape->key, tape->value};
  for (uint32_t which = CYB_W_Q; which <= CYB_W_V; which++) {
    const cyb_matrix *matrix = cyb_weight(engine, layer, k, which);
    kernels->product(matrix, 0, panels(matrix), &input, slots, n, NULL, outputs[which], tape->width);
  }
  for (uint32_t r = 0; r < n; r++) {
    size_t at = (size_t)slots[r] * tape->width;
    float mean = tape->squares[(size_t)(2 * layer) * tape->slots + slots[r]] / (float)end;
    float inverse = 1.0f / sqrtf(mean + model->epsilon);
    for (uint32_t which = 0; which < 3; which++)
      kernels->scale(outputs[which] + at, inverse, block);
    const float *cosine = engine->cosine + (size_t)rows[r]->position * (hd / 2);
    const float *sine = engine->sine + (size_t)rows[r]->position * (hd / 2);
    for (uint32_t h = 0; h < block / hd; h++) {
      kernels->rotate(tape->query + at + h * hd, cosine, sine, hd);
      kernels->rotate(tape->key + at + h * hd, cosine, sine, hd);
    }
#ifndef CYB_DEBUG
    if (k >= rows[r]->write_from)
#endif
      write_kv(engine, rows[r], layer, k, tape->key + at, tape->value + at, w->half);
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

static void finish_layer(const task *t, const workspace *w, const uint32_t *slots, const cyb_row *const *rows, uint32_t n) {
  cyb_engine *engine = t->engine;
  const cyb_model *model = &engine->model;
  const cyb_kernels *kernels = engine->kernels;
  cyb_tape *tape = &engine->tape;
  uint32_t k = t->k, layer = t->layer - 1, begin = below(model->width, k), end = model->width[k - 1], block = end - begin;
  uint32_t ffn_begin = below(model->ffn_width, k), ffn_end = model->ffn_width[k - 1], units = ffn_end - ffn_begin;
  uint32_t groups = tape->width / CYB_QUANT_GROUP, ffn_groups = tape->ffn / CYB_QUANT_GROUP;
  size_t base = (size_t)layer * tape->slots;
  float *mixed = w->mixed;
  for (uint32_t r = 0; r < n; r++) {
    attend(engine, w, rows[r], layer, k, tape->query + (size_t)slots[r] * tape->width, mixed + begin);
    kernels->quantise(mixed, begin, end, tape->mixed_q + (base + slots[r]) * tape->width,
                      tape->mixed_scale + (base + slots[r]) * groups);
    if (tape->mixed_f)
      memcpy(tape->mixed_f + (base + slots[r]) * tape->width + begin, mixed + begin, block * sizeof *mixed);
  }
  cyb_activations a = activations(tape, tape->mixed_f, tape->mixed_q, tape->mixed_scale, layer, tape->width);
  const cyb_matrix *o = cyb_weight(engine, layer, k, CYB_W_O);
  kernels->product(o, 0, panels(o), &a, slots, n, NULL, tape->delta, tape->width);
  for (uint32_t r = 0; r < n; r++) {
    float *x = tape->x + (size_t)slots[r] * tape->width;
    kernels->add(x + begin, tape->delta + (size_t)slots[r] * tape->width, block);
    float *squares = &tape->squares[(size_t)(2 * layer + 1) * tape->slots + slots[r]];
    float mine = kernels->sum_of_squares(x + begin, block);
    *squares = k == 1 ? mine : *squares + mine;
    kernels->quantise(x, begin, end, tape->middle_q + (base + slots[r]) * tape->width,
                      tape->middle_scale + (base + slots[r]) * groups);
    if (tape->middle_f)
      memcpy(tape->middle_f + (base + slots[r]) * tape->width + begin, x + begin, block * sizeof *x);
  }
  cyb_activations middle = activations(tape, tape->middle_f, tape->middle_q, tape->middle_scale, layer, tape->width);
  const cyb_matrix *gate = cyb_weight(engine, layer, k, CYB_W_GATE), *up = cyb_weight(engine, layer, k, CYB_W_UP);
  kernels->product(gate, 0, panels(gate), &middle, slots, n, NULL, tape->gate, tape->ffn);
  kernels->product(up, 0, panels(up), &middle, slots, n, NULL, tape->up, tape->ffn);
  for (uint32_t r = 0; r < n; r++) {
    float mean = tape->squares[(size_t)(2 * layer + 1) * tape->slots + slots[r]] / (float)end;
    float inverse = 1.0f / sqrtf(mean + model->epsilon);
    size_t at = (size_t)slots[r] * tape->ffn;
    kernels->silu_multiply(tape->gate + at, tape->up + at, inverse, units, mixed + ffn_begin);
    kernels->quantise(mixed, ffn_begin, ffn_end, tape->units_q + (base + slots[r]) * tape->ffn,
                      tape->units_scale + (base + slots[r]) * ffn_groups);
    if (tape->units_f)
      memcpy(tape->units_f + (base + slots[r]) * tape->ffn + ffn_begin, mixed + ffn_begin, units * sizeof *mixed);
  }
  cyb_activations h = activations(tape, tape->units_f, tape->units_q, tape->units_scale, layer, tape->ffn);
  const cyb_matrix *down = cyb_weight(engine, layer, k, CYB_W_DOWN);
  kernels->product(down, 0, panels(down), &h, slots, n, NULL, tape->delta, tape->width);
  for (uint32_t r = 0; r < n; r++)
    kernels->add(tape->x + (size_t)slots[r] * tape->width + begin, tape->delta + (size_t)slots[r] * tape->width, block);
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

static void finish_rows(const task *t, const uint32_t *slots, uint32_t n) {
  cyb_engine *engine = t->engine;
  const cyb_model *model = &engine->model;
  cyb_tape *tape = &engine->tape;
  uint32_t k = t->k, begin = below(model->width, k), end = model->width[k - 1];
  for (uint32_t r = 0; r < n; r++) {
    const float *x = tape->x + (size_t)slots[r] * tape->width;
    float *squares = &tape->squares[(size_t)(2 * model->layers) * tape->slots + slots[r]];
    float mine = engine->kernels->sum_of_squares(x + begin, end - begin);
    *squares = k == 1 ? mine : *squares + mine;
    engine->kernels->quantise(x, begin, end, tape->final_q + (size_t)slots[r] * tape->width,
                              tape->final_scale + (size_t)slots[r] * (tape->width / CYB_QUANT_GROUP));
  }
}

static void work(void *argument, uint32_t worker, uint32_t workers) {
  task *t = argument;
  workspace w = workspace_of(t->engine, worker);
  uint32_t size = t->n / workers / 2;
  size = size < 4 ? 4 : size > TILE ? TILE : size;
  uint32_t slots[TILE];
  for (;;) {
    uint32_t begin = atomic_fetch_add(&t->next, size);
    if (begin >= t->n)
      return;
    uint32_t n = t->n - begin < size ? t->n - begin : size;
    for (uint32_t r = 0; r < n; r++)
      slots[r] = t->rows[begin + r]->tape;
    if (t->layer == 0)
      for (uint32_t r = 0; r < n; r++)
        load_token(t, &w, t->rows[begin + r]);
    else
      finish_layer(t, &w, slots, t->rows + begin, n);
    if (t->layer < t->engine->model.layers)
      start_layer(t, &w, slots, t->rows + begin, n);
    else
      finish_rows(t, slots, n);
  }
}

void cyb_forward_block(cyb_engine *engine, const cyb_row *const *rows, uint32_t n, uint32_t k) {
  task t = {.engine = engine, .rows = rows, .n = n, .k = k};
  for (t.layer = 0; t.layer <= engine->model.layers; t.layer++) {
    atomic_store(&t.next, 0);
    cyb_threads_run(engine->threads, work, &t);
  }
}
