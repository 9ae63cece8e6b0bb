/*
** cyb.h - the whole public interface of the native runtime.
**
** Contract, for every function unless it says otherwise:
**   - returns cyb_status; on failure cyb_last_error() explains it in one sentence and nothing was changed;
**   - pointers are borrowed for the call only; arrays are caller-owned; NULL is allowed only where a comment says so;
**   - one thread at a time calls into one engine (the runtime's step thread); the engine uses its own workers inside a call.
** Ids: levels count from 1 (router) to K (general); blocks likewise; block k = columns width[k-1]..width[k].
** This file is read by the C compiler and by cffi: keep it free of #define values and of function-like macros.
*/
#ifndef CYB_H
#define CYB_H
#include <stddef.h>
#include <stdint.h>
#pragma GCC visibility push(default)

enum {
  CYB_LEVELS_MAX = 8,
  CYB_PAGE_POSITIONS = 16, /* positions in a page = attention chunk */
  CYB_QUANT_GROUP = 32,    /* elements that share a scale */
  CYB_PANEL_ROWS = 16,     /* output rows packed together */
  CYB_VOCAB_TILE = 4096,   /* rows of a softmax tile */
  CYB_CANDIDATES = 64,     /* best tokens kept of a distribution */
  CYB_GAIN_FEATURES = 6,
  CYB_CID_BYTES = 36 /* CIDv1, raw codec, sha2-256 */
};

typedef enum {
  CYB_OK = 0,
  CYB_INVALID_ARGUMENT = 1,
  CYB_OUT_OF_MEMORY = 2,
  CYB_POOL_FULL = 3,
  CYB_NOT_FOUND = 4,
  CYB_BAD_STATE = 5,
  CYB_UNSUPPORTED = 6,
  CYB_INTERNAL = 7 /* an invariant does not hold: a bug */
} cyb_status;

/* One sentence about the last failure on this thread; never NULL; valid until the next call on this thread. */
const char *cyb_last_error(void);
const char *cyb_version(void);

/* ---- instruction sets ---------------------------------------------------------------------------------------- */
enum { CYB_ISA_AUTO = 0, CYB_ISA_REFERENCE = 1, CYB_ISA_AVX2 = 2, CYB_ISA_NEON = 3 };
int32_t cyb_isa_best(void);             /* best this machine and build offer, never AUTO */
int32_t cyb_isa_supported(int32_t isa); /* 1 or 0 */
const char *cyb_isa_name(int32_t isa);  /* "reference", "avx2", "neon" */

/* ---- model --------------------------------------------------------------------------------------------------- */
enum { CYB_F16 = 0, CYB_Q8 = 1 };
/*
** Packed matrices. rows is padded with zero rows to a multiple of CYB_PANEL_ROWS in storage (rows itself is not);
** columns is a multiple of CYB_QUANT_GROUP. One panel = 16 rows, panels in row order.
**   F16: panel = columns x [16 rows] half floats                       (index: panel, column, row)
**   Q8:  panel = columns/32 groups of 544 bytes: 16 f16 scales (one a row), then 512 int8 ordered
**        [column pair 0..15][row 0..15][2]; value = scale * int8
*/
typedef struct cyb_matrix {
  int32_t type;     /* CYB_F16 or CYB_Q8 */
  uint32_t rows;    /* outputs */
  uint32_t columns; /* inputs */
  const void *data; /* packed, 32-byte aligned */
  size_t bytes;     /* exact packed size; validated */
} cyb_matrix;

