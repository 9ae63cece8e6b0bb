/* test_sharing.c - one physical page for all who read it: contexts, forks, the zeros group beside them, and what is given back. */
#include "random_model.h"

enum { AGENTS = 12 };

static uint32_t used(cyb_engine *engine) {
  cyb_pool_info info;
  WORKS(cyb_pool_info_get(engine, &info));
  return info.pages_used;
}

/* Every agent maps the same pages, ids and addresses, for the context layers. */
static void contexts(cyb_engine *engine, uint32_t blocks) {
  uint32_t first[8], other[8];
  uint64_t first_address[8], other_address[8];
  int32_t layer = -1;
  for (uint32_t a = 1; a < AGENTS; a++)
    for (uint32_t chunk = 0; chunk < (a % 4 == 3 ? 2u : 4u); chunk++) {
      WORKS(cyb_agent_pages(engine, 0, chunk, first, first_address, &layer));
      WORKS(cyb_agent_pages(engine, a, chunk, other, other_address, NULL));
      EXPECT(layer == (chunk < 2 ? CYB_LAYER_SYSTEM : CYB_LAYER_GROUP), "chunk %u is of layer %d", chunk, layer);
      EXPECT(!memcmp(first, other, blocks * sizeof *first) && !memcmp(first_address, other_address, blocks * sizeof(uint64_t)),
             "agents 0 and %u do not share chunk %u", a, chunk);
      for (uint32_t s = 0; s < blocks; s++)
        EXPECT(first[s] != 0xFFFFFFFFu, "page %u of chunk %u is missing", s, chunk);
    }
  uint32_t holders = 0, slots[64];
  WORKS(cyb_agent_pages(engine, 0, 0, first, NULL, NULL));
  WORKS(cyb_pool_holders(engine, first[0], 64, slots, &holders));
  EXPECT(holders == AGENTS, "the first system page has %u holders", holders);
}

static void forks(cyb_engine *engine, uint32_t blocks) {
  uint32_t first[8], other[8], fork = 0, before = used(engine), shared = 0, to = 0;
  uint8_t id[CYB_CID_BYTES];
  cyb_agent origin;
  cyb_counters counters;
  number_id(77, id);
  WORKS(cyb_agent_fork(engine, 0, id, 77, &fork));
  EXPECT(used(engine) == before, "a fork took %u pages", used(engine) - before);
  WORKS(whole_tick(engine));
  WORKS(cyb_agent_get(engine, 0, &origin));
  for (uint32_t chunk = 0; chunk < origin.kv_slice.count; chunk++) {
    WORKS(cyb_agent_pages(engine, 0, chunk, first, NULL, NULL));
    WORKS(cyb_agent_pages(engine, fork, chunk, other, NULL, NULL));
    shared += !memcmp(first, other, blocks * sizeof *first);
  }
  EXPECT(shared + 1 >= origin.kv_slice.count, "a fork shares %u of %u chunks", shared, origin.kv_slice.count);
  WORKS(cyb_counters_get(engine, &counters));
  EXPECT(counters.copies == 0, "%llu pages were copied", (unsigned long long)counters.copies);
  WORKS(cyb_pool_copy_page(engine, first[0], &to));
  WORKS(cyb_counters_get(engine, &counters));
  EXPECT(counters.copies == 1, "a copy is not counted");
  WORKS(cyb_engine_check(engine));
  WORKS(cyb_agent_kill(engine, fork));
}

/* A zeros agent does not see what its neighbours filled; its own deeper KV lives in pages of its own. */
static void zeros_beside(cyb_engine *engine, const cyb_model *model) {
  cyb_policy zeros = pinned_policy(model->levels, CYB_INHERIT_ZEROS);
  uint16_t kv[3 * 2 * 128];
  cyb_agent agent;
  uint32_t tokens[200], n = 0;
  uint8_t depths[200];
  WORKS(cyb_group_set_policy(engine, 1, &zeros));
  WORKS(cyb_agent_set_group(engine, 1, 1));
  WORKS(whole_tick(engine));
  WORKS(cyb_engine_check(engine));
  EXPECT(cyb_agent_kv(engine, 1, 3, 2, kv) == CYB_NOT_FOUND, "a zeros agent holds block 2 of the shared context");
  WORKS(cyb_agent_kv(engine, 1, 3, 1, kv));
  WORKS(cyb_agent_get(engine, 1, &agent));
  WORKS(cyb_agent_tokens(engine, 1, 200, tokens, depths, &n));
  EXPECT(n > 0 && depths[n - 1] == model->levels && agent.model_depth == model->levels, "level %u", depths[n - 1]);
  WORKS(cyb_agent_set_group(engine, 1, 0)); /* back to back-fill: overlays are dropped */
  WORKS(whole_tick(engine));
  WORKS(cyb_agent_kv(engine, 1, 3, 2, kv));
  WORKS(cyb_engine_check(engine));
}

