/* engine.h - the state behind cyb_engine, shared by the modules of the runtime. */
#ifndef CYB_ENGINE_H
#define CYB_ENGINE_H
#include "pass.h"
#include <stdatomic.h>

/*
** Working memory of rows: one slot a row. Arrays named q* are quantised inputs of products, one set a layer, columns appended block by
** block. Shapes: D = width[K], F = ffn_width[K], G = D/32.
*/
typedef struct cyb_tape {
  uint32_t slots;
  uint32_t layers, width, ffn;
  float *x;                                        /* [slots][D] residual stream */
  int16_t *input_q, *mixed_q, *middle_q;           /* [layers][slots][D] */
  float *input_scale, *mixed_scale, *middle_scale; /* [layers][slots][G] */
  int16_t *units_q;                                /* [layers][slots][F] */
  float *units_scale;                              /* [layers][slots][F/32] */
  float *input_f, *mixed_f, *middle_f, *units_f;   /* f32 copies for f16 weights, else NULL; same shapes as q */
  int16_t *final_q;                                /* [slots][D] */
  float *final_scale;                              /* [slots][G] */
  float *squares;                                  /* [2*layers+1][slots] sums of squares of the blocks so far */
  float *query, *key, *value, *delta;              /* [slots][largest block] */
  float *gate, *up;                                /* [slots][largest ffn block] */
} cyb_tape;

/* An immutable shared prefix. Its chunks outlive it while agents hold them. */
typedef struct cyb_context {
  cyb_sequence sequence;
  uint8_t live, sealed;
} cyb_context;

/* Scheduler state of one agent, beside its five fields. */
typedef struct cyb_slot {
  cyb_agent agent;
  cyb_sequence sequence;
  uint64_t serial, episode;
  uint32_t group, context;
  uint8_t state, depth_min, depth_max; /* 0,0 = the group's */
  uint8_t done;                        /* has its token of this tick */
  uint8_t busy;                        /* in the batch that runs now: its pages must stay */
  uint8_t admitted;                    /* its episode has run at least once */
  uint32_t *tokens;                    /* [token_capacity] prompt and generated */
  uint8_t *depths;                     /* [token_capacity] */
  uint32_t token_count, token_capacity;
  uint32_t generated_episode, stop_after;
  uint32_t generated, by_level[CYB_LEVELS_MAX];
  uint32_t last_token;
  float confidence;
} cyb_slot;

enum { CYB_JOB_NO_ROOM = 1, CYB_JOB_LATER = 2 }; /* the pool is full; this call has computed enough */

/* Targets of a query and where they stand; rank.c. Counts are sums over tiles, whoever adds them. */
typedef struct cyb_ranks {
  const uint32_t *targets;  /* [n] */
  const uint32_t *left_out; /* [left_out_count] ascending, each once */
  uint32_t n, left_out_count;
  uint32_t candidates;         /* ids [0, candidates) are counted; 0: only logits are wanted */
  float *logit;                /* [n] */
  atomic_uint *better, *equal; /* [n] */
} cyb_ranks;

/* What a decode row is to do and what came of it: agents and queries alike. */
typedef struct cyb_job {
  cyb_row row;
  const cyb_policy *policy;
  uint32_t depth_min, depth_max;
  uint32_t owner;            /* agent slot or query number */
  uint32_t level;            /* level computed last; answered there when done */
  uint8_t answered, dropped; /* dropped: CYB_JOB_* */
  float top[CYB_LEVELS_MAX];
  float features[CYB_LEVELS_MAX][CYB_GAIN_FEATURES];
  float maximum, sum;     /* of the logits at `level` */
  float *logits;          /* [vocabulary] when wanted, else NULL */
  const cyb_ranks *ranks; /* NULL when nobody asks */
  cyb_best best;
} cyb_job;

