/* counters.c - arithmetic of the counters and the models of other systems that savings are measured against. */
#define _DEFAULT_SOURCE
#include "step.h"
#include <string.h>
#include <time.h>

double cyb_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t cyb_layer_multiply_adds(const cyb_engine *engine, uint32_t block) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < engine->model.layers; layer++)
    for (uint32_t w = 0; w < CYB_W_COUNT; w++) {
      const cyb_matrix *matrix = cyb_weight(engine, layer, block, w);
      sum += (uint64_t)matrix->rows * matrix->columns;
    }
  return sum;
}

uint64_t cyb_input_bytes(const cyb_engine *engine, uint32_t k, uint32_t columns) {
  return cyb_weight(engine, 0, k, CYB_W_Q)->type == CYB_F16 ? 4 * (uint64_t)columns : 2 * (uint64_t)columns + columns / 8;
}

/*
** What outlives a layer: the residual, read and written; the three inputs of products and the gated units, of which a block writes its
** columns and reads those of the blocks below; the token's row of the table. What a worker has just written, and what a layer needs in
** between, it reads from its cache.
*/
uint64_t cyb_tape_bytes(const cyb_engine *engine, uint32_t k) {
  const cyb_model *model = &engine->model;
  uint32_t begin = k > 1 ? model->width[k - 2] : 0, block = model->width[k - 1] - begin;
  uint32_t ffn_begin = k > 1 ? model->ffn_width[k - 2] : 0, units = model->ffn_width[k - 1] - ffn_begin;
  uint64_t column =
      engine->has_f16 ? 8 * 6 + 1 : 8 * 2 + 1; /* as written, in eighths of a byte; in both forms where some weights are f16 */
  uint64_t layer = 2 * 4 * (uint64_t)block + (3 * (uint64_t)block + units) * column / 8;
  layer += 3 * cyb_input_bytes(engine, k, begin) + cyb_input_bytes(engine, k, ffn_begin);
  return model->layers * layer + block * column / 8 + engine->table_bytes[k - 1] / model->vocabulary;
}

uint64_t cyb_deepest_multiply_adds(const cyb_engine *engine, uint32_t positions) {
  const cyb_model *model = &engine->model;
  uint64_t sum = 2 * (uint64_t)positions * model->width[model->levels - 1] * model->layers;
  for (uint32_t k = 1; k <= model->levels; k++)
    sum += cyb_layer_multiply_adds(engine, k);
  return sum;
}

static uint64_t deepest_kv_bytes(const cyb_engine *engine, uint64_t positions) {
  return positions * engine->pool.page_bytes / CYB_PAGE_POSITIONS * engine->chunks.slots;
}

void cyb_count_batched_step(cyb_engine *engine) {
  uint64_t positions = 0;
  for (uint32_t c = 0; c < engine->context_capacity; c++) {
    const cyb_context *context = &engine->contexts[c];
    for (uint32_t i = context->sequence.shared; context->live && i < context->sequence.count; i++)
      if (engine->chunks.items[context->sequence.chunks[i]].references > 1)
        positions += engine->chunks.items[context->sequence.chunks[i]].count;
  }
  engine->counters.batched_bytes += engine->model_bytes + deepest_kv_bytes(engine, positions);
}

void cyb_count_generated(cyb_engine *engine, const cyb_sequence *sequence, uint32_t position) {
  cyb_counters *counters = &engine->counters;
  const cyb_model *model = &engine->model;
  uint64_t all = 0, own = 0;
  for (uint32_t i = 0; i <= position / CYB_PAGE_POSITIONS; i++) {
    uint32_t count = engine->chunks.items[sequence->chunks[i]].count;
    all += count;
    if (i >= sequence->shared)
      own += count;
  }
  counters->always_deepest_multiply_adds +=
      cyb_deepest_multiply_adds(engine, (uint32_t)all) + (uint64_t)model->vocabulary * model->width[model->levels - 1];
  counters->standard_bytes += engine->model_bytes + deepest_kv_bytes(engine, all);
  counters->batched_bytes += deepest_kv_bytes(engine, own);
}

cyb_status cyb_counters_get(cyb_engine *engine, cyb_counters *counters) {
  *counters = engine->counters;
  counters->copies = engine->pool.copies;
  return CYB_OK;
}
