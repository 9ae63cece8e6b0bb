/*
** test_forward.c - the engine's KV and logits against the independent scalar reference, bit for bit: at each level, alone or inside a
** deeper one, back-filled or not, over holes, for both weight types and every instruction set of this machine.
*/
#include "engine.h"
#include "random_model.h"

enum { LIMIT = 160, LEVELS = 3 };

/* One agent's stream with its absolute positions: context and personal layers end at page ends, padding holds no position. */
typedef struct stream {
  uint32_t tokens[LIMIT], positions[LIMIT];
  uint32_t n, shared; /* shared: tokens of the context */
  uint32_t context_n, personal_n, prompt_n;
} stream;

static void add(stream *s, uint32_t token, int new_page) {
  uint32_t next = s->n ? s->positions[s->n - 1] + 1 : 0;
  s->positions[s->n] = new_page ? (next + 15) / 16 * 16 : next;
  s->tokens[s->n++] = token;
}

static void draw_stream(stream *s, const cyb_model *model, uint64_t seed) {
  memset(s, 0, sizeof *s);
  s->context_n = 1 + random_below(seed, 20, 0, 40);
  s->personal_n = random_below(seed, 20, 1, 20);
  s->prompt_n = 1 + random_below(seed, 20, 2, 30);
  if (model->vocabulary > CYB_VOCAB_TILE) { /* the reference multiplies every token by the whole vocabulary */
    s->context_n = 1 + s->context_n % 6;
    s->personal_n %= 3;
    s->prompt_n = 1 + s->prompt_n % 3;
  }
  for (uint32_t i = 0; i < s->context_n + s->personal_n + s->prompt_n; i++)
    add(s, random_below(seed, 21, i, model->vocabulary), i == s->context_n || i == s->context_n + s->personal_n);
  s->shared = s->context_n;
}

static uint32_t start(cyb_engine *engine, const stream *s, const cyb_policy *policy) {
  static const uint8_t id[CYB_CID_BYTES];
  uint32_t context = 0, slot = 0;
  WORKS(cyb_group_set_policy(engine, 0, policy));
  WORKS(cyb_context_create(engine, 0, CYB_LAYER_SYSTEM, s->tokens, s->context_n, &context));
  WORKS(cyb_agent_create(engine, 0, id, 0, 11, &slot));
  WORKS(cyb_agent_begin(engine, slot, context, s->tokens + s->context_n, s->personal_n,
                        s->tokens + s->context_n + s->personal_n, s->prompt_n, 0));
  return slot;
}

/* Compares what the agent holds with the reference; computed = positions that have run (the last token has not). */
static void compare_kv(cyb_engine *engine, const cyb_model *model, uint32_t slot, const stream *s, const uint8_t *holes,
                       int zeros_rule, uint32_t level, uint32_t computed, const char *what) {
  uint32_t width = model->width[level - 1];
  uint16_t *kv = malloc((size_t)model->layers * 2 * computed * width * sizeof *kv), own[3 * 2 * 128];
  WORKS(cyb_reference_forward(model, level, s->tokens, s->positions, holes, zeros_rule, computed, kv, NULL));
  for (uint32_t i = 0; i < computed; i++)
    for (uint32_t k = 1; k <= level; k++) {
      uint32_t begin = k > 1 ? model->width[k - 2] : 0, block = model->width[k - 1] - begin;
      cyb_status status = cyb_agent_kv(engine, slot, s->positions[i], k, own);
      int hole = holes && holes[i * model->levels + k - 1];
      EXPECT((status == CYB_NOT_FOUND) == hole, "%s: position %u block %u: hole %d, status %d", what, s->positions[i], k, hole,
             (int)status);
      if (status != CYB_OK || hole)
        continue;
      for (uint32_t part = 0; part < model->layers * 2; part++)
        EXPECT(!memcmp(own + part * block, kv + ((size_t)part * computed + i) * width + begin, block * sizeof *own),
               "%s: KV of position %u, block %u, layer %u differs", what, s->positions[i], k, part / 2);
    }
  free(kv);
}

/* Decodes a few tokens and reads them back into the stream. row_depth[i]: level that ran at position i of the stream. */
static void decode(cyb_engine *engine, uint32_t slot, stream *s, uint32_t steps, uint8_t *row_depth, uint32_t base) {
  uint32_t before = s->n, tokens[LIMIT], n = 0;
  uint8_t depths[LIMIT];
  for (uint32_t i = 0; i < steps; i++)
    WORKS(whole_tick(engine));
  WORKS(cyb_engine_check(engine));
  WORKS(cyb_agent_tokens(engine, slot, LIMIT, tokens, depths, &n));
  EXPECT(n == s->prompt_n + steps, "%u tokens after %u steps", n, steps);
  for (uint32_t i = 0; i < before; i++)
    row_depth[i] = (uint8_t)base;
  for (uint32_t i = 0; i < steps; i++) {
    row_depth[s->n - 1] = depths[s->prompt_n + i];
    add(s, tokens[s->prompt_n + i], 0);
  }
}

