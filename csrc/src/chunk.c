/* chunk.c - see chunk.h. */
#include "chunk.h"
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xBF58476D1CE4E5B9u;
  h ^= h >> 27;
  h *= 0x94D049BB133111EBu;
  return h ^ (h >> 31);
}

static void key_of(const cyb_chunks *chunks, const uint64_t *parent, const uint32_t *tokens, uint32_t count, uint64_t *key) {
  for (int half = 0; half < 2; half++) {
    uint64_t h = mix(chunks->family[half], parent[half]);
    h = mix(h, count);
    for (uint32_t i = 0; i < count; i++)
      h = mix(h, tokens[i] + ((uint64_t)half << 40));
    key[half] = h ? h : 1;
  }
}

cyb_status cyb_chunks_create(cyb_chunks *chunks, cyb_pool *pool, uint32_t levels, const uint32_t *slot_end,
                             const uint8_t *family) {
  memset(chunks, 0, sizeof *chunks);
  chunks->pool = pool;
  chunks->levels = levels;
  memcpy(chunks->slot_end, slot_end, (levels + 1) * sizeof *slot_end);
  chunks->slots = slot_end[levels];
  chunks->free_head = CYB_NONE;
  memcpy(chunks->family, family, sizeof chunks->family);
  chunks->bucket_count = 1024;
  while (chunks->bucket_count < pool->pages && chunks->bucket_count < (1u << 24))
    chunks->bucket_count *= 2;
  chunks->buckets = malloc(chunks->bucket_count * sizeof *chunks->buckets);
  if (!chunks->buckets)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for the page index");
  memset(chunks->buckets, 0xFF, chunks->bucket_count * sizeof *chunks->buckets);
  return CYB_OK;
}

void cyb_chunks_destroy(cyb_chunks *chunks) {
  free(chunks->items);
  free(chunks->pages);
  free(chunks->buckets);
  memset(chunks, 0, sizeof *chunks);
}

static int grow(cyb_chunks *chunks) {
  uint32_t capacity = chunks->capacity ? chunks->capacity * 2 : 256;
  cyb_chunk *items = realloc(chunks->items, capacity * sizeof *items);
  if (!items)
    return 0;
  chunks->items = items;
  uint32_t *pages = realloc(chunks->pages, (size_t)capacity * chunks->slots * sizeof *pages);
  if (!pages)
    return 0;
  chunks->pages = pages;
  memset(items + chunks->capacity, 0, (capacity - chunks->capacity) * sizeof *items);
  for (uint32_t i = capacity; i-- > chunks->capacity;) {
    items[i].next = chunks->free_head;
    chunks->free_head = i;
  }
  chunks->capacity = capacity;
  return 1;
}

uint32_t cyb_chunk_new(cyb_chunks *chunks, const uint64_t *parent, uint8_t layer) {
  if (chunks->free_head == CYB_NONE && !grow(chunks))
    return CYB_NONE;
  uint32_t id = chunks->free_head;
  cyb_chunk *chunk = &chunks->items[id];
  chunks->free_head = chunk->next;
  memset(chunk, 0, sizeof *chunk);
  chunk->parent[0] = parent[0];
  chunk->parent[1] = parent[1];
  chunk->references = 1;
  chunk->layer = layer;
  chunk->live = 1;
  chunk->next = CYB_NONE;
  for (uint32_t s = 0; s < chunks->slots; s++)
    cyb_chunk_pages(chunks, id)[s] = CYB_NONE;
  chunks->live++;
  return id;
}

void cyb_chunk_hold(cyb_chunks *chunks, uint32_t id) {
  chunks->items[id].references++;
}

static uint32_t *bucket_of(const cyb_chunks *chunks, const uint64_t *key) {
  return &chunks->buckets[key[0] & (chunks->bucket_count - 1)];
}

static void unindex(cyb_chunks *chunks, uint32_t id) {
  cyb_chunk *chunk = &chunks->items[id];
  if (!chunk->indexed)
    return;
  uint32_t *at = bucket_of(chunks, chunk->key);
  while (*at != id)
    at = &chunks->items[*at].next;
  *at = chunk->next;
  chunk->next = CYB_NONE;
  chunk->indexed = 0;
}

