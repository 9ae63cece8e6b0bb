/*
** test_step.c - ticks: the same tokens whatever the batches, threads, bounds, instruction set and pool; preemption with exact resume;
** policies that change; counters that add up. What agents share is in test_sharing.c.
*/
#include "random_model.h"

enum { AGENTS = 12, TICKS = 14, SLOTS = 24 };

/* Everything observable of a run's tokens, in order. */
typedef struct history {
  cyb_token tokens[TICKS][SLOTS];
  uint32_t count[TICKS];
  cyb_counters counters;
} history;

/* The same commands at the same ticks in every run. */
static void command(cyb_engine *engine, const cyb_model *model, uint32_t tick, int preempt) {
  uint32_t tokens[20], fork = 0;
  uint8_t id[CYB_CID_BYTES];
  random_tokens(tokens, 20, model->vocabulary, 5, tick);
  number_id(1000 + tick, id);
  if (tick == 3)
    WORKS(cyb_agent_extend(engine, 2, tokens, 18));
  if (tick == 4)
    WORKS(cyb_agent_fork(engine, 0, id, 900, &fork));
  if (tick == 5)
    WORKS(cyb_agent_pause(engine, 1));
  if (tick == 6)
    WORKS(cyb_agent_set_depth(engine, 4, 2, 2));
  if (tick == 7)
    WORKS(cyb_agent_begin(engine, 6, 0, NULL, 0, tokens, 17, 0));
  if (tick == 8)
    WORKS(cyb_agent_resume(engine, 1));
  if (tick == 9)
    WORKS(cyb_agent_kill(engine, 7));
  if (tick == 10)
    WORKS(cyb_agent_extend(engine, 5, tokens, 3));
  if (preempt)
    for (uint32_t a = tick % 3; a < AGENTS; a += 3)
      if (!(a == 7 && tick >= 9))
        WORKS(cyb_agent_release_pages(engine, a));
}

static history *run(const cyb_model *model, const cyb_engine_config *config, const cyb_policy *policy, int preempt) {
  history *h = calloc(1, sizeof *h);
  cyb_engine *engine = NULL;
  WORKS(cyb_engine_create(model, config, &engine));
  populate(engine, model, policy, AGENTS);
  for (uint32_t tick = 0; tick < TICKS; tick++) {
    command(engine, model, tick, preempt);
    WORKS(whole_tick(engine));
    WORKS(cyb_tick_tokens(engine, SLOTS, h->tokens[tick], &h->count[tick]));
    WORKS(cyb_engine_check(engine));
  }
  WORKS(cyb_counters_get(engine, &h->counters));
  cyb_engine_destroy(engine);
  return h;
}

static void compare(const history *a, const history *b, const char *what) {
  for (uint32_t tick = 0; tick < TICKS; tick++) {
    EXPECT(a->count[tick] == b->count[tick], "%s: tick %u has %u tokens, not %u", what, tick, b->count[tick], a->count[tick]);
    for (uint32_t i = 0; i < a->count[tick] && i < b->count[tick]; i++)
      EXPECT(!memcmp(&a->tokens[tick][i], &b->tokens[tick][i], sizeof(cyb_token)),
             "%s: tick %u: slot %u says %u at level %u, not slot %u, %u, level %u", what, tick, b->tokens[tick][i].slot,
             b->tokens[tick][i].token, b->tokens[tick][i].depth, a->tokens[tick][i].slot, a->tokens[tick][i].token,
             a->tokens[tick][i].depth);
  }
}

static void check_counters(const history *h, const cyb_model *model, int always_deepest, const char *what) {
  const cyb_counters *c = &h->counters;
  uint64_t tokens = 0, by_level = 0;
  double seconds = 0;
  for (uint32_t tick = 0; tick < TICKS; tick++)
    tokens += h->count[tick];
  for (uint32_t k = 0; k < model->levels; k++) {
    by_level += c->by_level[k];
    seconds += c->seconds_by_level[k];
    EXPECT(c->passes[k] == 0 || c->weight_bytes[k] > 0, "%s: passes of block %u stream nothing", what, k + 1);
  }
  EXPECT(c->generated == tokens, "%s: %llu tokens counted, %llu seen", what, (unsigned long long)c->generated,
         (unsigned long long)tokens);
  EXPECT(by_level == c->generated, "%s: levels do not add up", what);
  EXPECT(c->copies == 0, "%s: %llu pages were copied", what, (unsigned long long)c->copies);
  EXPECT(c->ticks == TICKS, "%s: %llu ticks", what, (unsigned long long)c->ticks);
  EXPECT(seconds > 0, "%s: no time was counted", what);
  EXPECT(c->multiply_adds > 0 && c->always_deepest_multiply_adds > 0 && c->standard_bytes > c->batched_bytes,
         "%s: arithmetic or traffic is missing", what);
  /* equal prefixes are computed once here and once an agent there, so pinned deepest can only be cheaper */
  if (always_deepest)
    EXPECT(c->multiply_adds <= c->always_deepest_multiply_adds, "%s: %llu multiply-adds, always deepest %llu", what,
           (unsigned long long)c->multiply_adds, (unsigned long long)c->always_deepest_multiply_adds);
}

