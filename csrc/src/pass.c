/* pass.c - building and running a pass; see pass.h. */
#include "engine.h"
#include <string.h>

enum { P = CYB_PAGE_POSITIONS };

static void add_row(cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level, uint32_t write_from) {
  const cyb_chunk *chunk = &engine->chunks.items[sequence->chunks[position / P]];
  cyb_row *row = &engine->fill[engine->fill_count];
  row->sequence = sequence;
  row->position = position;
  row->token = chunk->tokens[position % P];
  row->tape = engine->decode_capacity + engine->fill_count;
  row->level = (uint8_t)level;
  row->write_from = (uint8_t)write_from;
  engine->fill_count++;
}

static int rows_full(const cyb_engine *engine) {
  return engine->fill_count == engine->fill_capacity || engine->fill_count == engine->fills_left;
}

/* Canonical KV of blocks 1..level for positions before `position`. */
static int gather_canonical(cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level) {
  cyb_chunks *chunks = &engine->chunks;
  for (uint32_t i = 0; i < sequence->count && i * P < position; i++) {
    uint32_t id = sequence->chunks[i];
    cyb_chunk *chunk = &chunks->items[id];
    uint32_t need = position - i * P < chunk->count ? position - i * P : chunk->count;
    for (uint32_t offset = chunk->planned[level - 1]; offset < need; offset++) {
      uint32_t from = level;
      while (from > 1 && chunk->planned[from - 2] <= offset)
        from--;
      if (rows_full(engine))
        return CYB_GATHER_ROWS_FULL;
      if (!cyb_chunk_allocate(chunks, id, engine->slot_end[from - 1], engine->slot_end[level]))
        return CYB_GATHER_POOL_FULL;
      add_row(engine, sequence, i * P + offset, level, from);
      for (uint32_t k = from; k <= level; k++)
        chunk->planned[k - 1] = (uint8_t)(offset + 1);
    }
  }
  return CYB_GATHER_DONE;
}

/* Oldest of the newest `window` holes before `position`. Chosen once a row and level: filling them takes several passes when rows or
** pages are short, and holes filled by then must not bring older ones into the window. */
static uint32_t window_start(const cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level) {
  if (sequence->window_end != position + 1) {
    sequence->window_end = position + 1;
    for (uint32_t k = 0; k < CYB_LEVELS_MAX; k++)
      sequence->window_from[k] = CYB_NONE;
  }
  uint32_t *chosen = &sequence->window_from[level - 1];
  if (*chosen != CYB_NONE)
    return *chosen;
  uint32_t first = sequence->shared * P, newest = position, left = sequence->window;
  while (newest > first && left > 0) {
    newest--;
    if (newest % P < engine->chunks.items[sequence->chunks[newest / P]].count && sequence->depth[newest] < level)
      left--;
  }
  return *chosen = newest;
}

/* Private KV of blocks >= 2 under zeros and window: what was released, and the newest holes of a window. */
static int gather_private(cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level, uint32_t base) {
  cyb_chunks *chunks = &engine->chunks;
  uint32_t first = sequence->shared * P;
  uint32_t newest =
      sequence->inherit == CYB_INHERIT_WINDOW && level > 1 ? window_start(engine, sequence, position, level) : position;
  for (uint32_t q = first; q < position; q++) {
    if (q % P >= chunks->items[sequence->chunks[q / P]].count)
      continue;
    if (sequence->depth[q] == 0)
      sequence->depth[q] = (uint8_t)base;
    uint32_t want = sequence->depth[q];
    if (sequence->inherit == CYB_INHERIT_WINDOW && level > 1 && q >= newest && want < level)
      want = level;
    uint32_t have = sequence->have[q] ? sequence->have[q] : 1;
    if (want <= have)
      continue;
    if (rows_full(engine))
      return CYB_GATHER_ROWS_FULL;
    if (!cyb_sequence_overlay(sequence, chunks, q / P, engine->slot_end[have], engine->slot_end[want]))
      return CYB_GATHER_POOL_FULL;
    add_row(engine, sequence, q, want, have + 1);
    sequence->depth[q] = sequence->have[q] = (uint8_t)want;
  }
  return CYB_GATHER_DONE;
}