void cyb_chunk_drop_pages(cyb_chunks *chunks, uint32_t id) {
  uint32_t *pages = cyb_chunk_pages(chunks, id);
  unindex(chunks, id);
  for (uint32_t s = 0; s < chunks->slots; s++) {
    if (pages[s] != CYB_NONE)
      cyb_pool_give(chunks->pool, pages[s]);
    pages[s] = CYB_NONE;
  }
  memset(chunks->items[id].filled, 0, CYB_LEVELS_MAX);
  memset(chunks->items[id].planned, 0, CYB_LEVELS_MAX);
}

void cyb_chunk_drop(cyb_chunks *chunks, uint32_t id) {
  cyb_chunk *chunk = &chunks->items[id];
  if (--chunk->references > 0)
    return;
  cyb_chunk_drop_pages(chunks, id);
  chunk->live = 0;
  chunk->next = chunks->free_head;
  chunks->free_head = id;
  chunks->live--;
}

void cyb_chunk_close(cyb_chunks *chunks, uint32_t id) {
  cyb_chunk *chunk = &chunks->items[id];
  if (chunk->closed)
    return;
  chunk->closed = 1;
  key_of(chunks, chunk->parent, chunk->tokens, chunk->count, chunk->key);
}

uint32_t cyb_chunk_find(const cyb_chunks *chunks, const uint64_t *parent, const uint32_t *tokens, uint32_t count) {
  uint64_t key[2];
  key_of(chunks, parent, tokens, count, key);
  for (uint32_t id = *bucket_of(chunks, key); id != CYB_NONE; id = chunks->items[id].next) {
    const cyb_chunk *chunk = &chunks->items[id];
    if (chunk->key[0] == key[0] && chunk->key[1] == key[1] && chunk->count == count && chunk->parent[0] == parent[0] &&
        chunk->parent[1] == parent[1] && memcmp(chunk->tokens, tokens, count * sizeof *tokens) == 0)
      return id;
  }
  return CYB_NONE;
}

void cyb_chunk_index(cyb_chunks *chunks, uint32_t id) {
  cyb_chunk *chunk = &chunks->items[id];
  if (chunk->indexed)
    return;
  uint32_t *bucket = bucket_of(chunks, chunk->key);
  chunk->next = *bucket;
  *bucket = id;
  chunk->indexed = 1;
  cyb_chunk_seal_pages(chunks, id);
}

void cyb_chunk_seal_pages(cyb_chunks *chunks, uint32_t id) {
  const cyb_chunk *chunk = &chunks->items[id];
  for (uint32_t k = 1; k <= chunks->levels && chunk->indexed && chunk->filled[k - 1] == chunk->count; k++)
    for (uint32_t s = chunks->slot_end[k - 1]; s < chunks->slot_end[k]; s++)
      chunks->pool->state[cyb_chunk_pages(chunks, id)[s]] = CYB_PAGE_SEALED;
}

uint32_t cyb_chunk_missing(const cyb_chunks *chunks, uint32_t id, uint32_t begin, uint32_t end) {
  const uint32_t *pages = cyb_chunk_pages(chunks, id);
  uint32_t missing = 0;
  for (uint32_t s = begin; s < end; s++)
    missing += pages[s] == CYB_NONE;
  return missing;
}

int cyb_chunk_allocate(cyb_chunks *chunks, uint32_t id, uint32_t begin, uint32_t end) {
  if (cyb_chunk_missing(chunks, id, begin, end) > cyb_pool_free(chunks->pool))
    return 0;
  uint32_t *pages = cyb_chunk_pages(chunks, id);
  for (uint32_t s = begin; s < end; s++)
    if (pages[s] == CYB_NONE)
      pages[s] = cyb_pool_take(chunks->pool, id, chunks->items[id].layer);
  return 1;
}

static int is_found(const cyb_chunks *chunks, uint32_t id) {
  uint32_t at = *bucket_of(chunks, chunks->items[id].key), steps = 0;
  while (at != CYB_NONE && at != id && at < chunks->capacity && steps++ < chunks->live)
    at = chunks->items[at].next;
  return at == id;
}

