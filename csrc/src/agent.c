/* agent.c - agents: creation, episodes, fork, pause, preemption. An agent is a view into the pool and a few numbers. */
#include "engine.h"
#include "step.h"
#include <stdlib.h>
#include <string.h>

static cyb_slot *find(cyb_engine *engine, uint32_t slot) {
  if (slot >= engine->config.agents || engine->agents[slot].state == CYB_AGENT_FREE) {
    cyb_fail(CYB_NOT_FOUND, "there is no agent in slot %u", slot);
    return NULL;
  }
  return &engine->agents[slot];
}

static cyb_status check_group(const cyb_engine *engine, uint32_t group) {
  if (group >= engine->config.groups || !engine->has_group[group])
    return cyb_fail(CYB_NOT_FOUND, "there is no group %u", group);
  return CYB_OK;
}

static cyb_status check_tokens(const cyb_engine *engine, const uint32_t *tokens, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (tokens[i] >= engine->model.vocabulary)
      return cyb_fail(CYB_INVALID_ARGUMENT, "token %u at %u is outside the vocabulary of %u", tokens[i], i,
                      engine->model.vocabulary);
  return CYB_OK;
}

cyb_status cyb_group_set_policy(cyb_engine *engine, uint32_t group, const cyb_policy *policy) {
  if (group >= engine->config.groups)
    return cyb_fail(CYB_INVALID_ARGUMENT, "group %u is beyond the %u groups of this engine", group, engine->config.groups);
  cyb_status status = cyb_policy_check(engine, policy);
  if (status != CYB_OK)
    return status;
  engine->policies[group] = *policy;
  engine->has_group[group] = 1;
  return CYB_OK;
}

cyb_status cyb_group_get_policy(cyb_engine *engine, uint32_t group, cyb_policy *policy) {
  cyb_status status = check_group(engine, group);
  if (status == CYB_OK)
    *policy = engine->policies[group];
  return status;
}

void cyb_effective_depth(const cyb_engine *engine, const cyb_slot *slot, uint32_t *depth_min, uint32_t *depth_max) {
  const cyb_policy *policy = &engine->policies[slot->group];
  *depth_min = slot->depth_min ? slot->depth_min : policy->depth_min;
  *depth_max = slot->depth_min ? slot->depth_max : policy->depth_max;
}

cyb_status cyb_agent_create(cyb_engine *engine, uint32_t group, const uint8_t *id, cyb_goal_ref goal, uint64_t serial,
                            uint32_t *slot) {
  cyb_status status = check_group(engine, group);
  if (status != CYB_OK)
    return status;
  if (engine->free_slot_count == 0)
    return cyb_fail(CYB_OUT_OF_MEMORY, "all %u agent slots are taken", engine->config.agents);
  uint32_t index = engine->free_slots[--engine->free_slot_count];
  cyb_slot *fresh = &engine->agents[index];
  memset(fresh, 0, sizeof *fresh);
  memcpy(fresh->agent.id, id, CYB_CID_BYTES);
  fresh->agent.goal = goal;
  fresh->agent.personal_kv = index;
  fresh->serial = serial;
  fresh->group = group;
  fresh->state = CYB_AGENT_IDLE;
  fresh->last_token = CYB_NONE;
  cyb_sequence_init(&fresh->sequence, engine->next_serial++ & ~CYB_OWNER_OVERLAY);
  engine->has_token[index] = 0;
  *slot = index;
  return CYB_OK;
}

/* Remembers a token of the agent's stream. */
static cyb_status remember(cyb_slot *slot, uint32_t token, uint8_t depth) {
  if (slot->token_count == slot->token_capacity) {
    uint32_t capacity = slot->token_capacity ? slot->token_capacity * 2 : 32;
    uint32_t *tokens = realloc(slot->tokens, capacity * sizeof *tokens);
    if (tokens)
      slot->tokens = tokens;
    uint8_t *depths = realloc(slot->depths, capacity);
    if (depths)
      slot->depths = depths;
    if (!tokens || !depths)
      return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for the tokens of an agent");
    slot->token_capacity = capacity;
  }
  slot->tokens[slot->token_count] = token;
  slot->depths[slot->token_count++] = depth;
  return CYB_OK;
}