int cyb_gather(cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level, uint32_t base) {
  if (sequence->inherit == CYB_INHERIT_BACKFILL)
    return gather_canonical(engine, sequence, position, level);
  int status = gather_canonical(engine, sequence, position, 1);
  return status == CYB_GATHER_DONE ? gather_private(engine, sequence, position, level, base) : status;
}

int cyb_plan_decode(cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level, uint8_t *write_from) {
  cyb_chunks *chunks = &engine->chunks;
  uint32_t id = sequence->chunks[position / P], offset = position % P;
  cyb_chunk *chunk = &chunks->items[id];
  uint32_t top = sequence->inherit == CYB_INHERIT_BACKFILL ? level : 1;
  uint32_t from = top + 1;
  while (from > 1 && chunk->planned[from - 2] <= offset)
    from--;
  uint32_t have = sequence->have[position] ? sequence->have[position] : 1;
  if (top < level && have < level &&
      !cyb_sequence_overlay(sequence, chunks, position / P, engine->slot_end[have], engine->slot_end[level]))
    return 0;
  if (from <= top && !cyb_chunk_allocate(chunks, id, engine->slot_end[from - 1], engine->slot_end[top]))
    return 0;
  if (top < level) {
    if (have < level) {
      if (from > top)
        from = have + 1;
      sequence->have[position] = (uint8_t)level;
    } else if (from > top) {
      from = level + 1;
    }
    sequence->depth[position] = (uint8_t)level;
  } else if (sequence->inherit != CYB_INHERIT_BACKFILL && sequence->depth[position] == 0) {
    sequence->depth[position] = 1;
  }
  for (uint32_t k = 1; k <= top && k <= CYB_LEVELS_MAX; k++)
    if (chunk->planned[k - 1] <= offset)
      chunk->planned[k - 1] = (uint8_t)(offset + 1);
  *write_from = (uint8_t)from;
  return 1;
}

static uint32_t attended(const cyb_engine *engine, const cyb_row *row, uint32_t k) {
  const cyb_sequence *sequence = row->sequence;
  uint32_t n = 0;
  for (uint32_t i = 0; i <= row->position / P; i++) {
    const cyb_chunk *chunk = &engine->chunks.items[sequence->chunks[i]];
    uint32_t upto = row->position - i * P + 1;
    if (sequence->inherit != CYB_INHERIT_BACKFILL && k > 1)
      n += (uint32_t)__builtin_popcount(cyb_sequence_mask(sequence, &engine->chunks, i, k, row->position));
    else
      n += upto < chunk->count ? upto : chunk->count;
  }
  return n;
}

/* KV bytes that block k of these rows reads: each chunk once a pass, however many rows read it from cache; private KV a row. */
static void count_kv(cyb_engine *engine, const cyb_row *const *rows, uint32_t n, uint32_t k) {
  cyb_chunks *chunks = &engine->chunks;
  uint64_t position_bytes = (uint64_t)(engine->slot_end[k] - engine->slot_end[k - 1]) * engine->pool.page_bytes / P;
  engine->stamp++;
  for (uint32_t r = 0; r < n; r++) {
    const cyb_sequence *sequence = rows[r]->sequence;
    if (sequence->inherit != CYB_INHERIT_BACKFILL && k > 1) {
      engine->counters.kv_bytes_personal += position_bytes * attended(engine, rows[r], k);
      continue;
    }
    for (uint32_t i = 0; i <= rows[r]->position / P; i++) {
      cyb_chunk *chunk = &chunks->items[sequence->chunks[i]];
      if (chunk->stamp == engine->stamp)
        continue;
      chunk->stamp = engine->stamp;
      uint64_t bytes = position_bytes * chunk->count;
      if (chunk->references > 1 || chunk->layer <= CYB_LAYER_GROUP)
        engine->counters.kv_bytes_shared += bytes;
      else
        engine->counters.kv_bytes_personal += bytes;
    }
  }
}