enum { CYB_W_Q = 0, CYB_W_K, CYB_W_V, CYB_W_O, CYB_W_GATE, CYB_W_UP, CYB_W_DOWN, CYB_W_COUNT };
/*
** Shapes, with D_k = width[k], B_k = D_k - D_{k-1}, F_k = ffn_width[k] (cumulative), F'_k = F_k - F_{k-1}:
**   Q, K, V  B_k x D_k      O  B_k x D_k      GATE, UP  F'_k x D_k      DOWN  B_k x F_k
** Gains and the 1/sqrt(head_size) of attention are folded into the weights (Q) at export.
** Invariant: width[] ascending multiples of 32, of width[1] and of head_size; ffn_width[] ascending multiples of 32.
*/
typedef struct cyb_model {
  uint32_t levels, layers, head_size;
  uint32_t vocabulary;                   /* tokens: particles, then semcons, then control tokens */
  uint32_t particles;                    /* ids [0, particles) */
  uint32_t width[CYB_LEVELS_MAX];        /* [0] is level 1 */
  uint32_t ffn_width[CYB_LEVELS_MAX];    /* cumulative, [0] is level 1 */
  float epsilon, rope_base, input_scale; /* x_0 = input_scale * E[token] */
  float tau[CYB_LEVELS_MAX], beta[CYB_LEVELS_MAX];
  const float *log_focus;      /* [vocabulary] ln of focus */
  const cyb_matrix *embedding; /* [levels]: vocabulary x B_k */
  const cyb_matrix *weights;   /* [layers][levels][CYB_W_COUNT] */
  const float *gain_weights;   /* [levels-1][CYB_GAIN_FEATURES], NULL if the model has no gain rule */
  const float *gain_bias;      /* [levels-1][vocabulary], by last input token; NULL with gain_weights */
  uint8_t family[32];          /* digest of the family: part of every page key */
} cyb_model;

/* ---- policy -------------------------------------------------------------------------------------------------- */
enum { CYB_INHERIT_BACKFILL = 0, CYB_INHERIT_WINDOW = 1, CYB_INHERIT_ZEROS = 2 };
enum { CYB_RULE_TOP = 0, CYB_RULE_MARGIN = 1, CYB_RULE_GAIN = 2 };
/*
** top: answer at level k when p1 > threshold[k-1]; margin: when p1 - p2 > threshold[k-1];
** gain: answer when w_k . f + gain_bias[k][last token] <= threshold[k-1],
**   f = {1, ln p1, p1, p1 - p2, entropy of the 64 candidates with the rest as one outcome (nats), mass of the 64 candidates}.
** All on the T = 1 full distribution, before anything is drawn.
*/
typedef struct cyb_policy {
  int32_t inherit;
  uint32_t window; /* newest holes filled under CYB_INHERIT_WINDOW */
  int32_t rule;
  float threshold[CYB_LEVELS_MAX];
  uint32_t depth_min, depth_max; /* 1..levels; equal = pinned */
  float temperature;             /* of sampling; 0 = the most probable candidate */
} cyb_policy;

/* ---- engine -------------------------------------------------------------------------------------------------- */
typedef struct cyb_engine cyb_engine;
typedef struct cyb_engine_config {
  uint32_t pages;       /* base pages in the pool */
  uint32_t agents;      /* slots */
  uint32_t groups;      /* group slots */
  uint32_t positions;   /* most positions an agent may hold (private + context) */
  uint32_t threads;     /* 0 = number of cores */
  uint32_t rows;        /* most rows in one pass, 0 = default */
  uint32_t step_rows;   /* most rows computed by one cyb_step call before it returns unfinished, 0 = no bound */
  uint32_t events;      /* capacity of the event ring */
  int32_t isa;          /* CYB_ISA_AUTO or a supported one */
  int32_t low_priority; /* 1: workers run below the interface's priority */
  uint64_t seed;
} cyb_engine_config;

cyb_status cyb_engine_create(const cyb_model *model, const cyb_engine_config *config, cyb_engine **engine);
void cyb_engine_destroy(cyb_engine *engine); /* NULL is allowed */
/* Full check of every invariant (pool, chunks, agents). CYB_INTERNAL with the reason when one does not hold. */
cyb_status cyb_engine_check(cyb_engine *engine);
cyb_status cyb_engine_set_threads(cyb_engine *engine, uint32_t threads);
/* A new model of the same shape (vocabulary, widths, layers) and another family takes over between ticks; all pages are dropped
** and recomputed on demand. */
cyb_status cyb_engine_swap_model(cyb_engine *engine, const cyb_model *model);

