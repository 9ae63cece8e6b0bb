/* engine.c - creation, validation and destruction of an engine, and the check of all its invariants. */
#define _DEFAULT_SOURCE
#include "engine.h"
#include "mutation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CACHED_BYTES = 256 << 10 }; /* half of a small second cache */

static cyb_status check_matrix(const cyb_matrix *matrix, uint32_t rows, uint32_t columns, const char *name) {
  if (matrix->rows != rows || matrix->columns != columns)
    return cyb_fail(CYB_INVALID_ARGUMENT, "%s is %u x %u, the levels ask for %u x %u", name, matrix->rows, matrix->columns,
                    rows, columns);
  size_t bytes = cyb_matrix_bytes(matrix->type, rows, columns);
  if (bytes == 0 || matrix->bytes != bytes || !matrix->data)
    return cyb_fail(CYB_INVALID_ARGUMENT, "%s holds %zu bytes, its shape and type ask for %zu", name, matrix->bytes, bytes);
  return CYB_OK;
}

static cyb_status check_model(const cyb_model *m) {
  if (m->levels < 1 || m->levels > CYB_LEVELS_MAX || m->layers < 1 || m->layers > 1024 || m->vocabulary < 1 ||
      m->particles > m->vocabulary || m->vocabulary > 1u << 28)
    return cyb_fail(CYB_INVALID_ARGUMENT, "levels, layers or vocabulary are out of range");
  if (m->head_size < 2 || m->head_size % 2 || m->head_size > 256)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a head size of %u is not possible", m->head_size);
  for (uint32_t k = 0; k < m->levels; k++) {
    uint32_t d = m->width[k], f = m->ffn_width[k];
    if (d % CYB_QUANT_GROUP || d % m->width[0] || d % m->head_size || d <= (k ? m->width[k - 1] : 0) || d > 1u << 16)
      return cyb_fail(CYB_INVALID_ARGUMENT,
                      "width %u of level %u is not an ascending multiple of 32, of width 1 and of the head size", d, k + 1);
    if (f % CYB_QUANT_GROUP || f <= (k ? m->ffn_width[k - 1] : 0) || f > 1u << 18)
      return cyb_fail(CYB_INVALID_ARGUMENT, "FFN width %u of level %u is not an ascending multiple of 32", f, k + 1);
    if (!isfinite(m->tau[k]) || !isfinite(m->beta[k]))
      return cyb_fail(CYB_INVALID_ARGUMENT, "tau or beta of level %u is not finite", k + 1);
  }
  if (!m->log_focus || !m->embedding || !m->weights || !(m->epsilon > 0) || !(m->rope_base > 1) || !isfinite(m->input_scale))
    return cyb_fail(CYB_INVALID_ARGUMENT, "the model lacks a table or one of its constants is not finite");
  if (!m->gain_weights != !m->gain_bias)
    return cyb_fail(CYB_INVALID_ARGUMENT, "the gain rule needs both its weights and its bias");
  for (uint32_t k = 0; k < m->levels; k++) {
    uint32_t d = m->width[k], block = d - (k ? m->width[k - 1] : 0);
    uint32_t f = m->ffn_width[k], units = f - (k ? m->ffn_width[k - 1] : 0);
    cyb_status status = check_matrix(&m->embedding[k], m->vocabulary, block, "the embedding");
    for (uint32_t l = 0; status == CYB_OK && l < m->layers; l++) {
      const cyb_matrix *w = m->weights + ((size_t)l * m->levels + k) * CYB_W_COUNT;
      for (int i = CYB_W_Q; i <= CYB_W_O && status == CYB_OK; i++)
        status = check_matrix(&w[i], block, d, "an attention matrix");
      for (int i = CYB_W_GATE; i <= CYB_W_UP && status == CYB_OK; i++)
        status = check_matrix(&w[i], units, d, "an FFN matrix");
      if (status == CYB_OK)
        status = check_matrix(&w[CYB_W_DOWN], block, f, "an FFN matrix");
    }
    if (status != CYB_OK)
      return status;
  }
  return CYB_OK;
}

const cyb_matrix *cyb_weight(const cyb_engine *engine, uint32_t layer, uint32_t block, uint32_t which) {
  return engine->model.weights + ((size_t)layer * engine->model.levels + block - 1) * CYB_W_COUNT + which;
}