cyb_status cyb_agent_append(cyb_engine *engine, cyb_slot *slot, uint32_t token, uint8_t depth) {
  cyb_status status = remember(slot, token, depth);
  if (status == CYB_OK)
    status = cyb_sequence_append(&slot->sequence, &engine->chunks, token, CYB_LAYER_KV, 0);
  slot->agent.kv_slice.count = slot->sequence.count;
  return status;
}

static void count_prompt(cyb_engine *engine, const cyb_slot *slot, uint32_t first, uint32_t n) {
  engine->counters.prompt += n;
  (void)slot;
  for (uint32_t i = 0; i < n; i++)
    engine->counters.always_deepest_multiply_adds += cyb_deepest_multiply_adds(engine, first + i + 1);
}

cyb_status cyb_agent_begin(cyb_engine *engine, uint32_t slot, uint32_t context, const uint32_t *personal, uint32_t n_personal,
                           const uint32_t *prompt, uint32_t n_prompt, uint32_t stop_after) {
  cyb_slot *agent = find(engine, slot);
  const cyb_context *shared = context ? cyb_context_find(engine, context) : NULL;
  if (!agent || (context && !shared))
    return CYB_NOT_FOUND;
  if (n_prompt == 0)
    return cyb_fail(CYB_INVALID_ARGUMENT, "an episode begins with at least one token");
  cyb_status status = check_tokens(engine, personal, n_personal);
  if (status == CYB_OK)
    status = check_tokens(engine, prompt, n_prompt);
  if (status != CYB_OK)
    return status;
  uint32_t before = shared ? shared->sequence.count * CYB_PAGE_POSITIONS : 0;
  uint64_t needed = (uint64_t)before + n_personal + CYB_PAGE_POSITIONS + n_prompt + stop_after + 1;
  if (needed > engine->config.positions)
    return cyb_fail(CYB_INVALID_ARGUMENT, "an episode of %llu positions exceeds the %u of this engine",
                    (unsigned long long)needed, engine->config.positions);
  cyb_sequence *sequence = &agent->sequence;
  cyb_sequence_clear(sequence, &engine->chunks);
  const cyb_policy *policy = &engine->policies[agent->group];
  sequence->inherit = policy->inherit;
  sequence->window = policy->window;
  for (uint32_t i = 0; shared && i < shared->sequence.count && status == CYB_OK; i++)
    status = cyb_sequence_map(sequence, &engine->chunks, shared->sequence.chunks[i]);
  sequence->shared = sequence->count;
  if (status == CYB_OK && n_personal)
    status = cyb_sequence_extend(sequence, &engine->chunks, personal, n_personal, CYB_LAYER_PERSONAL, 1);
  if (status == CYB_OK)
    status = cyb_sequence_extend(sequence, &engine->chunks, prompt, n_prompt, CYB_LAYER_KV, 0);
  agent->token_count = 0;
  for (uint32_t i = 0; i < n_prompt && status == CYB_OK; i++)
    status = remember(agent, prompt[i], 0);
  if (status != CYB_OK) {
    cyb_sequence_clear(sequence, &engine->chunks);
    agent->state = CYB_AGENT_IDLE;
    return status;
  }
  count_prompt(engine, agent, before, n_personal + n_prompt - 1);
  agent->context = context;
  agent->episode++;
  agent->generated_episode = 0;
  agent->stop_after = stop_after;
  agent->admitted = 0;
  agent->agent.kv_slice.first = 0;
  agent->agent.kv_slice.count = sequence->count;
  if (agent->state != CYB_AGENT_PAUSED)
    agent->state = CYB_AGENT_RUNNING;
  return CYB_OK;
}