/* ---- groups and contexts ------------------------------------------------------------------------------------- */
cyb_status cyb_group_set_policy(cyb_engine *engine, uint32_t group,
                                const cyb_policy *policy); /* creates the group; applies from now */
cyb_status cyb_group_get_policy(cyb_engine *engine, uint32_t group, cyb_policy *policy);
enum { CYB_LAYER_SYSTEM = 0, CYB_LAYER_GROUP = 1, CYB_LAYER_PERSONAL = 2, CYB_LAYER_KV = 3, CYB_LAYERS = 4 };
/* An immutable shared context of whole pages (padded to page ends; padding holds no position). parent = 0: none. Ids start at 1.
** Computed lazily, once, by the pass that first needs it. */
cyb_status cyb_context_create(cyb_engine *engine, uint32_t parent, int32_t layer, const uint32_t *tokens /* [n] */, uint32_t n,
                              uint32_t *context);
cyb_status cyb_context_release(cyb_engine *engine, uint32_t context); /* lives on while agents hold it */

/* ---- agents -------------------------------------------------------------------------------------------------- */
typedef struct cyb_page_slice {
  uint32_t first;
  uint32_t count;
} cyb_page_slice;              /* chunks [first, first+count) of the page table */
typedef uint32_t cyb_page_ref; /* root of a page table */
typedef uint32_t cyb_goal_ref; /* index in the goal tree, 0 = none */
/* The agent is a view into the pool: five fields, no model state. Scheduler state lives in parallel arrays. */
typedef struct cyb_agent {
  uint8_t id[CYB_CID_BYTES];
  size_t model_depth;       /* level that answered its last token; 0 before the first */
  cyb_page_slice kv_slice;  /* its pages: context, personal and KV */
  cyb_page_ref personal_kv; /* root of its page table */
  cyb_goal_ref goal;
} cyb_agent;

enum { CYB_AGENT_FREE = 0, CYB_AGENT_IDLE = 1, CYB_AGENT_RUNNING = 2, CYB_AGENT_PAUSED = 3, CYB_AGENT_PREEMPTED = 4 };
/* A new idle agent; sampling is seeded by (engine seed, serial, episode, position): serial should be unique and stable. */
cyb_status cyb_agent_create(cyb_engine *engine, uint32_t group, const uint8_t *id /* [36] */, cyb_goal_ref goal,
                            uint64_t serial, uint32_t *slot);
/* Starts an episode: drops the pages of the last one, maps the context, then personal tokens (padded to a page end), then the
** prompt (at least one token), of which all but the last are prefilled and the last is decoded. stop_after: generated tokens
** after which the agent becomes idle, 0 = until told. CYB_POOL_FULL is never returned here: admission happens in cyb_step. */
cyb_status cyb_agent_begin(cyb_engine *engine, uint32_t slot, uint32_t context, const uint32_t *personal /* [n_personal] */,
                           uint32_t n_personal, const uint32_t *prompt /* [n_prompt] */, uint32_t n_prompt,
                           uint32_t stop_after);
/* Appends forced tokens behind what the agent has; they are prefilled, the last one is decoded next. */
cyb_status cyb_agent_extend(cyb_engine *engine, uint32_t slot, const uint32_t *tokens, uint32_t n);
cyb_status cyb_agent_pause(cyb_engine *engine, uint32_t slot);
cyb_status cyb_agent_resume(cyb_engine *engine, uint32_t slot);
cyb_status cyb_agent_kill(cyb_engine *engine, uint32_t slot);
cyb_status cyb_agent_release_pages(cyb_engine *engine, uint32_t slot); /* preempt by hand: exact resume follows by itself */
/* The fork shares every sealed page with its origin and copies none; its tail of <= 15 positions is recomputed. */
cyb_status cyb_agent_fork(cyb_engine *engine, uint32_t slot, const uint8_t *id /* [36] */, uint64_t serial, uint32_t *fork);
cyb_status cyb_agent_set_depth(cyb_engine *engine, uint32_t slot, uint32_t depth_min,
                               uint32_t depth_max); /* 0,0 = the group's */