/* Pages belong to their chunk; a block has all of its pages or none; those of an indexed chunk's complete blocks are sealed, no others. */
static cyb_status check_pages(const cyb_chunks *chunks, uint32_t id) {
  const cyb_chunk *chunk = &chunks->items[id];
  for (uint32_t k = 1; k <= chunks->levels; k++) {
    int sealed = chunk->indexed && chunk->filled[k - 1] == chunk->count;
    for (uint32_t s = chunks->slot_end[k - 1]; s < chunks->slot_end[k]; s++) {
      uint32_t page = cyb_chunk_pages(chunks, id)[s];
      if ((page == CYB_NONE) != (chunk->filled[k - 1] == 0))
        return cyb_fail(CYB_INTERNAL, "chunk %u holds %u positions of block %u but not their pages", id, chunk->filled[k - 1],
                        k);
      if (page == CYB_NONE)
        continue;
      if (page >= chunks->pool->pages || chunks->pool->owner[page] != id)
        return cyb_fail(CYB_INTERNAL, "page %u of chunk %u belongs to another owner", page, id);
      if (chunks->pool->state[page] != (sealed ? CYB_PAGE_SEALED : CYB_PAGE_WRITING))
        return cyb_fail(CYB_INTERNAL, "page %u of chunk %u is in state %u", page, id, chunks->pool->state[page]);
    }
  }
  return CYB_OK;
}

cyb_status cyb_chunks_check(const cyb_chunks *chunks) {
  uint32_t live = 0, indexed = 0, found = 0;
  for (uint32_t id = 0; id < chunks->capacity; id++) {
    const cyb_chunk *chunk = &chunks->items[id];
    if (!chunk->live)
      continue;
    live++;
    if (chunk->references == 0 || chunk->count > CYB_PAGE_POSITIONS)
      return cyb_fail(CYB_INTERNAL, "chunk %u has %u holders and %u positions", id, chunk->references, chunk->count);
    for (int k = 0; k < CYB_LEVELS_MAX; k++)
      if (chunk->filled[k] > (k ? chunk->filled[k - 1] : chunk->count) || chunk->planned[k] != chunk->filled[k])
        return cyb_fail(CYB_INTERNAL, "chunk %u: block %d holds %u positions, %u planned", id, k + 1, chunk->filled[k],
                        chunk->planned[k]);
    if (chunk->indexed && (!chunk->closed || chunk->filled[0] != chunk->count))
      return cyb_fail(CYB_INTERNAL, "chunk %u is indexed before it is sealed", id);
    if (chunk->indexed && !is_found(chunks, id))
      return cyb_fail(CYB_INTERNAL, "chunk %u is indexed but not found by its key", id);
    indexed += chunk->indexed;
    cyb_status status = check_pages(chunks, id);
    if (status != CYB_OK)
      return status;
  }
  for (uint32_t b = 0; b < chunks->bucket_count; b++)
    for (uint32_t id = chunks->buckets[b]; id != CYB_NONE; id = chunks->items[id].next, found++)
      if (id >= chunks->capacity || found >= indexed || !chunks->items[id].live || !chunks->items[id].indexed)
        return cyb_fail(CYB_INTERNAL, "the page index names chunk %u, which is not sealed", id);
  if (found != indexed)
    return cyb_fail(CYB_INTERNAL, "%u chunks are indexed, the index holds %u", indexed, found);
  if (live != chunks->live)
    return cyb_fail(CYB_INTERNAL, "%u chunks live, %u counted", live, chunks->live);
  for (uint32_t p = 0; p < chunks->pool->pages; p++) {
    uint32_t owner = chunks->pool->owner[p];
    if (owner != CYB_NONE && !(owner & CYB_OWNER_OVERLAY) && (owner >= chunks->capacity || !chunks->items[owner].live))
      return cyb_fail(CYB_INTERNAL, "page %u belongs to chunk %u, which is gone", p, owner);
  }
  return CYB_OK;
}
