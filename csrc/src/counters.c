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