cyb_status cyb_agent_set_goal(cyb_engine *engine, uint32_t slot, cyb_goal_ref goal);
/* Numbers the episode that cyb_agent_begin starts next (from 1, counted up by itself): sampling depends on it, so a resumed
** session sets it. */
cyb_status cyb_agent_set_next_episode(cyb_engine *engine, uint32_t slot, uint32_t episode);
cyb_status cyb_agent_set_group(cyb_engine *engine, uint32_t slot, uint32_t group);
cyb_status cyb_agent_get(cyb_engine *engine, uint32_t slot, cyb_agent *agent);
/* The agent's tokens (context excluded, personal excluded: prompt and generated) and the level of each (0 = prompt). */
cyb_status cyb_agent_tokens(cyb_engine *engine, uint32_t slot, uint32_t capacity, uint32_t *tokens /* [capacity] */,
                            uint8_t *depths /* [capacity] */, uint32_t *n);
/* Physical pages of one chunk of an agent: ids[width[K]/width[1]], 0xFFFFFFFF where block k is a hole; addresses may be NULL. */
cyb_status cyb_agent_pages(cyb_engine *engine, uint32_t slot, uint32_t chunk, uint32_t *ids, uint64_t *addresses,
                           int32_t *layer);

/* ---- step ---------------------------------------------------------------------------------------------------- */
typedef struct cyb_step_report {
  uint32_t tick_complete; /* 1: every running agent has its token of this tick */
  uint64_t tick;
  uint32_t generated; /* tokens of this tick so far */
  uint32_t rows;      /* rows computed in this call */
  uint32_t preempted; /* agents preempted in this call */
  double seconds;     /* this call */
} cyb_step_report;
/* One generated token. */
typedef struct cyb_token {
  uint32_t slot, token, position, depth;
  float probability;                /* of the token, T = 1, at the level that answered */
  float confidence[CYB_LEVELS_MAX]; /* top probability at each level visited, 0 elsewhere; [0] is level 1 */
  uint32_t alternatives[3];
  float alternative_probability[3]; /* best candidates at the answering level */
  uint32_t finished;                /* 1: the agent reached stop_after and is idle now */
} cyb_token;
/* Advances the current tick: prefill, decode, escalation and back-fill in shared passes of bounded chunks. Call until
** tick_complete. Tokens do not depend on batch composition, threads or bounds. CYB_POOL_FULL only when not even one agent fits. */
cyb_status cyb_step(cyb_engine *engine, cyb_step_report *report);
/* Tokens of the completed tick, ordered by slot. */
cyb_status cyb_tick_tokens(cyb_engine *engine, uint32_t capacity, cyb_token *tokens, uint32_t *n);

/* ---- scoring: many short queries in shared passes --------------------------------------------------------------- */
typedef struct cyb_score_request {
  uint32_t queries;
  const uint32_t *context; /* [queries] context ids, 0 = none */
  const uint32_t *offsets; /* [queries+1] into tokens; at least one token a query */
  const uint32_t *tokens;
  uint32_t personal;              /* the first `personal` tokens of each query form its personal layer, padded to a page end */
  const cyb_policy *policy;       /* depth_min = depth_max pins it */
  const uint32_t *target_offsets; /* [queries+1] into targets; may be NULL with targets */
  const uint32_t *targets;
  const uint32_t
      *filter_offsets; /* [queries+1] into filter: ids left out of ranks (a target never counts itself); may be NULL */
  const uint32_t *filter;
  uint32_t candidates; /* ranks count ids [0, candidates) */
  int32_t purpose;     /* 0 = verification tokens, 1 = evaluation: which token counter grows */
} cyb_score_request;
typedef struct cyb_score_result { /* arrays may be NULL where not wanted */
  float *target_logprob;          /* [targets] ln p at the answering level */
  float *target_rank;             /* [targets] 1 + better + (ties)/2 among unfiltered candidates, on the bits of the logit */
  uint32_t *depth;                /* [queries] */
  float *top_probability;         /* [queries][levels] of levels visited, 0 elsewhere */
  float *gain_features;           /* [queries][levels][CYB_GAIN_FEATURES] of levels visited */
  uint32_t *best;                 /* [queries][CYB_CANDIDATES] most probable ids of the whole vocabulary */
  float *best_probability;        /* [queries][CYB_CANDIDATES] */
  float *logits;                  /* [queries][vocabulary] at the answering level */
} cyb_score_result;
cyb_status cyb_score(cyb_engine *engine, const cyb_score_request *request, cyb_score_result *result);