static void block_pass(cyb_engine *engine, const cyb_row *const *rows, uint32_t n, uint32_t k) {
  if (n == 0)
    return;
  const cyb_model *model = &engine->model;
  uint32_t block = model->width[k - 1] - (k > 1 ? model->width[k - 2] : 0);
  uint64_t attention = 0;
  for (uint32_t r = 0; r < n; r++)
    attention += attended(engine, rows[r], k);
  cyb_counters *counters = &engine->counters;
  counters->multiply_adds += n * cyb_layer_multiply_adds(engine, k) + 2 * attention * block * model->layers;
  counters->passes[k - 1]++;
  counters->weight_bytes[k - 1] += engine->block_bytes[k - 1];
  counters->other_bytes += n * cyb_tape_bytes(engine, k);
  count_kv(engine, rows, n, k);
  double started = cyb_seconds();
  cyb_forward_block(engine, rows, n, k);
  counters->seconds_by_level[k - 1] += cyb_seconds() - started;
}

void cyb_run_pass(cyb_engine *engine, cyb_row *decode, uint32_t n, uint32_t level, int from_start) {
  const cyb_row **rows = engine->pass_rows;
  uint32_t filled[CYB_LEVELS_MAX] = {0};
  uint32_t deepest = n ? level : 0;
  for (uint32_t r = 0; r < engine->fill_count; r++)
    if (engine->fill[r].level > deepest)
      deepest = engine->fill[r].level;
  for (uint32_t k = 1; k <= deepest; k++) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < engine->fill_count; r++)
      if (engine->fill[r].level >= k)
        rows[count++] = &engine->fill[r];
    for (uint32_t r = 0; r < n; r++)
      if (from_start ? k <= level : k == level)
        rows[count++] = &decode[r];
    block_pass(engine, rows, count, k);
  }
  cyb_chunks *chunks = &engine->chunks;
  for (uint32_t r = 0; r < engine->fill_count + n; r++) {
    const cyb_row *row = r < engine->fill_count ? &engine->fill[r] : &decode[r - engine->fill_count];
    cyb_chunk *chunk = &chunks->items[row->sequence->chunks[row->position / P]];
    int canonical = row->sequence->inherit == CYB_INHERIT_BACKFILL;
    uint32_t top = r < engine->fill_count ? row->level : level;
    for (uint32_t k = 1; k <= top; k++) {
      if (k > 1 && r < engine->fill_count && k >= row->write_from && row->write_from > 1)
        filled[k - 1]++; /* a hole; a prompt that is computed deep at once had none */
      if ((canonical || k == 1) && chunk->filled[k - 1] <= row->position % P)
        chunk->filled[k - 1] = (uint8_t)(row->position % P + 1);
      if (chunk->planned[k - 1] < chunk->filled[k - 1])
        chunk->planned[k - 1] = chunk->filled[k - 1];
    }
    if (chunk->indexed && chunk->filled[top - 1] == chunk->count)
      cyb_chunk_seal_pages(chunks, row->sequence->chunks[row->position / P]);
  }
  for (uint32_t k = 2; k <= deepest; k++) {
    engine->counters.filled[k - 1] += filled[k - 1];
    if (filled[k - 1])
      cyb_event_put(engine, CYB_EVENT_FILLED, CYB_NONE, k, filled[k - 1]);
  }
  engine->rows_run += engine->fill_count + n;
  if (engine->fills_left != CYB_NONE)
    engine->fills_left -= engine->fill_count;
  engine->fill_count = 0;
}
