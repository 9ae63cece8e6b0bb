/* step.h - what the tick, the agents and the counters share. */
#ifndef CYB_STEP_H
#define CYB_STEP_H
#include "engine.h"

/* Adds a token behind the agent's last: to its stream and to its sequence. */
cyb_status cyb_agent_append(cyb_engine *engine, cyb_slot *slot, uint32_t token, uint8_t depth);
/* The two models of other systems, and what always running deepest would cost; see cyb_counters. */
void cyb_count_batched_step(cyb_engine *engine);
void cyb_count_generated(cyb_engine *engine, const cyb_sequence *sequence, uint32_t position);
#endif