/* Odd seeds split every product by panels, as only models of some size do by themselves. */
static cyb_engine *new_engine(const cyb_model *model, const cyb_engine_config *config, uint64_t seed) {
  cyb_engine *engine = NULL;
  WORKS(cyb_engine_create(model, config, &engine));
  if (seed % 2)
    engine->cached_bytes = 0;
  return engine;
}

/* Pinned at each level: everything equals the reference, and lower blocks do not know how deep the run went. */
static void pinned_case(const random_model *r, cyb_engine_config config, uint64_t seed) {
  for (uint32_t level = 1; level <= r->model.levels; level++) {
    cyb_engine *engine = NULL;
    stream s;
    uint8_t row_depth[LIMIT];
    draw_stream(&s, &r->model, seed);
    engine = new_engine(&r->model, &config, seed);
    cyb_policy policy = pinned_policy(level, CYB_INHERIT_BACKFILL);
    uint32_t slot = start(engine, &s, &policy);
    decode(engine, slot, &s, 6, row_depth, level);
    compare_kv(engine, &r->model, slot, &s, NULL, 0, level, s.n - 1, "pinned");
    cyb_engine_destroy(engine);
  }
}

/* Dynamic depth with back-fill: whatever was filled is what a run at that level from the start would hold. */
static void filled_case(const random_model *r, cyb_engine_config config, uint64_t seed) {
  cyb_engine *engine = NULL;
  stream s;
  uint8_t row_depth[LIMIT], holes[LIMIT * LEVELS], deepest = 1;
  draw_stream(&s, &r->model, seed);
  engine = new_engine(&r->model, &config, seed);
  cyb_policy policy = dynamic_policy(&r->model, CYB_INHERIT_BACKFILL);
  uint32_t slot = start(engine, &s, &policy);
  decode(engine, slot, &s, 12, row_depth, 1);
  memset(holes, 0, sizeof holes);
  for (uint32_t i = s.n - 1; i-- > 0;) { /* all positions before one that ran at level k hold block k */
    deepest = row_depth[i] > deepest ? row_depth[i] : deepest;
    for (uint32_t k = deepest; k < r->model.levels; k++)
      holes[i * r->model.levels + k] = 1;
  }
  /* back-filled KV is canonical: holes say what is absent, never what attention saw */
  for (uint32_t level = 1; level <= r->model.levels; level++) {
    uint16_t own[3 * 2 * 128];
    for (uint32_t i = 0; i + 1 < s.n; i++) {
      cyb_status status = cyb_agent_kv(engine, slot, s.positions[i], level, own);
      EXPECT((status == CYB_NOT_FOUND) == holes[i * r->model.levels + level - 1], "position %u block %u: status %d",
             s.positions[i], level, (int)status);
    }
    uint32_t n = 0;
    while (n + 1 < s.n && !holes[n * r->model.levels + level - 1])
      n++;
    if (n)
      compare_kv(engine, &r->model, slot, &s, NULL, 0, level, n, "back-filled");
  }
  cyb_engine_destroy(engine);
}

/* The zeros rule: context and shallow positions are holes of blocks >= 2 that take exp(0) of the softmax. */
static void zeros_case(const random_model *r, cyb_engine_config config, uint64_t seed) {
  cyb_engine *engine = NULL;
  stream s;
  uint8_t row_depth[LIMIT], holes[LIMIT * LEVELS];
  draw_stream(&s, &r->model, seed);
  engine = new_engine(&r->model, &config, seed);
  cyb_policy policy = dynamic_policy(&r->model, CYB_INHERIT_ZEROS);
  uint32_t slot = start(engine, &s, &policy);
  decode(engine, slot, &s, 12, row_depth, 1);
  memset(holes, 0, sizeof holes);
  for (uint32_t i = 0; i + 1 < s.n; i++)
    for (uint32_t k = 1; k < r->model.levels; k++)
      holes[i * r->model.levels + k] = i < s.shared || row_depth[i] <= k;
  compare_kv(engine, &r->model, slot, &s, holes, 1, r->model.levels, s.n - 1, "zeros");
  cyb_engine_destroy(engine);
}

