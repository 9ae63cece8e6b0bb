/* sequence.c - see sequence.h. */
#include "sequence.h"
#include "mutation.h"
#include <stdlib.h>
#include <string.h>

enum { P = CYB_PAGE_POSITIONS };

void cyb_sequence_init(cyb_sequence *sequence, uint32_t serial) {
  memset(sequence, 0, sizeof *sequence);
  sequence->serial = serial;
}

void cyb_sequence_clear(cyb_sequence *sequence, cyb_chunks *chunks) {
  cyb_sequence_drop_overlay(sequence, chunks);
  for (uint32_t i = 0; i < sequence->count; i++)
    cyb_chunk_drop(chunks, sequence->chunks[i]);
  sequence->count = sequence->shared = 0;
  sequence->window_end = 0;
}

void cyb_sequence_free(cyb_sequence *sequence, cyb_chunks *chunks) {
  cyb_sequence_clear(sequence, chunks);
  free(sequence->chunks);
  free(sequence->depth);
  free(sequence->have);
  free(sequence->overlay);
  cyb_sequence_init(sequence, sequence->serial);
}

static cyb_status reserve(cyb_sequence *sequence, const cyb_chunks *chunks) {
  if (sequence->count < sequence->capacity)
    return CYB_OK;
  uint32_t capacity = sequence->capacity ? sequence->capacity * 2 : 8;
  uint32_t *ids = realloc(sequence->chunks, capacity * sizeof *ids);
  if (ids)
    sequence->chunks = ids;
  uint8_t *depth = realloc(sequence->depth, (size_t)capacity * P);
  if (depth)
    sequence->depth = depth;
  uint8_t *have = realloc(sequence->have, (size_t)capacity * P);
  if (have)
    sequence->have = have;
  uint32_t *overlay = realloc(sequence->overlay, (size_t)capacity * chunks->slots * sizeof *overlay);
  if (overlay)
    sequence->overlay = overlay;
  if (!ids || !depth || !have || !overlay)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for a page table of %u chunks", capacity);
  sequence->capacity = capacity;
  return CYB_OK;
}

static void push(cyb_sequence *sequence, const cyb_chunks *chunks, uint32_t id) {
  uint32_t i = sequence->count++;
  sequence->chunks[i] = id;
  memset(sequence->depth + (size_t)i * P, 0, P);
  memset(sequence->have + (size_t)i * P, 0, P);
  for (uint32_t s = 0; s < chunks->slots; s++)
    sequence->overlay[(size_t)i * chunks->slots + s] = CYB_NONE;
}

static const uint64_t *last_key(const cyb_sequence *sequence, const cyb_chunks *chunks) {
  static const uint64_t none[2] = {0, 0};
  return sequence->count ? chunks->items[sequence->chunks[sequence->count - 1]].key : none;
}

cyb_status cyb_sequence_map(cyb_sequence *sequence, cyb_chunks *chunks, uint32_t id) {
  cyb_status status = reserve(sequence, chunks);
  if (status != CYB_OK)
    return status;
  cyb_chunk_hold(chunks, id);
  push(sequence, chunks, id);
  return CYB_OK;
}

cyb_status cyb_sequence_append(cyb_sequence *sequence, cyb_chunks *chunks, uint32_t token, uint8_t layer, int new_layer) {
  uint32_t id = sequence->count ? sequence->chunks[sequence->count - 1] : CYB_NONE;
  if (id != CYB_NONE && new_layer)
    cyb_chunk_close(chunks, id);
  if (id == CYB_NONE || chunks->items[id].closed) {
    cyb_status status = reserve(sequence, chunks);
    if (status != CYB_OK)
      return status;
    id = cyb_chunk_new(chunks, last_key(sequence, chunks), layer);
    if (id == CYB_NONE)
      return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for another chunk");
    push(sequence, chunks, id);
  }
  cyb_chunk *chunk = &chunks->items[id];
  chunk->tokens[chunk->count++] = token;
  if (chunk->count == P)
    cyb_chunk_close(chunks, id);
  return CYB_OK;
}

cyb_status cyb_sequence_extend(cyb_sequence *sequence, cyb_chunks *chunks, const uint32_t *tokens, uint32_t n, uint8_t layer,
                               int close) {
  int fresh = 1;
  for (uint32_t at = 0; at < n;) {
    uint32_t whole = n - at < P ? n - at : P;
    int open = sequence->count && !chunks->items[sequence->chunks[sequence->count - 1]].closed;
    if (fresh && open)
      cyb_chunk_close(chunks, sequence->chunks[sequence->count - 1]);
    if ((fresh || !open) && (whole == P || close)) {
      uint32_t id = cyb_chunk_find(chunks, last_key(sequence, chunks), tokens + at, whole);
      if (id != CYB_NONE) {
        cyb_status status = cyb_sequence_map(sequence, chunks, id);
        if (status != CYB_OK)
          return status;
        at += whole;
        fresh = 0;
        continue;
      }
    }
    cyb_status status = cyb_sequence_append(sequence, chunks, tokens[at], layer, fresh);
    if (status != CYB_OK)
      return status;
    fresh = 0;
    at++;
  }
  if (close && sequence->count)
    cyb_chunk_close(chunks, sequence->chunks[sequence->count - 1]);
  return CYB_OK;
}