/* Copies the model's headers, so that the caller's arrays of them may go; the data stays the caller's. */
static cyb_status adopt_model(cyb_engine *engine, const cyb_model *model) {
  size_t weights = (size_t)model->layers * model->levels * CYB_W_COUNT;
  cyb_matrix *matrices = malloc((model->levels + weights) * sizeof *matrices);
  if (!matrices)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for the model's headers");
  memcpy(matrices, model->embedding, model->levels * sizeof *matrices);
  memcpy(matrices + model->levels, model->weights, weights * sizeof *matrices);
  free(engine->matrices);
  engine->matrices = matrices;
  engine->model = *model;
  engine->model.embedding = matrices;
  engine->model.weights = matrices + model->levels;
  engine->model_bytes = 0;
  engine->has_f16 = 0;
  for (uint32_t k = 0; k < model->levels; k++) {
    engine->table_bytes[k] = matrices[k].bytes;
    engine->block_bytes[k] = 0;
    engine->has_f16 |= matrices[k].type == CYB_F16;
    for (uint32_t l = 0; l < model->layers; l++)
      for (uint32_t w = 0; w < CYB_W_COUNT; w++) {
        engine->block_bytes[k] += cyb_weight(engine, l, k + 1, w)->bytes;
        engine->has_f16 |= cyb_weight(engine, l, k + 1, w)->type == CYB_F16;
      }
    engine->model_bytes += engine->table_bytes[k] + engine->block_bytes[k];
    engine->slot_end[k + 1] = model->width[k] / model->width[0];
  }
  return CYB_OK;
}

static void tape_free(cyb_engine *engine) {
  cyb_tape *t = &engine->tape;
  void *arrays[] = {t->x,           t->input_q,     t->mixed_q, t->middle_q, t->input_scale, t->mixed_scale, t->middle_scale,
                    t->units_q,     t->units_scale, t->input_f, t->mixed_f,  t->middle_f,    t->units_f,     t->final_q,
                    t->final_scale, t->squares,     t->query,   t->key,      t->value,       t->delta,       t->gate,
                    t->up};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    free(arrays[i]);
  memset(t, 0, sizeof *t);
}

static void *zeros(size_t count, size_t size, int *failed) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, count * size + 64)) {
    *failed = 1;
    return NULL;
  }
  memset(memory, 0, count * size + 64);
  return memory;
}

static cyb_status tape_create(cyb_engine *engine) {
  cyb_tape *t = &engine->tape;
  const cyb_model *m = &engine->model;
  int failed = 0;
  t->slots = engine->decode_capacity + engine->fill_capacity;
  t->layers = m->layers;
  t->width = m->width[m->levels - 1];
  t->ffn = m->ffn_width[m->levels - 1];
  size_t d = (size_t)t->slots * t->width, f = (size_t)t->slots * t->ffn;
  t->x = zeros(d, sizeof(float), &failed);
  int16_t **q[] = {&t->input_q, &t->mixed_q, &t->middle_q};
  float **scale[] = {&t->input_scale, &t->mixed_scale, &t->middle_scale}, **full[] = {&t->input_f, &t->mixed_f, &t->middle_f};
  for (int i = 0; i < 3; i++) {
    *q[i] = zeros(m->layers * d, sizeof(int16_t), &failed);
    *scale[i] = zeros(m->layers * d / CYB_QUANT_GROUP, sizeof(float), &failed);
    if (engine->has_f16)
      *full[i] = zeros(m->layers * d, sizeof(float), &failed);
  }
  t->units_q = zeros(m->layers * f, sizeof(int16_t), &failed);
  t->units_scale = zeros(m->layers * f / CYB_QUANT_GROUP, sizeof(float), &failed);
  if (engine->has_f16)
    t->units_f = zeros(m->layers * f, sizeof(float), &failed);
  t->final_q = zeros(d, sizeof(int16_t), &failed);
  t->final_scale = zeros(d / CYB_QUANT_GROUP, sizeof(float), &failed);
  t->squares = zeros((size_t)(2 * m->layers + 1) * t->slots, sizeof(float), &failed);
  float **buffers[] = {&t->query, &t->key, &t->value, &t->delta};
  for (int i = 0; i < 4; i++)
    *buffers[i] = zeros(d, sizeof(float), &failed);
  t->gate = zeros(f, sizeof(float), &failed);
  t->up = zeros(f, sizeof(float), &failed);
  return failed ? cyb_fail(CYB_OUT_OF_MEMORY, "no memory for the working rows") : CYB_OK;
}