/* ---- counters: exact, kept where the work is done ------------------------------------------------------------- */
typedef struct cyb_counters {
  uint64_t generated, prompt, verify, evaluated;            /* tokens */
  uint64_t by_level[CYB_LEVELS_MAX];                        /* generated tokens by answering level */
  uint64_t filled[CYB_LEVELS_MAX];                          /* hole positions filled, by block */
  uint64_t passes[CYB_LEVELS_MAX];                          /* times block k's weights were streamed */
  uint64_t weight_bytes[CYB_LEVELS_MAX];                    /* bytes of block k's weights streamed, output table included */
  uint64_t kv_bytes_shared, kv_bytes_personal, other_bytes; /* other: activations, ln focus, stored logits */
  uint64_t multiply_adds;                /* everything: products, attention, output product, fills, recomputation */
  uint64_t always_deepest_multiply_adds; /* the same tokens had every position been computed at level K, nothing twice */
  uint64_t standard_bytes;               /* model of N separate processes: see cli.md; grows a generated token */
  uint64_t batched_bytes;                /* model of one always-deepest server: grows a step and a token */
  uint64_t copies;                       /* calls of the only page-copy function */
  uint64_t preemptions, refused, events_lost;
  uint64_t ticks, steps;
  double seconds_by_level[CYB_LEVELS_MAX];
} cyb_counters;
cyb_status cyb_counters_get(cyb_engine *engine, cyb_counters *counters);

/* ---- pool and snapshots ---------------------------------------------------------------------------------------- */
enum { CYB_PAGE_FREE = 0, CYB_PAGE_WRITING = 1, CYB_PAGE_SEALED = 2 };
typedef struct cyb_pool_info {
  uint64_t base_page_bytes;
  uint32_t pages_total, pages_used, pages_shared; /* shared: mapped by two or more holders */
  uint32_t pages_by_layer[CYB_LAYERS];
  uint64_t agent_state_bytes; /* scheduler arrays and page tables of live agents */
  uint32_t agents;            /* live */
} cyb_pool_info;
cyb_status cyb_pool_info_get(cyb_engine *engine, cyb_pool_info *info);
/* One entry a page: state, layer, holders. Arrays of pages_total. */
cyb_status cyb_pool_map(cyb_engine *engine, uint8_t *state, uint8_t *layer, uint32_t *holders);
/* Agents that hold a page: slots, at most capacity; n is the true count. */
cyb_status cyb_pool_holders(cyb_engine *engine, uint32_t page, uint32_t capacity, uint32_t *slots, uint32_t *n);
/* The only function that copies a page. Nothing in the runtime calls it; tests do. */
cyb_status cyb_pool_copy_page(cyb_engine *engine, uint32_t from, uint32_t *to);

/* Struct-of-arrays view of all agent slots, each array [agents] of the config; any pointer may be NULL. */
typedef struct cyb_snapshot {
  uint8_t *state;                 /* CYB_AGENT_* */
  uint8_t *depth;                 /* of the last token, 0 before the first */
  uint8_t *depth_min, *depth_max; /* in force */
  uint32_t *group, *goal;
  uint32_t *last_token;
  uint32_t *generated;                    /* since creation */
  uint32_t *by_level;                     /* [agents][levels] */
  uint32_t *positions;                    /* held now, context included */
  uint32_t *pages_private, *pages_shared; /* base pages */
  float *confidence;                      /* top probability at the answering level of the last token */
} cyb_snapshot;
cyb_status cyb_snapshot_get(cyb_engine *engine, cyb_snapshot *snapshot, uint32_t *agents);

