/* context.c - immutable shared prefixes: the system layer and the versions of a group's layer. */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

const cyb_context *cyb_context_find(const cyb_engine *engine, uint32_t context) {
  if (context == 0 || context > engine->context_capacity || !engine->contexts[context - 1].live) {
    cyb_fail(CYB_NOT_FOUND, "there is no context %u", context);
    return NULL;
  }
  return &engine->contexts[context - 1];
}

static uint32_t free_context(cyb_engine *engine) {
  for (uint32_t c = 0; c < engine->context_capacity; c++)
    if (!engine->contexts[c].live)
      return c;
  uint32_t capacity = engine->context_capacity ? engine->context_capacity * 2 : 16;
  cyb_context *contexts = realloc(engine->contexts, capacity * sizeof *contexts);
  if (!contexts)
    return CYB_NONE;
  memset(contexts + engine->context_capacity, 0, (capacity - engine->context_capacity) * sizeof *contexts);
  uint32_t first = engine->context_capacity;
  engine->contexts = contexts;
  engine->context_capacity = capacity;
  return first;
}

cyb_status cyb_context_create(cyb_engine *engine, uint32_t parent, int32_t layer, const uint32_t *tokens, uint32_t n,
                              uint32_t *result) {
  if (layer != CYB_LAYER_SYSTEM && layer != CYB_LAYER_GROUP)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a shared context is of the system or the group layer");
  if (n == 0 || !tokens)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a context holds at least one token");
  for (uint32_t i = 0; i < n; i++)
    if (tokens[i] >= engine->model.vocabulary)
      return cyb_fail(CYB_INVALID_ARGUMENT, "token %u at %u is outside the vocabulary of %u", tokens[i], i,
                      engine->model.vocabulary);
  if (parent && !cyb_context_find(engine, parent))
    return CYB_NOT_FOUND;
  uint32_t index = free_context(engine);
  if (index == CYB_NONE)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for another context");
  cyb_context *context = &engine->contexts[index];
  memset(context, 0, sizeof *context);
  cyb_sequence_init(&context->sequence, engine->next_serial++ & ~CYB_OWNER_OVERLAY);
  cyb_status status = CYB_OK;
  uint32_t before = parent ? engine->contexts[parent - 1].sequence.count : 0;
  for (uint32_t i = 0; i < before && status == CYB_OK; i++)
    status = cyb_sequence_map(&context->sequence, &engine->chunks, engine->contexts[parent - 1].sequence.chunks[i]);
  context->sequence.shared = before;
  if (status == CYB_OK && (before + 2) * CYB_PAGE_POSITIONS + n > engine->config.positions)
    status = cyb_fail(CYB_INVALID_ARGUMENT, "a context of %u tokens does not fit in %u positions", n, engine->config.positions);
  if (status == CYB_OK)
    status = cyb_sequence_extend(&context->sequence, &engine->chunks, tokens, n, (uint8_t)layer, 1);
  if (status != CYB_OK) {
    cyb_sequence_free(&context->sequence, &engine->chunks);
    return status;
  }
  context->live = 1;
  engine->counters.prompt += n;
  for (uint32_t i = 0; i < n; i++)
    engine->counters.always_deepest_multiply_adds += cyb_deepest_multiply_adds(engine, before * CYB_PAGE_POSITIONS + i + 1);
  *result = index + 1;
  return CYB_OK;
}

cyb_status cyb_context_release(cyb_engine *engine, uint32_t context) {
  if (!cyb_context_find(engine, context))
    return CYB_NOT_FOUND;
  cyb_context *found = &engine->contexts[context - 1];
  cyb_sequence_free(&found->sequence, &engine->chunks);
  found->live = 0;
  return CYB_OK;
}

void cyb_contexts_seal(cyb_engine *engine) {
  for (uint32_t c = 0; c < engine->context_capacity; c++) {
    cyb_context *context = &engine->contexts[c];
    if (!context->live || context->sealed)
      continue;
    cyb_sequence_seal(&context->sequence, &engine->chunks);
    context->sealed = 1;
    for (uint32_t i = context->sequence.shared; i < context->sequence.count; i++)
      context->sealed &= engine->chunks.items[context->sequence.chunks[i]].indexed;
    if (context->sealed)
      cyb_event_put(engine, CYB_EVENT_SEALED_CONTEXT, CYB_NONE, c + 1, context->sequence.count);
  }
}

int cyb_reclaim(cyb_engine *engine) {
  enum { AT_ONCE = 32 };
  cyb_chunks *chunks = &engine->chunks;
  uint32_t freed = 0, stamp = ++engine->stamp;
  for (uint32_t r = 0; r < engine->batch_count; r++) {
    const cyb_sequence *sequence = engine->batch[r].row.sequence;
    for (uint32_t i = 0; i < sequence->count && !engine->batch[r].dropped; i++)
      chunks->items[sequence->chunks[i]].stamp = stamp;
  }
  for (uint32_t id = 0; id < chunks->capacity && freed < AT_ONCE; id++) {
    const cyb_chunk *chunk = &chunks->items[id];
    if (!chunk->live || chunk->stamp == stamp || chunk->filled[0] == 0)
      continue;
    cyb_chunk_drop_pages(chunks, id);
    freed++;
  }
  for (uint32_t c = 0; c < engine->context_capacity && freed; c++)
    engine->contexts[c].sealed = 0; /* those that lost pages are sealed again when these are back */
  return freed > 0;
}
