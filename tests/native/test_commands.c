/*
** test_commands.c - random commands on a small pool: after each of them every invariant holds, nothing is copied, and at the end every
** page is back.
*/
#include "random_model.h"

enum { SLOTS = 10, COMMANDS = 250, CONTEXTS = 6 };

static cyb_counters total; /* of all plays */

typedef struct play {
  cyb_engine *engine;
  const cyb_model *models[2];
  uint64_t seed, drawn;
  uint32_t contexts[CONTEXTS], context_count;
  int tick_open;
} play;

static uint32_t draw(play *p, uint32_t bound) {
  return random_below(p->seed, 60, p->drawn++, bound);
}

/* Tokens from a small set of streams, so that prefixes are often equal. */
static uint32_t draw_tokens(play *p, uint32_t *tokens, uint32_t most) {
  uint32_t n = 1 + draw(p, most);
  random_tokens(tokens, n, p->models[0]->vocabulary, 61, draw(p, 3));
  return n;
}

/* A refusal with a reason is as good as success; a broken invariant is not. */
static void accept(cyb_status status, const char *what) {
  EXPECT(status == CYB_OK || status == CYB_NOT_FOUND || status == CYB_BAD_STATE || status == CYB_INVALID_ARGUMENT ||
             status == CYB_OUT_OF_MEMORY || status == CYB_POOL_FULL || status == CYB_UNSUPPORTED,
         "%s: %s", what, cyb_last_error());
}

static void set_policy(play *p, uint32_t group) {
  cyb_policy policy = dynamic_policy(p->models[0], (int32_t)draw(p, 3));
  policy.rule = (int32_t)draw(p, 3);
  policy.window = draw(p, 8);
  policy.depth_min = 1 + draw(p, p->models[0]->levels);
  policy.depth_max = policy.depth_min + draw(p, p->models[0]->levels - policy.depth_min + 1);
  accept(cyb_group_set_policy(p->engine, group, &policy), "policy");
}

static void score(play *p) {
  uint32_t tokens[60], offsets[4] = {0}, contexts[3], targets[3], target_offsets[4], depth[3];
  float rank[3];
  for (uint32_t i = 0; i < 3; i++) {
    offsets[i + 1] = offsets[i] + draw_tokens(p, tokens + offsets[i], 18);
    contexts[i] = p->context_count && draw(p, 2) ? p->contexts[draw(p, p->context_count)] : 0;
    targets[i] = draw(p, p->models[0]->vocabulary);
    target_offsets[i] = i;
  }
  target_offsets[3] = 3;
  cyb_policy policy = dynamic_policy(p->models[0], (int32_t)draw(p, 3));
  cyb_score_request request = {.queries = 3,
                               .context = contexts,
                               .offsets = offsets,
                               .tokens = tokens,
                               .policy = &policy,
                               .targets = targets,
                               .target_offsets = target_offsets,
                               .candidates = p->models[0]->vocabulary};
  cyb_score_result result = {.target_rank = rank, .depth = depth};
  accept(cyb_score(p->engine, &request, &result), "score");
}