uint32_t cyb_sequence_end(const cyb_sequence *sequence, const cyb_chunks *chunks) {
  if (!sequence->count)
    return 0;
  return (sequence->count - 1) * P + chunks->items[sequence->chunks[sequence->count - 1]].count;
}

void cyb_sequence_drop_overlay(cyb_sequence *sequence, cyb_chunks *chunks) {
  for (uint32_t i = 0; sequence->overlay_pages && i < sequence->count * chunks->slots; i++) {
    if (sequence->overlay[i] == CYB_NONE)
      continue;
    cyb_pool_give(chunks->pool, sequence->overlay[i]);
    sequence->overlay[i] = CYB_NONE;
    sequence->overlay_pages--;
  }
  if (sequence->have)
    memset(sequence->have, 0, (size_t)sequence->count * P);
}

void cyb_sequence_set_inherit(cyb_sequence *sequence, cyb_chunks *chunks, int32_t inherit, uint32_t window) {
  if (sequence->window != window)
    sequence->window_end = 0;
  sequence->window = window;
  if (sequence->inherit == inherit)
    return;
  cyb_sequence_drop_overlay(sequence, chunks);
  /* what is there now was not computed under the new rule: a hole at blocks >= 2; the pending last token is still to come */
  uint32_t end = cyb_sequence_end(sequence, chunks);
  if (sequence->count) {
    memset(sequence->depth, 1, (size_t)sequence->count * P);
    memset(sequence->depth + end - 1, 0, (size_t)sequence->count * P - (end - 1));
  }
  sequence->inherit = inherit;
  sequence->window_end = 0;
}

void cyb_sequence_seal(cyb_sequence *sequence, cyb_chunks *chunks) {
  for (uint32_t i = sequence->count; i-- > sequence->shared;) {
    uint32_t id = sequence->chunks[i];
    cyb_chunk *chunk = &chunks->items[id];
    if (chunk->indexed || !chunk->closed || chunk->filled[0] != chunk->count)
      continue;
    uint32_t equal = cyb_chunk_find(chunks, chunk->parent, chunk->tokens, chunk->count);
    if (equal == CYB_NONE) {
      cyb_chunk_index(chunks, id);
      continue;
    }
    cyb_chunk_hold(chunks, equal);
    sequence->chunks[i] = equal;
    cyb_chunk_drop(chunks, id);
  }
}

void cyb_sequence_release_pages(cyb_sequence *sequence, cyb_chunks *chunks) {
  if (sequence->inherit != CYB_INHERIT_WINDOW)
    cyb_sequence_drop_overlay(sequence, chunks);
  for (uint32_t i = sequence->shared; i < sequence->count; i++)
    if (chunks->items[sequence->chunks[i]].references == 1)
      cyb_chunk_drop_pages(chunks, sequence->chunks[i]);
}

int cyb_sequence_overlay(cyb_sequence *sequence, cyb_chunks *chunks, uint32_t i, uint32_t begin, uint32_t end) {
  uint32_t *pages = sequence->overlay + (size_t)i * chunks->slots;
  uint32_t missing = 0;
  for (uint32_t s = begin; s < end; s++)
    missing += pages[s] == CYB_NONE;
  if (missing > cyb_pool_free(chunks->pool))
    return 0;
  for (uint32_t s = begin; s < end; s++) {
    if (pages[s] != CYB_NONE)
      continue;
    pages[s] = cyb_pool_take(chunks->pool, CYB_OWNER_OVERLAY | sequence->serial, CYB_LAYER_KV);
    sequence->overlay_pages++;
  }
  return 1;
}

uint32_t cyb_sequence_mask(const cyb_sequence *sequence, const cyb_chunks *chunks, uint32_t i, uint32_t k, uint32_t own) {
  const cyb_chunk *chunk = &chunks->items[sequence->chunks[i]];
  uint32_t mask = 0;
  if (CYB_MUTATED(CYB_MUTATE_ZEROS_SHARES_FILLED) && i < sequence->shared)
    return (1u << chunk->filled[k - 1]) - 1u;
  for (uint32_t b = 0; b < chunk->count; b++) {
    uint32_t position = i * P + b;
    if (position > own)
      break;
    if (position == own || (i >= sequence->shared && sequence->depth[position] >= k))
      mask |= 1u << b;
  }
  return mask;
}