/* Logits of the last token at each level: pinned, and escalated through all lower levels, against the reference. */
static void logits_case(const random_model *r, cyb_engine_config config, uint64_t seed) {
  const cyb_model *m = &r->model;
  cyb_engine *engine = NULL;
  stream s;
  draw_stream(&s, m, seed);
  uint32_t own = s.personal_n + s.prompt_n, offsets[2] = {0, own}, context = 0;
  float *mine = malloc(m->vocabulary * sizeof *mine), *all = malloc((size_t)s.n * m->vocabulary * sizeof *all);
  engine = new_engine(m, &config, seed);
  WORKS(cyb_context_create(engine, 0, CYB_LAYER_GROUP, s.tokens, s.context_n, &context));
  for (uint32_t level = 1; level <= m->levels; level++)
    for (int32_t inherit = CYB_INHERIT_BACKFILL; inherit <= CYB_INHERIT_ZEROS; inherit += 2)
      for (int escalated = 0; escalated <= 1; escalated++) {
        uint8_t holes[LIMIT * LEVELS];
        cyb_policy policy = pinned_policy(level, inherit);
        if (escalated) {
          policy.depth_min = 1;
          for (uint32_t k = 0; k < CYB_LEVELS_MAX; k++)
            policy.threshold[k] = 2.0f; /* nothing is ever that sure */
        }
        float logprob = 0, rank = 0, best_probability[CYB_CANDIDATES], top[LEVELS];
        uint32_t depth = 0, best[CYB_CANDIDATES], target = random_below(seed, 22, level, m->vocabulary), targets[2] = {0, 1};
        cyb_score_request request = {.queries = 1,
                                     .context = &context,
                                     .offsets = offsets,
                                     .tokens = s.tokens + s.context_n,
                                     .personal = s.personal_n,
                                     .policy = &policy,
                                     .target_offsets = targets,
                                     .targets = &target,
                                     .candidates = m->vocabulary,
                                     .purpose = 1};
        cyb_score_result result = {.target_logprob = &logprob,
                                   .target_rank = &rank,
                                   .depth = &depth,
                                   .top_probability = top,
                                   .best = best,
                                   .best_probability = best_probability,
                                   .logits = mine};
        WORKS(cyb_score(engine, &request, &result));
        EXPECT(depth == level, "answered at %u, not %u", depth, level);
        memset(holes, 0, sizeof holes);
        for (uint32_t i = 0; i + 1 < s.n; i++)
          for (uint32_t k = 1; k < m->levels; k++)
            holes[i * m->levels + k] = inherit == CYB_INHERIT_ZEROS && (i < s.shared || escalated);
        WORKS(cyb_reference_forward(m, level, s.tokens, s.positions, holes, inherit == CYB_INHERIT_ZEROS, s.n, NULL, all));
        const float *expected = all + (size_t)(s.n - 1) * m->vocabulary;
        EXPECT(!memcmp(mine, expected, m->vocabulary * sizeof *mine), "logits of level %u, inherit %d, escalated %d differ",
               level, inherit, escalated);
        double maximum = -INFINITY, sum = 0;
        uint32_t better = 0, equal = 0;
        for (uint32_t i = 0; i < m->vocabulary; i++)
          maximum = expected[i] > maximum ? (double)expected[i] : maximum;
        for (uint32_t i = 0; i < m->vocabulary; i++) {
          sum += exp((double)expected[i] - maximum);
          better += expected[i] > expected[target];
          equal += i != target && expected[i] == expected[target];
        }
        EXPECT(fabs((double)logprob - ((double)expected[target] - maximum - log(sum))) < 1e-4, "log probability %g",
               (double)logprob);
        EXPECT(rank == 1.0f + (float)better + 0.5f * (float)equal, "rank %g, %u better", (double)rank, better);
        for (uint32_t i = 0; i < CYB_CANDIDATES; i++)
          EXPECT(best[i] < m->vocabulary &&
                     fabs((double)best_probability[i] - exp((double)expected[best[i]] - maximum) / sum) < 1e-5,
                 "probability of candidate %u", i);
        EXPECT(top[level - 1] == best_probability[0], "top probability %g", (double)top[level - 1]);
      }
  WORKS(cyb_engine_check(engine));
  WORKS(cyb_context_release(engine, context));
  cyb_pool_info info;
  WORKS(cyb_pool_info_get(engine, &info));
  EXPECT(info.pages_used == 0, "%u pages stay behind", info.pages_used);
  cyb_engine_destroy(engine);
  free(mine);
  free(all);
}

int main(void) {
  for (uint64_t seed = 1; seed <= 4; seed++)
    for (int32_t type = CYB_F16; type <= CYB_Q8; type++)
      for (int32_t isa = CYB_ISA_REFERENCE; isa <= CYB_ISA_NEON; isa++) {
        if (!cyb_isa_supported(isa))
          continue;
        uint32_t levels = seed == 4 ? 2 : 3;
        random_model *r = random_model_new(type, levels, 2 + (uint32_t)seed % 2, seed == 3 ? 4500 : 260, seed);
        cyb_engine_config config = small_config();
        config.isa = isa;
        config.threads = 1 + (uint32_t)seed % 3;
        config.rows = seed % 2 ? 0 : 7;
        pinned_case(r, config, seed);
        filled_case(r, config, seed);
        zeros_case(r, config, seed);
        logits_case(r, config, seed);
        random_model_free(r);
      }
  printf("%d failures\n", failures);
  return failures != 0;
}
