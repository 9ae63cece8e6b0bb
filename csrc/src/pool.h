/*
** pool.h - the page region: fixed-size base pages with a free list.
**
** A base page holds the K and V of 16 positions, all layers, for width[1] columns, in half floats:
**   [layer][K: heads x head_size x 16 positions | V: heads x 16 positions x head_size]
** Pages belong to exactly one owner (a chunk, or the private overlay of a sequence); sharing is sharing of the owner.
*/
#ifndef CYB_POOL_H
#define CYB_POOL_H
#include "kernels.h"

#define CYB_NONE          0xFFFFFFFFu
#define CYB_OWNER_OVERLAY 0x80000000u /* owner = this bit and a sequence serial: an overlay page */

/*
** Invariant: used + length(free list) == pages; state[p] == CYB_PAGE_FREE exactly for pages on the free list; a page that is not
** free has an owner. generation[p] grows each time p is taken.
*/
typedef struct cyb_pool {
  uint8_t *memory; /* [pages][page_bytes], mmapped, 4096-byte aligned */
  size_t page_bytes;
  size_t mapped_bytes;
  uint32_t pages, used, free_head;
  uint32_t *next;       /* [pages] free list */
  uint32_t *owner;      /* [pages] chunk id, or CYB_OWNER_OVERLAY | serial */
  uint32_t *generation; /* [pages] */
  uint8_t *state;       /* [pages] CYB_PAGE_* */
  uint8_t *layer;       /* [pages] CYB_LAYER_* */
  uint64_t copies;
} cyb_pool;

cyb_status cyb_pool_create(cyb_pool *pool, uint32_t pages, size_t page_bytes);
void cyb_pool_destroy(cyb_pool *pool);
uint32_t cyb_pool_take(cyb_pool *pool, uint32_t owner, uint8_t layer); /* CYB_NONE when the pool is full; zero-filled */
void cyb_pool_give(cyb_pool *pool, uint32_t page);
static inline uint32_t cyb_pool_free(const cyb_pool *pool) {
  return pool->pages - pool->used;
}
static inline uint16_t *cyb_pool_address(const cyb_pool *pool, uint32_t page) {
  return (uint16_t *)(void *)(pool->memory + (size_t)page * pool->page_bytes);
}
cyb_status cyb_pool_check(const cyb_pool *pool);
#endif