/* Equal prompts become the same pages once they are sealed, and a sealed page says so in the map. */
static void equal_prompts(const cyb_model *model) {
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_policy policy = pinned_policy(2, CYB_INHERIT_BACKFILL);
  uint32_t tokens[40], slots[3], first[8], other[8];
  uint8_t id[CYB_CID_BYTES] = {0}, *state = calloc(config.pages, 1), *layer = calloc(config.pages, 1);
  uint32_t *holders = calloc(config.pages, sizeof *holders);
  WORKS(cyb_engine_create(model, &config, &engine));
  WORKS(cyb_group_set_policy(engine, 0, &policy));
  random_tokens(tokens, 40, model->vocabulary, 4, 4);
  for (uint32_t a = 0; a < 3; a++) {
    WORKS(cyb_agent_create(engine, 0, id, 0, a, &slots[a]));
    WORKS(cyb_agent_begin(engine, slots[a], 0, NULL, 0, tokens, 40, 0));
    if (a < 2)
      WORKS(whole_tick(engine));
  }
  WORKS(whole_tick(engine));
  WORKS(cyb_pool_map(engine, state, layer, holders));
  for (uint32_t a = 1; a < 3; a++)
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
      WORKS(cyb_agent_pages(engine, slots[0], chunk, first, NULL, NULL));
      WORKS(cyb_agent_pages(engine, slots[a], chunk, other, NULL, NULL));
      EXPECT(first[0] == other[0] && first[1] == other[1], "equal prompts of agents 0 and %u are held twice", a);
      EXPECT(state[first[0]] == CYB_PAGE_SEALED && state[first[1]] == CYB_PAGE_SEALED && holders[first[0]] == 3,
             "states %u and %u, %u holders", state[first[0]], state[first[1]], holders[first[0]]);
    }
  WORKS(cyb_agent_pages(engine, slots[0], 2, first, NULL, NULL));
  EXPECT(state[first[0]] == CYB_PAGE_WRITING && holders[first[0]] == 1, "the tail is in state %u", state[first[0]]);
  cyb_engine_destroy(engine);
  free(state);
  free(layer);
  free(holders);
}

/* A model of another family: all pages go, the same streams are computed again with the new weights. */
static void swap(const random_model *r, const random_model *other) {
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_policy policy = pinned_policy(3, CYB_INHERIT_BACKFILL);
  uint32_t position = 0;
  uint16_t before[3 * 2 * 128], after[3 * 2 * 128], back[3 * 2 * 128];
  WORKS(cyb_engine_create(&r->model, &config, &engine));
  populate(engine, &r->model, &policy, 4);
  WORKS(whole_tick(engine));
  WORKS(cyb_agent_kv(engine, 0, position, 2, before));
  WORKS(cyb_engine_swap_model(engine, &other->model));
  WORKS(cyb_engine_check(engine));
  EXPECT(used(engine) == 0, "%u pages of the old family stay", used(engine));
  WORKS(whole_tick(engine));
  WORKS(cyb_engine_check(engine));
  WORKS(cyb_agent_kv(engine, 0, position, 2, after));
  EXPECT(memcmp(before, after, 32 * sizeof *before), "the new model computes the old KV");
  WORKS(cyb_engine_swap_model(engine, &r->model));
  WORKS(whole_tick(engine));
  WORKS(cyb_agent_kv(engine, 0, position, 2, back));
  EXPECT(!memcmp(before, back, 32 * sizeof *before), "the old model computes other KV than before");
  cyb_engine_destroy(engine);
}

int main(void) {
  random_model *r = random_model_new(CYB_Q8, 3, 2, 300, 12), *other = random_model_new(CYB_F16, 3, 2, 300, 13);
  cyb_engine_config config = small_config();
  cyb_engine *engine = NULL;
  cyb_policy policy = pinned_policy(3, CYB_INHERIT_BACKFILL);
  WORKS(cyb_engine_create(&r->model, &config, &engine));
  populate(engine, &r->model, &policy, AGENTS);
  for (int i = 0; i < 20; i++)
    WORKS(whole_tick(engine));
  contexts(engine, 4);
  forks(engine, 4);
  zeros_beside(engine, &r->model);
  for (uint32_t a = 0; a < AGENTS; a++)
    WORKS(cyb_agent_kill(engine, a));
  WORKS(cyb_context_release(engine, 2));
  EXPECT(used(engine) == 0, "%u pages of nobody", used(engine));
  WORKS(cyb_engine_check(engine));
  cyb_engine_destroy(engine);
  equal_prompts(&r->model);
  swap(r, other);
  random_model_free(r);
  random_model_free(other);
  printf("%d failures\n", failures);
  return failures != 0;
}