/* Buffers whose size depends on the number of threads. */
static cyb_status worker_buffers(cyb_engine *engine) {
  uint32_t workers = cyb_threads_count(engine->threads);
  const cyb_tape *t = &engine->tape;
  size_t floats = 16 * ((size_t)CYB_VOCAB_TILE + 16 + t->width + t->width / CYB_QUANT_GROUP + t->width / 2);
  if (floats < cyb_forward_scratch(engine))
    floats = cyb_forward_scratch(engine);
  floats = (floats + 63) / 64 * 64;
  int failed = 0;
  float *scratch = zeros(workers * floats, sizeof *scratch, &failed);
  cyb_best *best = zeros((size_t)engine->decode_capacity * workers, sizeof *best, &failed);
  if (failed) {
    free(scratch);
    free(best);
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for %u workers", workers);
  }
  free(engine->scratch);
  free(engine->partial_best);
  engine->scratch = scratch;
  engine->scratch_floats = floats;
  engine->partial_best = best;
  return CYB_OK;
}

cyb_status cyb_engine_set_threads(cyb_engine *engine, uint32_t threads) {
  cyb_threads *fresh = NULL;
  cyb_status status = cyb_threads_create(threads, engine->config.low_priority, &fresh);
  if (status != CYB_OK)
    return status;
  cyb_threads *old = engine->threads;
  engine->threads = fresh;
  status = worker_buffers(engine);
  if (status != CYB_OK) {
    engine->threads = old;
    cyb_threads_destroy(fresh);
    return status;
  }
  cyb_threads_destroy(old);
  return CYB_OK;
}

static cyb_status create(cyb_engine *engine, const cyb_model *model) {
  cyb_engine_config *c = &engine->config;
  int failed = 0;
  cyb_status status = adopt_model(engine, model);
  if (status != CYB_OK)
    return status;
  engine->kernels = cyb_kernels_get(c->isa == CYB_ISA_AUTO ? cyb_isa_best() : c->isa);
  if (!engine->kernels)
    return cyb_fail(CYB_UNSUPPORTED, "this machine or build has no %s kernels", cyb_isa_name(c->isa));
  uint32_t rows = c->rows ? c->rows : c->agents < 64 ? 64 : c->agents > 1024 ? 1024 : c->agents;
  engine->decode_capacity = rows;
  engine->fill_capacity = c->rows ? c->rows : 512;
  engine->cached_bytes = CACHED_BYTES;
  size_t page_bytes = (size_t)CYB_PAGE_POSITIONS * model->layers * 2 * model->width[0] * sizeof(uint16_t);
  status = cyb_pool_create(&engine->pool, c->pages, page_bytes);
  if (status == CYB_OK)
    status = cyb_chunks_create(&engine->chunks, &engine->pool, model->levels, engine->slot_end, model->family);
  if (status == CYB_OK)
    status = tape_create(engine);
  if (status == CYB_OK)
    status = cyb_threads_create(c->threads, c->low_priority, &engine->threads);
  if (status == CYB_OK)
    status = worker_buffers(engine);
  if (status != CYB_OK)
    return status;
  uint32_t half = model->head_size / 2, tiles = (model->vocabulary + CYB_VOCAB_TILE - 1) / CYB_VOCAB_TILE;
  engine->cosine = zeros((size_t)c->positions * half, sizeof(float), &failed);
  engine->sine = zeros((size_t)c->positions * half, sizeof(float), &failed);
  engine->fill = zeros(engine->fill_capacity, sizeof *engine->fill, &failed);
  engine->decode = zeros(engine->decode_capacity, sizeof *engine->decode, &failed);
  engine->pass_rows = zeros(engine->tape.slots, sizeof *engine->pass_rows, &failed);
  engine->pass_slots = zeros(engine->tape.slots, sizeof *engine->pass_slots, &failed);
  engine->job_set = zeros(engine->decode_capacity, sizeof *engine->job_set, &failed);
  engine->jobs = zeros(engine->decode_capacity, sizeof *engine->jobs, &failed);
  engine->tile_stats = zeros((size_t)engine->decode_capacity * tiles * 2, sizeof(float), &failed);
  engine->agents = zeros(c->agents, sizeof *engine->agents, &failed);
  engine->free_slots = zeros(c->agents, sizeof *engine->free_slots, &failed);
  engine->tokens = zeros(c->agents, sizeof *engine->tokens, &failed);
  engine->has_token = zeros(c->agents, 1, &failed);
  engine->policies = zeros(c->groups, sizeof *engine->policies, &failed);
  engine->has_group = zeros(c->groups, 1, &failed);
  engine->events = zeros(c->events, sizeof *engine->events, &failed);
  if (failed)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for %u agents", c->agents);
  for (uint32_t p = 0; p < c->positions; p++)
    cyb_rope_table(model->rope_base, model->head_size, p, engine->cosine + (size_t)p * half, engine->sine + (size_t)p * half);
  for (uint32_t a = 0; a < c->agents; a++)
    engine->free_slots[a] = c->agents - 1 - a;
  engine->free_slot_count = c->agents;
  return CYB_OK;
}