cyb_status cyb_agent_extend(cyb_engine *engine, uint32_t slot, const uint32_t *tokens, uint32_t n) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  if (agent->sequence.count == 0)
    return cyb_fail(CYB_BAD_STATE, "agent %u has no episode to extend", slot);
  cyb_status status = check_tokens(engine, tokens, n);
  if (status != CYB_OK)
    return status;
  if (cyb_sequence_end(&agent->sequence, &engine->chunks) + n + 1 > engine->config.positions)
    return cyb_fail(CYB_INVALID_ARGUMENT, "agent %u would exceed the %u positions of this engine", slot,
                    engine->config.positions);
  count_prompt(engine, agent, cyb_sequence_end(&agent->sequence, &engine->chunks), n);
  for (uint32_t i = 0; i < n && status == CYB_OK; i++)
    status = cyb_agent_append(engine, agent, tokens[i], 0);
  if (status == CYB_OK && agent->state == CYB_AGENT_IDLE && n) {
    agent->state = CYB_AGENT_RUNNING;
    agent->generated_episode = 0;
  }
  return status;
}

cyb_status cyb_agent_pause(cyb_engine *engine, uint32_t slot) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  agent->state = CYB_AGENT_PAUSED;
  return CYB_OK;
}

cyb_status cyb_agent_resume(cyb_engine *engine, uint32_t slot) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  if (agent->state != CYB_AGENT_PAUSED)
    return cyb_fail(CYB_BAD_STATE, "agent %u is not paused", slot);
  int full = cyb_sequence_end(&agent->sequence, &engine->chunks) >= engine->config.positions;
  int over = agent->sequence.count == 0 || full || (agent->stop_after && agent->generated_episode >= agent->stop_after);
  agent->state = over ? CYB_AGENT_IDLE : CYB_AGENT_RUNNING;
  return CYB_OK;
}

cyb_status cyb_agent_kill(cyb_engine *engine, uint32_t slot) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  cyb_sequence_free(&agent->sequence, &engine->chunks);
  free(agent->tokens);
  free(agent->depths);
  memset(agent, 0, sizeof *agent);
  engine->has_token[slot] = 0;
  engine->free_slots[engine->free_slot_count++] = slot;
  return CYB_OK;
}

static void release(cyb_engine *engine, uint32_t slot) {
  cyb_slot *agent = &engine->agents[slot];
  cyb_sequence_release_pages(&agent->sequence, &engine->chunks);
  if (agent->state == CYB_AGENT_RUNNING) {
    agent->state = CYB_AGENT_PREEMPTED;
    engine->counters.preemptions++;
    cyb_event_put(engine, CYB_EVENT_PREEMPTED, slot, 0, 0);
  }
}

cyb_status cyb_agent_release_pages(cyb_engine *engine, uint32_t slot) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  if (agent->sequence.inherit == CYB_INHERIT_WINDOW)
    return cyb_fail(CYB_UNSUPPORTED, "agent %u runs under a window: what it holds cannot be computed again", slot);
  release(engine, slot);
  return CYB_OK;
}

static uint32_t private_pages(const cyb_engine *engine, const cyb_sequence *sequence) {
  uint32_t pages = sequence->overlay_pages;
  for (uint32_t i = sequence->shared; i < sequence->count; i++)
    if (engine->chunks.items[sequence->chunks[i]].references == 1)
      pages += engine->chunks.slots - cyb_chunk_missing(&engine->chunks, sequence->chunks[i], 0, engine->chunks.slots);
  return pages;
}

int cyb_preempt_one(cyb_engine *engine) {
  uint32_t victim = CYB_NONE;
  int best_rank = -1;
  for (uint32_t a = 0; a < engine->config.agents; a++) {
    const cyb_slot *agent = &engine->agents[a];
    if (agent->state == CYB_AGENT_FREE || agent->busy || agent->sequence.inherit == CYB_INHERIT_WINDOW)
      continue;
    int rank = agent->state == CYB_AGENT_IDLE ? 2 : agent->state == CYB_AGENT_PAUSED ? 1 : 0;
    if (rank < best_rank || (rank == best_rank && agent->serial <= engine->agents[victim].serial))
      continue;
    if (private_pages(engine, &agent->sequence) == 0)
      continue;
    best_rank = rank;
    victim = a;
  }
  if (victim == CYB_NONE)
    return 0;
  release(engine, victim);
  return 1;
}

