/*
** chunk.h - sixteen positions with one prefix: the unit of sharing.
**
** A chunk owns the pages of its blocks. Agents, contexts and queries hold chunk ids; two holders of one chunk read the same physical
** pages. A chunk is closed when no token will be added to it (16 positions, or the end of a context layer) and sealed when it is
** closed and the router's KV of all its positions is there; only sealed chunks are found by their key.
*/
#ifndef CYB_CHUNK_H
#define CYB_CHUNK_H
#include "pool.h"

/*
** Invariant: filled[0] >= filled[1] >= ... (index = block - 1), filled[k] <= count <= 16; block k has its pages iff filled[k] > 0 or a
** pass that writes them is being built; planned[k] >= filled[k] only while a pass is built; indexed implies closed and
** filled[0] == count; references counts page tables and contexts.
*/
typedef struct cyb_chunk {
  uint64_t key[2];    /* hash of family, parent's key and tokens; valid when closed */
  uint64_t parent[2]; /* key of the chunk before it; {0,0} at the start */
  uint32_t tokens[CYB_PAGE_POSITIONS];
  uint32_t references;
  uint32_t next;  /* in its bucket, or on the free list */
  uint32_t stamp; /* last pass that counted its bytes */
  uint8_t count, layer, closed, indexed;
  uint8_t live;
  uint8_t filled[CYB_LEVELS_MAX];  /* leading positions that hold canonical block-k KV */
  uint8_t planned[CYB_LEVELS_MAX]; /* the same once the pass being built has run */
} cyb_chunk;

typedef struct cyb_chunks {
  cyb_chunk *items;                              /* [capacity] */
  uint32_t *pages;                               /* [capacity][slots] page ids, CYB_NONE = hole */
  uint32_t slots;                                /* width[K]/width[1] */
  uint32_t levels, slot_end[CYB_LEVELS_MAX + 1]; /* page slots of block k: [slot_end[k-1], slot_end[k]) */
  uint32_t capacity, live, free_head;
  uint32_t *buckets; /* [bucket_count] chunk ids */
  uint32_t bucket_count;
  uint64_t family[2];
  cyb_pool *pool; /* borrowed */
} cyb_chunks;

cyb_status cyb_chunks_create(cyb_chunks *chunks, cyb_pool *pool, uint32_t levels, const uint32_t *slot_end /* [levels+1] */,
                             const uint8_t *family /* [32] */);
void cyb_chunks_destroy(cyb_chunks *chunks);
/* A new open chunk with one reference and no page; CYB_NONE when memory is out. */
uint32_t cyb_chunk_new(cyb_chunks *chunks, const uint64_t *parent /* [2] */, uint8_t layer);
void cyb_chunk_hold(cyb_chunks *chunks, uint32_t id);
void cyb_chunk_drop(cyb_chunks *chunks, uint32_t id);  /* the last drop frees its pages */
void cyb_chunk_close(cyb_chunks *chunks, uint32_t id); /* fixes the key */
/* A sealed chunk with this prefix, not yet held for the caller; CYB_NONE if there is none. */
uint32_t cyb_chunk_find(const cyb_chunks *chunks, const uint64_t *parent, const uint32_t *tokens, uint32_t count);
void cyb_chunk_index(cyb_chunks *chunks, uint32_t id);
/* Pages of an indexed chunk's complete blocks become sealed: nothing will be written to them. */
void cyb_chunk_seal_pages(cyb_chunks *chunks, uint32_t id);
/* Pages that slots [begin, end) still need. */
uint32_t cyb_chunk_missing(const cyb_chunks *chunks, uint32_t id, uint32_t begin, uint32_t end);
int cyb_chunk_allocate(cyb_chunks *chunks, uint32_t id, uint32_t begin, uint32_t end); /* 0: pool full, nothing taken */
void cyb_chunk_drop_pages(cyb_chunks *chunks, uint32_t id);                            /* all blocks become holes */
static inline uint32_t *cyb_chunk_pages(const cyb_chunks *chunks, uint32_t id) {
  return chunks->pages + (size_t)id * chunks->slots;
}
cyb_status cyb_chunks_check(const cyb_chunks *chunks);
#endif