cyb_status cyb_engine_create(const cyb_model *model, const cyb_engine_config *config, cyb_engine **result) {
  if (!model || !config || !result)
    return cyb_fail(CYB_INVALID_ARGUMENT, "an engine needs a model, a configuration and a place to put it");
  cyb_status status = check_model(model);
  if (status != CYB_OK)
    return status;
  if (config->agents == 0 || config->agents > 1u << 24 || config->groups == 0 || config->positions < CYB_PAGE_POSITIONS ||
      config->positions > 1u << 24 || config->events == 0)
    return cyb_fail(CYB_INVALID_ARGUMENT,
                    "agents, groups, positions and events of the configuration must be positive and sane");
  cyb_engine *engine = calloc(1, sizeof *engine);
  if (!engine)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for an engine");
  engine->config = *config;
  status = create(engine, model);
  if (status != CYB_OK) {
    cyb_engine_destroy(engine);
    return status;
  }
  *result = engine;
  return CYB_OK;
}

void cyb_engine_destroy(cyb_engine *engine) {
  if (!engine)
    return;
  for (uint32_t a = 0; engine->agents && a < engine->config.agents; a++) {
    cyb_sequence_free(&engine->agents[a].sequence, &engine->chunks);
    free(engine->agents[a].tokens);
    free(engine->agents[a].depths);
  }
  for (uint32_t c = 0; c < engine->context_capacity; c++)
    cyb_sequence_free(&engine->contexts[c].sequence, &engine->chunks);
  cyb_threads_destroy(engine->threads);
  tape_free(engine);
  cyb_chunks_destroy(&engine->chunks);
  cyb_pool_destroy(&engine->pool);
  void *arrays[] = {
      engine->matrices,   engine->cosine,      engine->sine,     engine->fill,       engine->decode, (void *)engine->pass_rows,
      engine->pass_slots, engine->job_set,     engine->jobs,     engine->tile_stats, engine->agents, engine->free_slots,
      engine->tokens,     engine->has_token,   engine->policies, engine->has_group,  engine->events, engine->contexts,
      engine->scratch,    engine->partial_best};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    free(arrays[i]);
  free(engine);
}

static cyb_status check_sequence(const cyb_engine *engine, const cyb_sequence *sequence, uint32_t *references,
                                 uint32_t *overlay) {
  for (uint32_t i = 0; i < sequence->count; i++) {
    uint32_t id = sequence->chunks[i];
    if (id >= engine->chunks.capacity || !engine->chunks.items[id].live)
      return cyb_fail(CYB_INTERNAL, "a page table names chunk %u, which is gone", id);
    references[id]++;
    if (i + 1 < sequence->count && !engine->chunks.items[id].closed)
      return cyb_fail(CYB_INTERNAL, "chunk %u is open in the middle of a sequence", id);
  }
  uint32_t pages = 0;
  for (uint32_t i = 0; i < sequence->count * engine->chunks.slots; i++)
    pages += sequence->overlay[i] != CYB_NONE;
  if (pages != sequence->overlay_pages || (pages && sequence->inherit == CYB_INHERIT_BACKFILL))
    return cyb_fail(CYB_INTERNAL, "a sequence counts %u private pages and maps %u", sequence->overlay_pages, pages);
  *overlay += pages;
  return CYB_OK;
}

