/* pool.c - see pool.h. */
#define _DEFAULT_SOURCE
#include "pool.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

cyb_status cyb_pool_create(cyb_pool *pool, uint32_t pages, size_t page_bytes) {
  memset(pool, 0, sizeof *pool);
  if (pages == 0 || pages >= CYB_OWNER_OVERLAY || page_bytes == 0 || page_bytes > SIZE_MAX / pages)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a pool of %u pages of %zu bytes is not possible", pages, page_bytes);
  pool->page_bytes = page_bytes;
  pool->pages = pages;
  pool->mapped_bytes = pages * page_bytes;
  void *memory = mmap(NULL, pool->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return cyb_fail(CYB_OUT_OF_MEMORY, "no address space for %u pages of %zu bytes", pages, page_bytes);
  pool->memory = memory;
  pool->next = malloc(pages * sizeof *pool->next);
  pool->owner = malloc(pages * sizeof *pool->owner);
  pool->generation = calloc(pages, sizeof *pool->generation);
  pool->state = calloc(pages, 1);
  pool->layer = calloc(pages, 1);
  if (!pool->next || !pool->owner || !pool->generation || !pool->state || !pool->layer) {
    cyb_pool_destroy(pool);
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for the tables of %u pages", pages);
  }
  for (uint32_t p = 0; p < pages; p++) {
    pool->next[p] = p + 1 < pages ? p + 1 : CYB_NONE;
    pool->owner[p] = CYB_NONE;
  }
  return CYB_OK;
}

void cyb_pool_destroy(cyb_pool *pool) {
  if (pool->memory)
    munmap(pool->memory, pool->mapped_bytes);
  free(pool->next);
  free(pool->owner);
  free(pool->generation);
  free(pool->state);
  free(pool->layer);
  memset(pool, 0, sizeof *pool);
}

uint32_t cyb_pool_take(cyb_pool *pool, uint32_t owner, uint8_t layer) {
  uint32_t page = pool->free_head;
  if (page == CYB_NONE)
    return CYB_NONE;
  pool->free_head = pool->next[page];
  pool->used++;
  pool->owner[page] = owner;
  pool->layer[page] = layer;
  pool->state[page] = CYB_PAGE_WRITING;
  pool->generation[page]++;
  memset(cyb_pool_address(pool, page), 0,
         pool->page_bytes); /* attention reads whole chunks under a mask: no NaN from old bits */
  return page;
}

void cyb_pool_give(cyb_pool *pool, uint32_t page) {
  pool->state[page] = CYB_PAGE_FREE;
  pool->owner[page] = CYB_NONE;
  pool->next[page] = pool->free_head;
  pool->free_head = page;
  pool->used--;
}

cyb_status cyb_pool_check(const cyb_pool *pool) {
  uint32_t length = 0;
  for (uint32_t p = pool->free_head; p != CYB_NONE; p = pool->next[p]) {
    if (p >= pool->pages || pool->state[p] != CYB_PAGE_FREE || pool->owner[p] != CYB_NONE || ++length > pool->pages)
      return cyb_fail(CYB_INTERNAL, "the free list of the pool is broken at page %u", p);
  }
  if (length + pool->used != pool->pages)
    return cyb_fail(CYB_INTERNAL, "%u free and %u used pages do not add up to %u", length, pool->used, pool->pages);
  uint32_t busy = 0;
  for (uint32_t p = 0; p < pool->pages; p++)
    busy += pool->state[p] != CYB_PAGE_FREE;
  if (busy != pool->used)
    return cyb_fail(CYB_INTERNAL, "%u pages are not free, %u are counted as used", busy, pool->used);
  return CYB_OK;
}