static void invariance(const cyb_model *model, const cyb_policy *policy, const char *what) {
  cyb_engine_config config = small_config();
  history *first = run(model, &config, policy, 0);
  check_counters(first, model, policy->depth_min == model->levels, what);
  uint32_t seen[CYB_LEVELS_MAX] = {0};
  for (uint32_t tick = 0; tick < TICKS; tick++)
    for (uint32_t i = 0; i < first->count[tick]; i++)
      seen[first->tokens[tick][i].depth - 1]++;
  for (uint32_t k = 0; k < model->levels && policy->depth_min < policy->depth_max; k++)
    EXPECT(seen[k] > 0, "%s: no token answers at level %u, so the case shows little", what, k + 1);
  for (int variant = 0; variant < 9; variant++) {
    static const char *names[] = {"1 thread",    "5 threads",      "rows of 1",    "rows of 5",        "calls of 2 rows",
                                  "calls of 20", "scalar kernels", "a small pool", "preempted by hand"};
    if (variant >= 7 && policy->inherit == CYB_INHERIT_WINDOW)
      continue; /* what a window agent holds cannot be computed again */
    cyb_engine_config other = config;
    other.threads = variant == 0 ? 1 : variant == 1 ? 5 : config.threads;
    other.rows = variant == 2 ? 1 : variant == 3 ? 5 : config.rows;
    other.step_rows = variant == 4 ? 2 : variant == 5 ? 20 : 0;
    other.isa = variant == 6 ? CYB_ISA_REFERENCE : CYB_ISA_AUTO;
    other.pages = variant == 7 ? 60 : config.pages;
    history *h = run(model, &other, policy, variant == 8);
    char name[64];
    snprintf(name, sizeof name, "%s, %s", what, names[variant]);
    compare(first, h, name);
    check_counters(h, model, 0, name);
    EXPECT(variant < 7 || h->counters.preemptions > 0, "%s: nothing was preempted", name);
    EXPECT(h->counters.refused == 0, "%s: %llu agents were refused", name, (unsigned long long)h->counters.refused);
    free(h);
  }
  free(first);
}

/* Policies that change in the middle: invariants hold throughout, and a pinned back-fill group fills whatever is missing. */
static void switching(const cyb_model *model) {
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_policy fill = dynamic_policy(model, CYB_INHERIT_BACKFILL), zeros = dynamic_policy(model, CYB_INHERIT_ZEROS);
  cyb_policy window = dynamic_policy(model, CYB_INHERIT_WINDOW), deepest = pinned_policy(model->levels, CYB_INHERIT_BACKFILL);
  WORKS(cyb_engine_create(model, &config, &engine));
  populate(engine, model, &zeros, AGENTS);
  const cyb_policy *order[] = {&fill, &zeros, &window, &zeros, &window, &fill, &zeros, &deepest};
  for (uint32_t round = 0; round < 8; round++) {
    WORKS(cyb_group_set_policy(engine, 0, order[round]));
    for (int i = 0; i < 3; i++)
      WORKS(whole_tick(engine));
    WORKS(cyb_engine_check(engine));
  }
  uint16_t kv[3 * 2 * 128];
  for (uint32_t position = 0; position < 21; position++)
    for (uint32_t k = 1; k <= model->levels; k++)
      WORKS(cyb_agent_kv(engine, 2, position, k, kv));
  cyb_engine_destroy(engine);
}

/* What does not fit is refused or makes others give way; nothing breaks. */
static void full_pool(const cyb_model *model) {
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_step_report report;
  cyb_policy policy = pinned_policy(model->levels, CYB_INHERIT_BACKFILL);
  uint32_t tokens[300], slot = 0, other = 0, context = 0;
  uint8_t id[CYB_CID_BYTES] = {0};
  config.pages = 24;
  WORKS(cyb_engine_create(model, &config, &engine));
  WORKS(cyb_group_set_policy(engine, 0, &policy));
  random_tokens(tokens, 300, model->vocabulary, 9, 9);
  WORKS(cyb_agent_create(engine, 0, id, 0, 1, &slot));
  WORKS(cyb_agent_begin(engine, slot, 0, NULL, 0, tokens, 200, 0));
  EXPECT(cyb_step(engine, &report) == CYB_POOL_FULL, "200 positions fit in 24 pages");
  EXPECT(strlen(cyb_last_error()) > 20, "no explanation");
  WORKS(cyb_engine_check(engine));
  WORKS(cyb_agent_begin(engine, slot, 0, NULL, 0, tokens, 20, 0));
  WORKS(whole_tick(engine));
  WORKS(cyb_engine_check(engine));
  /* pages of a context that nobody reads give way, and come back when somebody does */
  WORKS(cyb_agent_kill(engine, slot));
  WORKS(cyb_context_create(engine, 0, CYB_LAYER_SYSTEM, tokens, 48, &context));
  WORKS(cyb_agent_create(engine, 0, id, 0, 2, &slot));
  for (int round = 0; round < 3; round++) {
    WORKS(cyb_agent_begin(engine, slot, context, NULL, 0, tokens, 5, 0));
    WORKS(whole_tick(engine));
    WORKS(cyb_agent_begin(engine, slot, 0, NULL, 0, tokens + 100, 80, 0));
    WORKS(whole_tick(engine));
    WORKS(cyb_engine_check(engine));
  }
  /* so do pages that two idle agents share */
  WORKS(cyb_agent_fork(engine, slot, id, 3, &other));
  WORKS(whole_tick(engine));
  WORKS(cyb_agent_pause(engine, slot));
  WORKS(cyb_agent_pause(engine, other));
  WORKS(cyb_agent_create(engine, 0, id, 0, 4, &other));
  WORKS(cyb_agent_begin(engine, other, 0, NULL, 0, tokens + 200, 80, 0));
  WORKS(whole_tick(engine));
  WORKS(cyb_engine_check(engine));
  cyb_engine_destroy(engine);
}