cyb_status cyb_engine_check(cyb_engine *engine) {
  cyb_status status = cyb_pool_check(&engine->pool);
  if (status == CYB_OK)
    status = cyb_chunks_check(&engine->chunks);
  if (status != CYB_OK)
    return status;
  uint32_t *references = calloc(engine->chunks.capacity + 1, sizeof *references), overlay = 0;
  if (!references)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory to check the engine");
  for (uint32_t a = 0; a < engine->config.agents && status == CYB_OK; a++)
    status = check_sequence(engine, &engine->agents[a].sequence, references, &overlay);
  for (uint32_t c = 0; c < engine->context_capacity && status == CYB_OK; c++)
    status = check_sequence(engine, &engine->contexts[c].sequence, references, &overlay);
  uint32_t pages = 0;
  for (uint32_t id = 0; id < engine->chunks.capacity && status == CYB_OK; id++) {
    if (!engine->chunks.items[id].live)
      continue;
    if (engine->chunks.items[id].references != references[id])
      status = cyb_fail(CYB_INTERNAL, "chunk %u counts %u holders and has %u", id, engine->chunks.items[id].references,
                        references[id]);
    pages += engine->chunks.slots - cyb_chunk_missing(&engine->chunks, id, 0, engine->chunks.slots);
  }
  free(references);
  unsigned defects = atomic_load(&engine->defects);
  if (status == CYB_OK && defects && CYB_UNMUTATED) /* planted faults are for others to notice */
    status = cyb_fail(CYB_INTERNAL, "%u times KV was computed again and came out with other bits", defects);
  if (status == CYB_OK && pages + overlay != engine->pool.used)
    status = cyb_fail(CYB_INTERNAL, "%u pages are used, chunks and overlays map %u", engine->pool.used, pages + overlay);
  return status;
}

static void rekey(cyb_engine *engine, cyb_sequence *sequence) {
  uint64_t parent[2] = {0, 0};
  for (uint32_t i = 0; i < sequence->count; i++) {
    cyb_chunk *chunk = &engine->chunks.items[sequence->chunks[i]];
    memcpy(chunk->parent, parent, sizeof parent);
    if (chunk->closed) {
      chunk->closed = 0;
      cyb_chunk_close(&engine->chunks, sequence->chunks[i]);
    }
    memcpy(parent, chunk->key, sizeof parent);
  }
}

cyb_status cyb_engine_swap_model(cyb_engine *engine, const cyb_model *model) {
  cyb_status status = check_model(model);
  if (status != CYB_OK)
    return status;
  const cyb_model *old = &engine->model;
  if (engine->tick_open)
    return cyb_fail(CYB_BAD_STATE, "a model is swapped between ticks only");
  if (model->levels != old->levels || model->layers != old->layers || model->head_size != old->head_size ||
      model->vocabulary != old->vocabulary || memcmp(model->width, old->width, sizeof old->width) ||
      memcmp(model->ffn_width, old->ffn_width, sizeof old->ffn_width))
    return cyb_fail(CYB_INVALID_ARGUMENT, "the new model has another shape");
  int32_t had_f16 = engine->has_f16;
  status = adopt_model(engine, model);
  if (status != CYB_OK)
    return status;
  if (engine->has_f16 && !had_f16) {
    tape_free(engine);
    status = tape_create(engine);
  }
  for (uint32_t id = 0; id < engine->chunks.capacity; id++)
    if (engine->chunks.items[id].live)
      cyb_chunk_drop_pages(&engine->chunks, id);
  memcpy(engine->chunks.family, model->family, sizeof engine->chunks.family);
  for (uint32_t c = 0; c < engine->context_capacity; c++) {
    engine->contexts[c].sealed = 0;
    rekey(engine, &engine->contexts[c].sequence);
  }
  for (uint32_t a = 0; a < engine->config.agents; a++) {
    cyb_sequence_drop_overlay(&engine->agents[a].sequence, &engine->chunks);
    rekey(engine, &engine->agents[a].sequence);
  }
  for (uint32_t p = 0; p < engine->config.positions; p++)
    cyb_rope_table(model->rope_base, model->head_size, p, engine->cosine + (size_t)p * (model->head_size / 2),
                   engine->sine + (size_t)p * (model->head_size / 2));
  return status;
}