typedef struct cyb_engine {
  cyb_model model;
  cyb_matrix *matrices; /* copies of the model's matrix headers */
  cyb_engine_config config;
  const cyb_kernels *kernels;
  cyb_threads *threads;
  cyb_pool pool;
  cyb_chunks chunks;
  cyb_tape tape;
  uint32_t slot_end[CYB_LEVELS_MAX + 1]; /* page slots of block k: [slot_end[k-1], slot_end[k]) */
  float *cosine, *sine;                  /* [positions][head_size/2] */
  int32_t has_f16;
  cyb_row *fill; /* [fill_capacity] rows of the pass being built */
  uint32_t fill_count, fill_capacity, decode_capacity;
  uint32_t fills_left;       /* fill rows that this call may still compute, CYB_NONE = no bound */
  uint64_t rows_run;         /* rows of all passes since creation */
  const cyb_row **pass_rows; /* [tape.slots] of the block being computed */
  uint32_t *pass_slots;      /* [tape.slots] their slots */
  uint64_t cached_bytes;     /* weights of a block and layer that stay in a worker's cache; larger ones are split by panels */
  cyb_row *decode;           /* [decode_capacity] decode rows planned for the pass being built */
  cyb_job **job_set;         /* [decode_capacity] jobs that take a level together */
  cyb_job *batch;            /* [batch_count] jobs that run now */
  uint32_t batch_count;
  uint32_t stamp;
  cyb_slot *agents; /* [config.agents] */
  uint32_t *free_slots, free_slot_count;
  cyb_policy *policies; /* [config.groups] */
  uint8_t *has_group;
  cyb_context *contexts; /* [context_capacity], index = id - 1 */
  uint32_t context_capacity;
  uint32_t next_serial; /* of sequences */
  uint64_t tick;
  int32_t tick_open;
  cyb_job *jobs;      /* [decode_capacity] */
  cyb_token *tokens;  /* [config.agents] of the present or last tick, indexed by slot */
  uint8_t *has_token; /* [config.agents] */
  cyb_counters counters;
  uint64_t model_bytes; /* all packed weights and E */
  uint64_t block_bytes[CYB_LEVELS_MAX], table_bytes[CYB_LEVELS_MAX];
  cyb_event *events; /* ring [config.events] */
  uint64_t event_head, event_tail;
  float *tile_stats;      /* [decode_capacity][tiles][2] */
  cyb_best *partial_best; /* [threads][decode_capacity] */
  float *scratch;         /* [threads][scratch_floats] */
  size_t scratch_floats;
  atomic_uint defects; /* CYB_DEBUG: KV that was computed again and came out with other bits */
} cyb_engine;

const cyb_matrix *cyb_weight(const cyb_engine *engine, uint32_t layer, uint32_t block, uint32_t which);
void cyb_event_put(cyb_engine *engine, uint32_t kind, uint32_t slot, uint32_t a, uint32_t b);
uint64_t cyb_layer_multiply_adds(const cyb_engine *engine, uint32_t block); /* products of one row, one block, all layers */
/* forward.c: computes block k of rows[0..n) over all layers. */
void cyb_forward_block(cyb_engine *engine, const cyb_row *const *rows, uint32_t n, uint32_t k);
size_t cyb_forward_scratch(const cyb_engine *engine); /* floats a worker needs for it */
/* output.c: distribution of jobs[0..n) at level k. Sets job->level. */
void cyb_output(cyb_engine *engine, cyb_job **jobs, uint32_t n, uint32_t k);
/* rank.c: logits of a job's targets, before the first tile; counts of one tile of logits. */
struct cyb_output_task;
void cyb_ranks_begin(const struct cyb_output_task *t, const cyb_job *job, float *scratch);
void cyb_ranks_tile(const cyb_ranks *ranks, const float *logits, uint32_t first, uint32_t rows);
/* decide.c */
int cyb_policy_answers(const cyb_engine *engine, const cyb_job *job, uint32_t k);
void cyb_job_features(cyb_job *job, uint32_t k); /* of the distribution at level k */
uint32_t cyb_sample(const cyb_job *job, float temperature, float unit, float *probability);
cyb_status cyb_policy_check(const cyb_engine *engine, const cyb_policy *policy);
/* run.c: brings jobs to their answers; returns how many were answered; the rest say why they were dropped and may be tried again. */
uint32_t cyb_run_jobs(cyb_engine *engine, cyb_job *jobs, uint32_t n);
/* agent.c: frees the pages of the least valuable agent outside the running batch: idle ones first, then the newest. 0: there is none. */
int cyb_preempt_one(cyb_engine *engine);
/* context.c: frees pages of some chunks that no job of the running batch reads, whoever else holds them. 0: there are none. */
int cyb_reclaim(cyb_engine *engine);
double cyb_seconds(void); /* monotonic clock */
void cyb_effective_depth(const cyb_engine *engine, const cyb_slot *slot, uint32_t *depth_min, uint32_t *depth_max);
/* counters.c: bytes of one row's activations: what block k writes to the tape and reads from it; what its products read of `columns`. */
uint64_t cyb_tape_bytes(const cyb_engine *engine, uint32_t k);
uint64_t cyb_input_bytes(const cyb_engine *engine, uint32_t k, uint32_t columns);
/* multiply-adds of one row at the deepest level that attends to `attended` positions */
uint64_t cyb_deepest_multiply_adds(const cyb_engine *engine, uint32_t attended);
const cyb_context *cyb_context_find(const cyb_engine *engine,
                                    uint32_t context); /* NULL and an error text when it is not there */
void cyb_contexts_seal(cyb_engine *engine);
#endif