cyb_status cyb_agent_fork(cyb_engine *engine, uint32_t slot, const uint8_t *id, uint64_t serial, uint32_t *fork) {
  cyb_slot *origin = find(engine, slot);
  if (!origin)
    return CYB_NOT_FOUND;
  uint32_t index;
  cyb_status status = cyb_agent_create(engine, origin->group, id, origin->agent.goal, serial, &index);
  if (status != CYB_OK)
    return status;
  cyb_slot *child = &engine->agents[index];
  cyb_sequence *to = &child->sequence;
  const cyb_sequence *from = &origin->sequence;
  to->inherit = from->inherit;
  to->window = from->window;
  for (uint32_t i = 0; i < from->count && status == CYB_OK; i++) {
    const cyb_chunk *chunk = &engine->chunks.items[from->chunks[i]];
    if (i < from->shared || chunk->indexed) {
      status = cyb_sequence_map(to, &engine->chunks, from->chunks[i]);
    } else { /* the tail, and what preemption left without pages: recomputed from its tokens */
      uint32_t tokens[CYB_PAGE_POSITIONS], count = chunk->count;
      uint8_t layer = chunk->layer, closed = chunk->closed;
      memcpy(tokens, chunk->tokens, sizeof tokens);
      for (uint32_t b = 0; b < count && status == CYB_OK; b++)
        status = cyb_sequence_append(to, &engine->chunks, tokens[b], layer, b == 0);
      if (status == CYB_OK && closed)
        cyb_chunk_close(&engine->chunks, to->chunks[to->count - 1]);
    }
    if (i + 1 == from->shared)
      to->shared = to->count;
  }
  for (uint32_t i = 0; i < origin->token_count && status == CYB_OK; i++)
    status = remember(child, origin->tokens[i], origin->depths[i]);
  if (status != CYB_OK) {
    cyb_agent_kill(engine, index);
    return status;
  }
  if (from->count)
    memcpy(to->depth, from->depth, (size_t)from->count * CYB_PAGE_POSITIONS);
  child->context = origin->context;
  child->episode = origin->episode;
  child->depth_min = origin->depth_min;
  child->depth_max = origin->depth_max;
  child->generated_episode = origin->generated_episode;
  child->stop_after = origin->stop_after;
  child->last_token = origin->last_token;
  child->confidence = origin->confidence;
  child->agent.model_depth = origin->agent.model_depth;
  child->agent.kv_slice.count = to->count;
  child->state = origin->state == CYB_AGENT_PREEMPTED ? CYB_AGENT_RUNNING : origin->state;
  child->done = origin->done;
  *fork = index;
  return CYB_OK;
}

cyb_status cyb_agent_set_depth(cyb_engine *engine, uint32_t slot, uint32_t depth_min, uint32_t depth_max) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  if ((depth_min || depth_max) && (depth_min < 1 || depth_min > depth_max || depth_max > engine->model.levels))
    return cyb_fail(CYB_INVALID_ARGUMENT, "depth must lie within 1..%u, not %u..%u", engine->model.levels, depth_min,
                    depth_max);
  agent->depth_min = (uint8_t)depth_min;
  agent->depth_max = (uint8_t)depth_max;
  return CYB_OK;
}

cyb_status cyb_agent_set_goal(cyb_engine *engine, uint32_t slot, cyb_goal_ref goal) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  agent->agent.goal = goal;
  return CYB_OK;
}

cyb_status cyb_agent_set_next_episode(cyb_engine *engine, uint32_t slot, uint32_t episode) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  if (!episode)
    return cyb_fail(CYB_INVALID_ARGUMENT, "episodes are numbered from 1");
  agent->episode = episode - 1;
  return CYB_OK;
}

cyb_status cyb_agent_set_group(cyb_engine *engine, uint32_t slot, uint32_t group) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  cyb_status status = check_group(engine, group);
  if (status == CYB_OK)
    agent->group = group;
  return status;
}

cyb_status cyb_agent_get(cyb_engine *engine, uint32_t slot, cyb_agent *agent) {
  cyb_slot *found = find(engine, slot);
  if (!found)
    return CYB_NOT_FOUND;
  *agent = found->agent;
  return CYB_OK;
}