enum {
  CYB_EVENT_ADMITTED = 1,
  CYB_EVENT_PREEMPTED = 2,
  CYB_EVENT_RESUMED = 3,
  CYB_EVENT_ESCALATED = 4,
  CYB_EVENT_FILLED = 5,
  CYB_EVENT_FINISHED = 6,
  CYB_EVENT_SEALED_CONTEXT = 7,
  CYB_EVENT_REFUSED = 8
};
typedef struct cyb_event {
  uint64_t sequence, tick;
  uint32_t kind, slot, a, b;
} cyb_event;
/* Drains up to capacity events, oldest first. When the ring was full the oldest were dropped and counted (events_lost). */
cyb_status cyb_events_drain(cyb_engine *engine, uint32_t capacity, cyb_event *events, uint32_t *n);

/* ---- the independent scalar reference -------------------------------------------------------------------------- */
/*
** One sequence, straight loops, no pool, no packing tricks, no threads: what `verify` compares with, bit for bit.
** positions ascending absolute positions (chunk = position / 16); hole[i*levels + (k-1)] = 1: position i holds no block-k KV
** (rule: 0 masked, 1 zeros). kv receives f16 bits [layers][2][n][width[level]]; logits [n][vocabulary]; either may be NULL.
*/
cyb_status cyb_reference_forward(const cyb_model *model, uint32_t level, const uint32_t *tokens, const uint32_t *positions,
                                 const uint8_t *holes /* [n][levels], NULL = none */, int32_t zeros_rule, uint32_t n,
                                 uint16_t *kv, float *logits);
/* KV an agent holds of block k at one absolute position, for comparison with the reference: f16 bits [layers][2][B_k].
** CYB_NOT_FOUND when it is a hole. */
cyb_status cyb_agent_kv(cyb_engine *engine, uint32_t slot, uint32_t position, uint32_t block, uint16_t *kv);
/* Packs a row-major f32 matrix [rows][columns] into type; bytes must equal cyb_matrix_bytes. */
size_t cyb_matrix_bytes(int32_t type, uint32_t rows, uint32_t columns); /* 0: not a valid shape or type */
cyb_status cyb_matrix_pack(int32_t type, uint32_t rows, uint32_t columns, const float *values, void *packed, size_t bytes);
cyb_status cyb_matrix_unpack(const cyb_matrix *matrix, float *values /* [rows][columns] */);

/* ---- mutations: faults planted on purpose, in test builds (CYB_MUTATIONS) only ----------------------------------- */
enum {
  CYB_MUTATE_NONE = 0,
  CYB_MUTATE_SUMMATION_ORDER,
  CYB_MUTATE_MERGE_ORDER,
  CYB_MUTATE_ZEROS_SHARES_FILLED,
  CYB_MUTATE_STALE_TAPE,
  CYB_MUTATE_STRADDLING_GROUP
};
cyb_status cyb_mutate(int32_t mutation); /* CYB_UNSUPPORTED in ordinary builds */

/* ---- roofline: the best this machine offers, measured --------------------------------------------------------------- */
typedef struct cyb_roofline {
  double dram_bytes_per_second; /* reads of a buffer */
  double f32_flops;             /* fused multiply-adds in registers, two operations each */
  double int8_ops; /* 8-bit weights by 16-bit activations with 32-bit sums, as products do it, two operations each */
} cyb_roofline;
/* bytes: size of the buffer, at least 1 MiB; several times the last cache. Takes about a second. */
cyb_status cyb_roofline_measure(uint32_t threads, uint64_t bytes, cyb_roofline *roofline);

/* ---- sparse spectral kernels (CSR, square, float values) ---------------------------------------------------------- */
typedef struct cyb_csr {
  uint32_t n;
  const uint64_t *offsets; /* [n+1] */
  const uint32_t *columns; /* [nonzeros] */
  const float *values;     /* [nonzeros] */
} cyb_csr;
/* y = A x for a block of `width` vectors, row-major [n][width]; rows in order within a thread: same bits for any thread count. */
cyb_status cyb_csr_multiply(const cyb_csr *matrix, const float *x, uint32_t width, float *y, uint32_t threads);

#pragma GCC visibility pop
#endif
