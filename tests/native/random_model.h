/*
** random_model.h - small models with random weights for the native tests, and the few lines that every such test needs.
**
** Widths 32/64/128, heads of 16, two or three layers. Values are drawn by counter, so a seed names one model on every machine.
*/
#ifndef CYB_RANDOM_MODEL_H
#define CYB_RANDOM_MODEL_H
#include "kernels.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define EXPECT(holds, ...)                                                                                                     \
  do {                                                                                                                         \
    if (!(holds) && failures++ < 40) {                                                                                         \
      printf("FAIL %s:%d: ", __FILE__, __LINE__);                                                                              \
      printf(__VA_ARGS__);                                                                                                     \
      printf("\n");                                                                                                            \
    }                                                                                                                          \
  } while (0)
#define WORKS(call)                                                                                                            \
  do {                                                                                                                         \
    if ((call) != CYB_OK && failures++ < 40)                                                                                   \
      printf("FAIL %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cyb_last_error());                                             \
  } while (0)

/* Owns everything that `model` points to. */
typedef struct random_model {
  cyb_model model;
  cyb_matrix *matrices; /* [levels + layers*levels*CYB_W_COUNT] */
  uint32_t matrix_count;
  float *log_focus, *gain_weights, *gain_bias;
} random_model;

static inline cyb_matrix random_matrix(int32_t type, uint32_t rows, uint32_t columns, float size, uint64_t seed,
                                       uint64_t stream) {
  cyb_matrix matrix = {type, rows, columns, NULL, cyb_matrix_bytes(type, rows, columns)};
  float *values = malloc((size_t)rows * columns * sizeof *values);
  void *packed = aligned_alloc(64, (matrix.bytes + 63) / 64 * 64);
  for (size_t i = 0; i < (size_t)rows * columns; i++)
    values[i] = size * (2 * cyb_random_unit(seed, stream, i) - 1);
  WORKS(cyb_matrix_pack(type, rows, columns, values, packed, matrix.bytes));
  free(values);
  matrix.data = packed;
  return matrix;
}

/* A model of `levels` levels of 32, 64, 128 columns; type CYB_F16 or CYB_Q8. Free it with random_model_free. */
static inline random_model *random_model_new(int32_t type, uint32_t levels, uint32_t layers, uint32_t vocabulary,
                                             uint64_t seed) {
  static const uint32_t widths[3] = {32, 64, 128}, units[3] = {64, 96, 224};
  random_model *r = calloc(1, sizeof *r);
  cyb_model *m = &r->model;
  m->levels = levels;
  m->layers = layers;
  m->head_size = 16;
  m->vocabulary = vocabulary;
  m->particles = vocabulary - 8;
  m->epsilon = 1e-6f;
  m->rope_base = 10000.0f;
  m->input_scale = 1.5f;
  r->matrix_count = levels + layers * levels * CYB_W_COUNT;
  r->matrices = calloc(r->matrix_count, sizeof *r->matrices);
  r->log_focus = malloc(vocabulary * sizeof(float));
  r->gain_weights = malloc(levels * CYB_GAIN_FEATURES * sizeof(float));
  r->gain_bias = malloc((size_t)levels * vocabulary * sizeof(float));
  for (uint32_t i = 0; i < vocabulary; i++)
    r->log_focus[i] = -12.0f * cyb_random_unit(seed, 1000, i);
  for (uint32_t i = 0; i < levels * CYB_GAIN_FEATURES; i++)
    r->gain_weights[i] = 0.2f * (cyb_random_unit(seed, 1001, i) - 0.5f);
  for (uint32_t i = 0; i < levels * vocabulary; i++)
    r->gain_bias[i] = cyb_random_unit(seed, 1002, i) - 0.5f;
  uint32_t at = levels;
  for (uint32_t k = 0; k < levels; k++) {
    uint32_t d = widths[k], f = units[k], block = d - (k ? widths[k - 1] : 0);
    m->width[k] = d;
    m->ffn_width[k] = f;
    m->tau[k] = 1.0f;
    m->beta[k] = 0.1f;
    r->matrices[k] = random_matrix(type, vocabulary, block, 1.0f, seed, k);
  }
  for (uint32_t l = 0; l < layers; l++)
    for (uint32_t k = 0; k < levels; k++) {
      uint32_t d = widths[k], f = units[k], block = d - (k ? widths[k - 1] : 0), own = f - (k ? units[k - 1] : 0);
      for (uint32_t w = 0; w < CYB_W_COUNT; w++, at++) {
        uint32_t rows = w == CYB_W_GATE || w == CYB_W_UP ? own : block, columns = w == CYB_W_DOWN ? f : d;
        r->matrices[at] = random_matrix(type, rows, columns, 2.5f / sqrtf((float)columns), seed, 10 + at);
      }
    }
  m->embedding = r->matrices;
  m->weights = r->matrices + levels;
  m->log_focus = r->log_focus;
  m->gain_weights = r->gain_weights;
  m->gain_bias = r->gain_bias;
  for (int i = 0; i < 32; i++)
    m->family[i] = (uint8_t)(seed * 31 + (uint64_t)i);
  return r;
}

static inline void random_model_free(random_model *r) {
  for (uint32_t i = 0; i < r->matrix_count; i++)
    free((void *)(uintptr_t)r->matrices[i].data);
  free(r->matrices);
  free(r->log_focus);
  free(r->gain_weights);
  free(r->gain_bias);
  free(r);
}

static inline uint32_t random_below(uint64_t seed, uint64_t stream, uint64_t at, uint32_t bound) {
  return (uint32_t)(cyb_random_u64(seed, stream, at) % bound);
}

static inline void random_tokens(uint32_t *tokens, uint32_t n, uint32_t vocabulary, uint64_t seed, uint64_t stream) {
  for (uint32_t i = 0; i < n; i++)
    tokens[i] = random_below(seed, stream, i, vocabulary);
}

static inline cyb_engine_config small_config(void) {
  cyb_engine_config config = {.pages = 4096, .agents = 32, .groups = 4, .positions = 512, .threads = 2, .events = 256};
  config.seed = 7;
  return config;
}

/* Thresholds of `top` under which some tokens of a random model answer at each level. */
static inline cyb_policy dynamic_policy(const cyb_model *model, int32_t inherit) {
  cyb_policy policy = {.inherit = inherit, .window = 5, .rule = CYB_RULE_TOP, .temperature = 1.0f};
  policy.depth_min = 1;
  policy.depth_max = model->levels;
  policy.threshold[0] = 0.3f;
  policy.threshold[1] = 0.5f;
  return policy;
}

static inline cyb_policy pinned_policy(uint32_t level, int32_t inherit) {
  cyb_policy policy = {.inherit = inherit, .window = 5, .rule = CYB_RULE_TOP, .temperature = 1.0f};
  policy.depth_min = policy.depth_max = level;
  return policy;
}

static inline void number_id(uint32_t number, uint8_t *id) {
  memset(id, 0, CYB_CID_BYTES);
  memcpy(id, &number, sizeof number);
}

/* Agents 0..n of group 0 on a system context and a group context behind it; the system context's own handle is given back. */
static inline void populate(cyb_engine *engine, const cyb_model *model, const cyb_policy *policy, uint32_t agents) {
  uint32_t tokens[64], system = 0, group = 0, slot;
  uint8_t id[CYB_CID_BYTES];
  WORKS(cyb_group_set_policy(engine, 0, policy));
  random_tokens(tokens, 64, model->vocabulary, 3, 30);
  WORKS(cyb_context_create(engine, 0, CYB_LAYER_SYSTEM, tokens, 21, &system));
  WORKS(cyb_context_create(engine, system, CYB_LAYER_GROUP, tokens + 21, 30, &group));
  for (uint32_t a = 0; a < agents; a++) {
    uint32_t n = 1 + random_below(3, 31, a, 40), personal = a % 3 ? random_below(3, 32, a, 9) : 0;
    random_tokens(tokens, 60, model->vocabulary, 3, 40 + a / 2); /* pairs share prefixes */
    number_id(a, id);
    WORKS(cyb_agent_create(engine, 0, id, a, 100 + a, &slot));
    WORKS(cyb_agent_begin(engine, slot, a % 4 == 3 ? system : group, tokens, personal, tokens + personal, n, a == 5 ? 4 : 0));
  }
  WORKS(cyb_context_release(engine, system));
}

/* Calls cyb_step until the tick is complete. */
static inline cyb_status whole_tick(cyb_engine *engine) {
  cyb_step_report report = {0};
  cyb_status status = CYB_OK;
  for (int calls = 0; status == CYB_OK && !report.tick_complete && calls < 100000; calls++)
    status = cyb_step(engine, &report);
  return status;
}
#endif