cyb_status cyb_agent_tokens(cyb_engine *engine, uint32_t slot, uint32_t capacity, uint32_t *tokens, uint8_t *depths,
                            uint32_t *n) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  uint32_t count = agent->token_count < capacity ? agent->token_count : capacity;
  if (count) {
    memcpy(tokens, agent->tokens, count * sizeof *tokens);
    memcpy(depths, agent->depths, count);
  }
  *n = agent->token_count;
  return CYB_OK;
}

/* The pages of block k at chunk number i that this agent reads: its overlay under zeros and window, else the chunk's. */
static const uint32_t *pages_of(const cyb_engine *engine, const cyb_sequence *sequence, uint32_t i, uint32_t k) {
  return sequence->inherit != CYB_INHERIT_BACKFILL && k > 1 && i >= sequence->shared
             ? sequence->overlay + (size_t)i * engine->chunks.slots
             : cyb_chunk_pages(&engine->chunks, sequence->chunks[i]);
}

cyb_status cyb_agent_pages(cyb_engine *engine, uint32_t slot, uint32_t chunk, uint32_t *ids, uint64_t *addresses,
                           int32_t *layer) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  if (chunk >= agent->sequence.count)
    return cyb_fail(CYB_NOT_FOUND, "agent %u has %u chunks, there is no chunk %u", slot, agent->sequence.count, chunk);
  for (uint32_t k = 1; k <= engine->model.levels; k++)
    for (uint32_t s = engine->slot_end[k - 1]; s < engine->slot_end[k]; s++) {
      ids[s] = pages_of(engine, &agent->sequence, chunk, k)[s];
      if (addresses)
        addresses[s] = ids[s] == CYB_NONE ? 0 : (uint64_t)(uintptr_t)cyb_pool_address(&engine->pool, ids[s]);
    }
  if (layer)
    *layer = engine->chunks.items[agent->sequence.chunks[chunk]].layer;
  return CYB_OK;
}

cyb_status cyb_agent_kv(cyb_engine *engine, uint32_t slot, uint32_t position, uint32_t block, uint16_t *kv) {
  cyb_slot *agent = find(engine, slot);
  if (!agent)
    return CYB_NOT_FOUND;
  const cyb_model *model = &engine->model;
  const cyb_sequence *sequence = &agent->sequence;
  uint32_t i = position / CYB_PAGE_POSITIONS, offset = position % CYB_PAGE_POSITIONS;
  if (block < 1 || block > model->levels || i >= sequence->count)
    return cyb_fail(CYB_NOT_FOUND, "agent %u has no position %u at block %u", slot, position, block);
  const cyb_chunk *chunk = &engine->chunks.items[sequence->chunks[i]];
  int is_private = sequence->inherit != CYB_INHERIT_BACKFILL && block > 1;
  int there = is_private ? i >= sequence->shared && sequence->have[position] >= block : chunk->filled[block - 1] > offset;
  if (!there || offset >= chunk->count)
    return cyb_fail(CYB_NOT_FOUND, "position %u of agent %u is a hole at block %u", position, slot, block);
  uint32_t d1 = model->width[0], hd = model->head_size, width = (engine->slot_end[block] - engine->slot_end[block - 1]) * d1;
  for (uint32_t layer = 0; layer < model->layers; layer++)
    for (uint32_t s = engine->slot_end[block - 1]; s < engine->slot_end[block]; s++) {
      const uint16_t *keys = cyb_pool_address(&engine->pool, pages_of(engine, sequence, i, block)[s]) +
                             (size_t)layer * 2 * d1 * CYB_PAGE_POSITIONS;
      const uint16_t *values = keys + (size_t)d1 * CYB_PAGE_POSITIONS;
      uint16_t *to = kv + (size_t)layer * 2 * width + (s - engine->slot_end[block - 1]) * d1;
      for (uint32_t c = 0; c < d1; c++) {
        to[c] = keys[(size_t)c * CYB_PAGE_POSITIONS + offset];
        to[width + c] = values[((size_t)(c / hd) * CYB_PAGE_POSITIONS + offset) * hd + c % hd];
      }
    }
  return CYB_OK;
}
