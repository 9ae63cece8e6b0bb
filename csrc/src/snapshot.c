/* snapshot.c - what others see of the engine: agents as arrays, the pool as a map, and the event ring. */
#include "engine.h"
#include <string.h>

static uint32_t holders_of(const cyb_engine *engine, uint32_t page) {
  uint32_t owner = engine->pool.owner[page];
  if (owner == CYB_NONE)
    return 0;
  return owner & CYB_OWNER_OVERLAY ? 1 : engine->chunks.items[owner].references;
}

cyb_status cyb_pool_info_get(cyb_engine *engine, cyb_pool_info *info) {
  memset(info, 0, sizeof *info);
  info->base_page_bytes = engine->pool.page_bytes;
  info->pages_total = engine->pool.pages;
  info->pages_used = engine->pool.used;
  for (uint32_t p = 0; p < engine->pool.pages; p++) {
    if (engine->pool.state[p] == CYB_PAGE_FREE)
      continue;
    info->pages_by_layer[engine->pool.layer[p]]++;
    info->pages_shared += holders_of(engine, p) > 1;
  }
  for (uint32_t a = 0; a < engine->config.agents; a++) {
    const cyb_slot *slot = &engine->agents[a];
    if (slot->state == CYB_AGENT_FREE)
      continue;
    info->agents++;
    info->agent_state_bytes +=
        sizeof *slot + (uint64_t)slot->token_capacity * (sizeof *slot->tokens + 1) +
        (uint64_t)slot->sequence.capacity * (sizeof(uint32_t) * (1 + engine->chunks.slots) + 2 * CYB_PAGE_POSITIONS);
  }
  return CYB_OK;
}

cyb_status cyb_pool_map(cyb_engine *engine, uint8_t *state, uint8_t *layer, uint32_t *holders) {
  memcpy(state, engine->pool.state, engine->pool.pages);
  memcpy(layer, engine->pool.layer, engine->pool.pages);
  for (uint32_t p = 0; p < engine->pool.pages; p++)
    holders[p] = holders_of(engine, p);
  return CYB_OK;
}

cyb_status cyb_pool_holders(cyb_engine *engine, uint32_t page, uint32_t capacity, uint32_t *slots, uint32_t *n) {
  if (page >= engine->pool.pages)
    return cyb_fail(CYB_INVALID_ARGUMENT, "page %u is beyond the %u pages of the pool", page, engine->pool.pages);
  uint32_t owner = engine->pool.owner[page], count = 0;
  for (uint32_t a = 0; owner != CYB_NONE && a < engine->config.agents; a++) {
    const cyb_sequence *sequence = &engine->agents[a].sequence;
    int holds = owner == (CYB_OWNER_OVERLAY | sequence->serial) && sequence->overlay_pages > 0;
    for (uint32_t i = 0; !holds && i < sequence->count; i++)
      holds = sequence->chunks[i] == owner;
    if (!holds)
      continue;
    if (count < capacity)
      slots[count] = a;
    count++;
  }
  *n = count;
  return CYB_OK;
}

cyb_status cyb_pool_copy_page(cyb_engine *engine, uint32_t from, uint32_t *to) {
  if (from >= engine->pool.pages || engine->pool.state[from] == CYB_PAGE_FREE)
    return cyb_fail(CYB_INVALID_ARGUMENT, "page %u holds nothing to copy", from);
  engine->pool.copies++;
  uint32_t page = engine->pool.free_head;
  if (page == CYB_NONE)
    return cyb_fail(CYB_POOL_FULL, "no free page to copy page %u to", from);
  /* the copy belongs to nobody: it is a free page with the same bytes */
  memcpy(cyb_pool_address(&engine->pool, page), cyb_pool_address(&engine->pool, from), engine->pool.page_bytes);
  *to = page;
  return CYB_OK;
}

cyb_status cyb_snapshot_get(cyb_engine *engine, cyb_snapshot *s, uint32_t *agents) {
  uint32_t live = 0, levels = engine->model.levels;
  for (uint32_t a = 0; a < engine->config.agents; a++) {
    const cyb_slot *slot = &engine->agents[a];
    const cyb_sequence *sequence = &slot->sequence;
    live += slot->state != CYB_AGENT_FREE;
    if (s->state)
      s->state[a] = slot->state;
    if (s->depth)
      s->depth[a] = (uint8_t)slot->agent.model_depth;
    uint32_t depth_min, depth_max;
    cyb_effective_depth(engine, slot, &depth_min, &depth_max);
    if (s->depth_min)
      s->depth_min[a] = (uint8_t)depth_min;
    if (s->depth_max)
      s->depth_max[a] = (uint8_t)depth_max;
    if (s->group)
      s->group[a] = slot->group;
    if (s->goal)
      s->goal[a] = slot->agent.goal;
    if (s->last_token)
      s->last_token[a] = slot->last_token;
    if (s->generated)
      s->generated[a] = slot->generated;
    for (uint32_t k = 0; s->by_level && k < levels; k++)
      s->by_level[(size_t)a * levels + k] = slot->by_level[k];
    if (s->positions) {
      uint32_t positions = 0;
      for (uint32_t i = 0; i < sequence->count; i++)
        positions += engine->chunks.items[sequence->chunks[i]].count;
      s->positions[a] = positions;
    }
    if (s->pages_private || s->pages_shared) {
      uint32_t own = sequence->overlay_pages, shared = 0;
      for (uint32_t i = 0; i < sequence->count; i++) {
        uint32_t pages =
            engine->chunks.slots - cyb_chunk_missing(&engine->chunks, sequence->chunks[i], 0, engine->chunks.slots);
        if (engine->chunks.items[sequence->chunks[i]].references > 1)
          shared += pages;
        else
          own += pages;
      }
      if (s->pages_private)
        s->pages_private[a] = own;
      if (s->pages_shared)
        s->pages_shared[a] = shared;
    }
    if (s->confidence)
      s->confidence[a] = slot->confidence;
  }
  *agents = live;
  return CYB_OK;
}

void cyb_event_put(cyb_engine *engine, uint32_t kind, uint32_t slot, uint32_t a, uint32_t b) {
  if (engine->event_tail - engine->event_head == engine->config.events) {
    engine->event_head++;
    engine->counters.events_lost++;
  }
  cyb_event event = {engine->event_tail, engine->tick, kind, slot, a, b};
  engine->events[engine->event_tail++ % engine->config.events] = event;
}

cyb_status cyb_events_drain(cyb_engine *engine, uint32_t capacity, cyb_event *events, uint32_t *n) {
  uint32_t count = 0;
  while (count < capacity && engine->event_head < engine->event_tail)
    events[count++] = engine->events[engine->event_head++ % engine->config.events];
  *n = count;
  return CYB_OK;
}