/* The last position an agent may hold, and commands that would go beyond it. */
static void limits(const cyb_model *model) {
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_policy policy = pinned_policy(1, CYB_INHERIT_BACKFILL);
  uint32_t tokens[48], slot = 0, n = 0;
  uint8_t id[CYB_CID_BYTES] = {0};
  cyb_token last;
  config.positions = 48;
  WORKS(cyb_engine_create(model, &config, &engine));
  WORKS(cyb_group_set_policy(engine, 0, &policy));
  random_tokens(tokens, 48, model->vocabulary, 9, 9);
  WORKS(cyb_agent_create(engine, 0, id, 0, 1, &slot));
  EXPECT(cyb_agent_begin(engine, slot, 0, NULL, 0, tokens, 48, 0) == CYB_INVALID_ARGUMENT,
         "48 tokens and more in 48 positions");
  WORKS(cyb_agent_begin(engine, slot, 0, NULL, 0, tokens, 30, 0));
  for (int i = 0; i < 40; i++) {
    WORKS(whole_tick(engine));
    WORKS(cyb_agent_pause(engine, slot));
    WORKS(cyb_agent_resume(engine, slot));
  }
  WORKS(cyb_tick_tokens(engine, 1, &last, &n));
  EXPECT(n == 0, "an agent generates beyond its last position");
  EXPECT(cyb_agent_extend(engine, slot, tokens, 1) == CYB_INVALID_ARGUMENT, "extended beyond the last position");
  cyb_engine_destroy(engine);
}

/* A new episode in the middle of a tick costs no token; a long prompt does not hold a call beyond its bound. */
static void within_a_tick(const cyb_model *model) {
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_policy policy = pinned_policy(1, CYB_INHERIT_BACKFILL);
  cyb_step_report report;
  cyb_token got[SLOTS];
  cyb_counters counters;
  uint32_t tokens[300], n = 0, calls = 0;
  random_tokens(tokens, 300, model->vocabulary, 9, 9);
  config.step_rows = 32;
  WORKS(cyb_engine_create(model, &config, &engine));
  populate(engine, model, &policy, 3);
  do
    WORKS(cyb_step(engine, &report));
  while (report.generated == 0 && !report.tick_complete);
  WORKS(cyb_agent_begin(engine, 0, 0, NULL, 0, tokens, 4, 0));
  WORKS(whole_tick(engine));
  WORKS(cyb_tick_tokens(engine, SLOTS, got, &n));
  WORKS(cyb_counters_get(engine, &counters));
  EXPECT(n == counters.generated % 4 || counters.generated >= n, "%u tokens in the tick, %llu generated", n,
         (unsigned long long)counters.generated);
  WORKS(cyb_agent_begin(engine, 1, 0, NULL, 0, tokens, 300, 0));
  do {
    WORKS(cyb_step(engine, &report));
    EXPECT(report.rows <= 2 * config.step_rows, "a call of %u rows", report.rows);
    calls++;
  } while (!report.tick_complete && calls < 1000);
  EXPECT(calls >= 300 / 64, "300 tokens in %u calls", calls);
  cyb_engine_destroy(engine);
}

int main(void) {
  random_model *r = random_model_new(CYB_Q8, 3, 2, 300, 12);
  cyb_policy policies[] = {dynamic_policy(&r->model, CYB_INHERIT_BACKFILL), dynamic_policy(&r->model, CYB_INHERIT_ZEROS),
                           dynamic_policy(&r->model, CYB_INHERIT_WINDOW), pinned_policy(3, CYB_INHERIT_BACKFILL),
                           pinned_policy(2, CYB_INHERIT_ZEROS)};
  const char *names[] = {"back-fill", "zeros", "window", "pinned deepest", "zeros pinned at 2"};
  for (int i = 0; i < 5; i++)
    invariance(&r->model, &policies[i], names[i]);
  switching(&r->model);
  full_pool(&r->model);
  limits(&r->model);
  within_a_tick(&r->model);
  random_model_free(r);
  printf("%d failures\n", failures);
  return failures != 0;
}
