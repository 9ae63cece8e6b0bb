/* test_pool.c - random takings and givings keep the invariants of pool and chunks. */
#include "chunk.h"
#include <stdio.h>
#include <string.h>

int main(void) {
  cyb_pool pool;
  cyb_chunks chunks;
  static const uint32_t slot_end[4] = {0, 1, 2, 4};
  uint8_t family[32] = {7};
  uint32_t held[64], count = 0, failures = 0;
  if (cyb_pool_create(&pool, 200, 256) != CYB_OK || cyb_chunks_create(&chunks, &pool, 3, slot_end, family) != CYB_OK)
    return 1;
  for (uint64_t step = 0; step < 20000; step++) {
    uint64_t draw = cyb_random_u64(1, 2, step);
    if (count < 64 && draw % 3) {
      uint64_t parent[2] = {draw % 5, 1};
      uint32_t id = draw % 7 == 0 && count ? held[draw % count] : CYB_NONE;
      if (id != CYB_NONE) {
        cyb_chunk_hold(&chunks, id);
      } else {
        id = cyb_chunk_new(&chunks, parent, CYB_LAYER_KV);
        cyb_chunk *chunk = &chunks.items[id];
        while (chunk->count < CYB_PAGE_POSITIONS)
          chunk->tokens[chunk->count++] = (uint32_t)(draw >> 8) % 11;
        cyb_chunk_close(&chunks, id);
        if (cyb_chunk_allocate(&chunks, id, 0, slot_end[1 + draw % 3])) {
          for (uint32_t k = 0; k <= draw % 3; k++)
            chunk->filled[k] = chunk->planned[k] = chunk->count;
          if (cyb_chunk_find(&chunks, chunk->parent, chunk->tokens, chunk->count) == CYB_NONE)
            cyb_chunk_index(&chunks, id);
        }
      }
      held[count++] = id;
    } else if (count) {
      uint32_t at = (uint32_t)(draw >> 5) % count;
      cyb_chunk_drop(&chunks, held[at]);
      held[at] = held[--count];
    }
    if (step % 50 == 0 && (cyb_pool_check(&pool) != CYB_OK || cyb_chunks_check(&chunks) != CYB_OK)) {
      printf("step %llu: %s\n", (unsigned long long)step, cyb_last_error());
      failures++;
    }
  }
  while (count)
    cyb_chunk_drop(&chunks, held[--count]);
  if (pool.used != 0 || chunks.live != 0)
    failures++;
  cyb_chunks_destroy(&chunks);
  cyb_pool_destroy(&pool);
  printf("%u failures\n", failures);
  return failures != 0;
}