static void command(play *p) {
  uint32_t tokens[60], personal[20], n, slot = draw(p, SLOTS), other;
  uint8_t id[CYB_CID_BYTES];
  cyb_step_report report;
  number_id(slot, id);
  switch (draw(p, 17)) {
  case 0:
  case 1:
    accept(cyb_agent_create(p->engine, draw(p, 2), id, 0, p->drawn, &other), "create");
    break;
  case 2:
  case 3:
    n = draw_tokens(p, tokens, 50);
    other = p->context_count && draw(p, 3) ? p->contexts[draw(p, p->context_count)] : 0;
    accept(
        cyb_agent_begin(p->engine, slot, other, personal, draw(p, 3) ? 0 : draw_tokens(p, personal, 20), tokens, n, draw(p, 9)),
        "begin");
    break;
  case 4:
    n = draw_tokens(p, tokens, 20);
    accept(cyb_agent_extend(p->engine, slot, tokens, n), "extend");
    break;
  case 5:
    accept(draw(p, 2) ? cyb_agent_pause(p->engine, slot) : cyb_agent_resume(p->engine, slot), "pause");
    break;
  case 6:
    accept(draw(p, 3) ? CYB_OK : cyb_agent_kill(p->engine, slot), "kill");
    break;
  case 7:
    accept(cyb_agent_release_pages(p->engine, slot), "release");
    break;
  case 8:
    accept(cyb_agent_fork(p->engine, slot, id, p->drawn, &other), "fork");
    break;
  case 9:
    n = draw(p, p->models[0]->levels + 1);
    accept(cyb_agent_set_depth(p->engine, slot, n, n), "depth");
    break;
  case 10:
    accept(cyb_agent_set_group(p->engine, slot, draw(p, 2)), "group");
    break;
  case 11:
    set_policy(p, draw(p, 2));
    break;
  case 12:
    if (p->context_count < CONTEXTS) {
      n = draw_tokens(p, tokens, 40);
      other = p->context_count ? p->contexts[draw(p, p->context_count)] : 0;
      cyb_status status = cyb_context_create(p->engine, draw(p, 2) ? other : 0, CYB_LAYER_SYSTEM, tokens, n, &other);
      accept(status, "context");
      if (status == CYB_OK)
        p->contexts[p->context_count++] = other;
    } else {
      n = draw(p, p->context_count);
      accept(cyb_context_release(p->engine, p->contexts[n]), "context release");
      p->contexts[n] = p->contexts[--p->context_count];
    }
    break;
  case 13:
    if (!p->tick_open)
      score(p);
    break;
  case 14:
    accept(draw(p, 8) ? CYB_OK : cyb_engine_swap_model(p->engine, p->models[draw(p, 2)]), "swap");
    break;
  default:
    memset(&report, 0, sizeof report);
    accept(cyb_step(p->engine, &report), "step");
    p->tick_open = !report.tick_complete;
  }
}

static void play_once(const random_model *first, const random_model *second, uint64_t seed) {
  play p = {.models = {&first->model, &second->model}, .seed = seed};
  cyb_engine_config config = small_config();
  cyb_counters counters;
  cyb_pool_info info;
  config.agents = SLOTS;
  config.positions = 160;
  config.pages = 30 + random_below(seed, 62, 0, 120);
  config.threads = 1 + (uint32_t)seed % 2;
  config.rows = seed % 3 ? 0 : 4;
  config.step_rows = seed % 4 ? 3 + (uint32_t)seed % 9 : 0;
  WORKS(cyb_engine_create(p.models[0], &config, &p.engine));
  set_policy(&p, 0);
  set_policy(&p, 1);
  for (uint32_t i = 0; i < COMMANDS; i++) {
    command(&p);
    if (cyb_engine_check(p.engine) != CYB_OK) {
      EXPECT(0, "seed %llu, command %u: %s", (unsigned long long)seed, i, cyb_last_error());
      break;
    }
  }
  for (uint32_t slot = 0; slot < SLOTS; slot++)
    accept(cyb_agent_kill(p.engine, slot), "kill");
  while (p.context_count)
    WORKS(cyb_context_release(p.engine, p.contexts[--p.context_count]));
  WORKS(cyb_engine_check(p.engine));
  WORKS(cyb_counters_get(p.engine, &counters));
  WORKS(cyb_pool_info_get(p.engine, &info));
  EXPECT(info.pages_used == 0 && info.agents == 0, "seed %llu: %u pages of nobody", (unsigned long long)seed, info.pages_used);
  EXPECT(counters.copies == 0, "seed %llu: copied", (unsigned long long)seed);
  total.generated += counters.generated;
  total.filled[1] += counters.filled[1];
  total.preemptions += counters.preemptions;
  total.refused += counters.refused;
  total.verify += counters.verify;
  cyb_engine_destroy(p.engine);
}

int main(int count, char **arguments) {
  random_model *first = random_model_new(CYB_Q8, 3, 2, 120, 12), *second = random_model_new(CYB_F16, 3, 2, 120, 13);
  uint64_t begin = count > 1 ? strtoull(arguments[1], NULL, 10) : 1,
           end = count > 2 ? strtoull(arguments[2], NULL, 10) : begin + 30;
  for (uint64_t seed = begin; seed < end && failures < 10; seed++)
    play_once(first, second, seed);
  printf("%llu tokens, %llu queries, %llu holes filled, %llu preemptions, %llu refusals\n", (unsigned long long)total.generated,
         (unsigned long long)total.verify, (unsigned long long)total.filled[1], (unsigned long long)total.preemptions,
         (unsigned long long)total.refused);
  EXPECT(total.generated && total.verify && total.filled[1] && total.preemptions, "the plays show too little");
  random_model_free(first);
  random_model_free(second);
  printf("%d failures\n", failures);
  return failures != 0;
}
