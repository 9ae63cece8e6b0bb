/*
** pass.h - one pass: a set of rows whose blocks are computed with the weights streamed once a block.
**
** A row is one position of one sequence. Fill rows (prefill is a fill of block 1) run blocks 1..level from their token and write what is
** missing; decode rows keep their tape between passes, so that escalation adds a block and recomputes none. Within a layer the K and V of
** all rows are written before any attention reads, so rows of one pass may depend on each other.
*/
#ifndef CYB_PASS_H
#define CYB_PASS_H
#include "sequence.h"

typedef struct cyb_row {
  cyb_sequence *sequence;
  uint32_t position; /* absolute */
  uint32_t token;
  uint32_t tape;      /* slot of its tape */
  uint8_t level;      /* blocks 1..level are computed */
  uint8_t write_from; /* blocks >= this are written */
} cyb_row;

struct cyb_engine;
enum { CYB_GATHER_DONE = 0, CYB_GATHER_ROWS_FULL = 1, CYB_GATHER_POOL_FULL = 2 };
/* Plans the rows that positions before `position` still need so that a row there may run at `level`; base = level of positions never
** computed before. Rows are appended to the engine's pass; pages are taken from the pool. What was planned stays planned when it is not
** done: run the pass and call again. */
int cyb_gather(struct cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level, uint32_t base);
/* Pages and plan of the decode row at `position` for blocks up to level; 0: pool full. */
int cyb_plan_decode(struct cyb_engine *engine, cyb_sequence *sequence, uint32_t position, uint32_t level, uint8_t *write_from);
/* Everything planned so far must be in one pass, since rows read each other's KV: runs the fill rows gathered so far, blocks 1..their level, together with block `level` (blocks 1..level when from_start) of the decode
** rows; marks what was written and counts. */
void cyb_run_pass(struct cyb_engine *engine, cyb_row *decode, uint32_t n, uint32_t level, int from_start);
#endif
