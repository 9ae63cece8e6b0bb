/*
** reference.c - the nested forward pass on one sequence, written from the design with straight loops: no pool, no pages, no kernels, no
** threads. `verify` compares the runtime with it bit for bit, so nothing here is shared with forward.c, output.c or the kernel tables
** but exp, the rotation tables and the half-float definition.
**
** For block k = 1..level, for each layer (section 4 of the design):
**   r = 1/sqrt(mean of squares of x[:D_k]); q, k, v = W x * r; rotate; K and V to half floats; attention over the positions that hold
**   block-k KV, in chunks of 16 absolute positions merged left to right; x_k += W_o a; r again; x_k += W_down silu(gate) up.
** Then accumulators over E block by block and logits.
*/
#include "half.h"
#include "kernels.h"
#include <math.h>
#include <stdlib.h>

enum { REFERENCE_COLUMNS = 65536 };

typedef struct state {
  const cyb_model *model;
  const uint32_t *positions; /* [n] */
  const uint8_t *holes;      /* [n][levels] or NULL */
  uint32_t n, level, width, ffn;
  int32_t zeros_rule;
  float *x;                       /* [n][width] residual */
  float *squares;                 /* [2*layers+1][n] sums of squares of the blocks so far */
  float *inputs, *mixed, *middle; /* [layers][n][width] inputs of the products */
  float *units;                   /* [layers][n][ffn] */
  float *query;                   /* [n][width] */
  float *key, *value;             /* [layers][n][width], as stored: rounded to half */
  struct input *in;               /* scratch */
} state;

static int is_hole(const state *s, uint32_t i, uint32_t k) {
  return s->holes && s->holes[(size_t)i * s->model->levels + k - 1];
}
static uint32_t first_of(const uint32_t *widths, uint32_t k) {
  return k == 1 ? 0 : widths[k - 2];
}

/* Element (row, column) of a packed q8 matrix, and its scale. */
static int q8_at(const cyb_matrix *w, uint32_t row, uint32_t column, float *scale) {
  const uint8_t *group = (const uint8_t *)w->data + ((size_t)(row / 16) * (w->columns / 32) + column / 32) * 544;
  uint16_t half = (uint16_t)(group[2 * (row % 16)] | group[2 * (row % 16) + 1] << 8);
  *scale = cyb_half_to_float(half);
  return ((const int8_t *)group)[32 + (column % 32) / 2 * 32 + (row % 16) * 2 + column % 2];
}

static float f16_at(const cyb_matrix *w, uint32_t row, uint32_t column) {
  return cyb_half_to_float(((const uint16_t *)w->data)[((size_t)(row / 16) * w->columns + column) * 16 + row % 16]);
}

static float element(const cyb_matrix *w, uint32_t row, uint32_t column) {
  if (w->type == CYB_F16)
    return f16_at(w, row, column);
  float scale;
  int q = q8_at(w, row, column, &scale);
  return scale * (float)q;
}

/* The input of a product: floats, and what the quantisation rule makes of them. Filled once a row of activations. */
typedef struct input {
  float x[REFERENCE_COLUMNS];
  int32_t q[REFERENCE_COLUMNS];
  float step[REFERENCE_COLUMNS / 32];
} input;

static void prepare(input *in, const float *x, uint32_t n) {
  for (uint32_t c = 0; c < n; c++)
    in->x[c] = x[c];
  for (uint32_t g = 0; g < n; g += 32) {
    float largest = 0;
    for (uint32_t c = g; c < g + 32; c++)
      if (fabsf(x[c]) > largest)
        largest = fabsf(x[c]);
    float step = largest / 4095.0f;
    if (!(step > 1e-30f))
      step = 0;
    in->step[g / 32] = step;
    for (uint32_t c = g; c < g + 32; c++) {
      float a = step > 0 ? rintf(x[c] / step) : 0;
      in->q[c] = a > 4095 ? 4095 : a < -4095 ? -4095 : (int32_t)a;
    }
  }
}

/* One output of W x for the columns of `in` from `at` on, going on from start. */
static float dot(const cyb_matrix *w, uint32_t row, const input *in, uint32_t at, float start) {
  float sum = start;
  if (w->type == CYB_F16) {
    for (uint32_t c = 0; c < w->columns; c++)
      sum = fmaf(f16_at(w, row, c), in->x[at + c], sum);
    return sum;
  }
  for (uint32_t g = 0; g < w->columns; g += 32) {
    float scale;
    int32_t whole = q8_at(w, row, g, &scale) * in->q[at + g];
    const int8_t *values =
        (const int8_t *)w->data + ((size_t)(row / 16) * (w->columns / 32) + g / 32) * 544 + 32 + row % 16 * 2;
    for (uint32_t c = 1; c < 32; c++)
      whole += values[c / 2 * 32 + c % 2] * in->q[at + g + c];
    float factor = scale * in->step[(at + g) / 32];
    sum = fmaf((float)whole, factor, sum);
  }
  return sum;
}

static float squares_of(const float *x, uint32_t n) {
  float lane[16] = {0};
  for (uint32_t i = 0; i < n; i += 16)
    for (uint32_t j = 0; j < 16; j++)
      lane[j] = fmaf(x[i + j], x[i + j], lane[j]);
  for (uint32_t j = 0; j < 8; j++)
    lane[j] += lane[j + 8];
  for (uint32_t j = 0; j < 4; j++)
    lane[j] += lane[j + 4];
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* Adds block k of x[i] to its sum of squares number `which` and gives 1/rms over D_k. */
static float inverse_rms(state *s, uint32_t i, uint32_t k, uint32_t which) {
  const cyb_model *m = s->model;
  uint32_t begin = first_of(m->width, k), end = m->width[k - 1];
  float *sum = &s->squares[(size_t)which * s->n + i];
  float mine = squares_of(s->x + (size_t)i * s->width + begin, end - begin);
  *sum = k == 1 ? mine : *sum + mine;
  return 1.0f / sqrtf(*sum / (float)end + m->epsilon);
}

static void turn(float *head, uint32_t size, const float *cosine, const float *sine) {
  for (uint32_t i = 0; i < size / 2; i++) {
    float a = head[i], b = head[i + size / 2];
    head[i] = fmaf(a, cosine[i], -(b * sine[i]));
    head[i + size / 2] = fmaf(b, cosine[i], a * sine[i]);
  }
}

static void project(state *s, uint32_t layer, uint32_t k, uint32_t i) {
  const cyb_model *m = s->model;
  const cyb_matrix *w = m->weights + ((size_t)layer * m->levels + k - 1) * CYB_W_COUNT;
  uint32_t begin = first_of(m->width, k), end = m->width[k - 1], hd = m->head_size;
  size_t row = ((size_t)layer * s->n + i) * s->width;
  float *x = s->x + (size_t)i * s->width, cosine[128], sine[128];
  float r = inverse_rms(s, i, k, 2 * layer);
  for (uint32_t c = begin; c < end; c++)
    s->inputs[row + c] = x[c];
  prepare(s->in, s->inputs + row, end);
  for (uint32_t c = 0; c < end - begin; c++) {
    s->query[(size_t)i * s->width + begin + c] = dot(&w[CYB_W_Q], c, s->in, 0, 0) * r;
    s->key[row + begin + c] = dot(&w[CYB_W_K], c, s->in, 0, 0) * r;
    s->value[row + begin + c] = dot(&w[CYB_W_V], c, s->in, 0, 0) * r;
  }
  cyb_rope_table(m->rope_base, hd, s->positions[i], cosine, sine);
  for (uint32_t c = begin; c < end; c += hd) {
    turn(s->query + (size_t)i * s->width + c, hd, cosine, sine);
    turn(s->key + row + c, hd, cosine, sine);
  }
  for (uint32_t c = begin; c < end; c++) {
    s->key[row + c] = cyb_half_to_float(cyb_float_to_half(s->key[row + c]));
    s->value[row + c] = cyb_half_to_float(cyb_float_to_half(s->value[row + c]));
  }
}

static void fold_in(float *m, float *l, float *o, float m2, float l2, const float *o2, uint32_t size) {
  float top = *m > m2 ? *m : m2, a = cyb_exp(*m - top), b = cyb_exp(m2 - top);
  *l = fmaf(l2, b, *l * a);
  for (uint32_t c = 0; c < size; c++)
    o[c] = fmaf(o2[c], b, o[c] * a);
  *m = top;
}

/* One head at column `at` of row i. */
static void attend(const state *s, uint32_t layer, uint32_t k, uint32_t i, uint32_t at, float *out) {
  uint32_t hd = s->model->head_size, holes = 0;
  const float *q = s->query + (size_t)i * s->width + at;
  float m = -INFINITY, l = 0, part[256];
  for (uint32_t c = 0; c < hd; c++)
    out[c] = 0;
  for (uint32_t j = 0; j <= i;) {
    uint32_t chunk = s->positions[j] / 16;
    float score[16], chance[16] = {0}, top = -INFINITY;
    uint32_t where[16], count = 0;
    for (; j <= i && s->positions[j] / 16 == chunk; j++) {
      if (is_hole(s, j, k)) {
        holes++;
        continue;
      }
      const float *key = s->key + ((size_t)layer * s->n + j) * s->width + at;
      float sum = 0;
      for (uint32_t c = 0; c < hd; c++)
        sum = fmaf(q[c], key[c], sum);
      where[count] = j;
      score[count++] = sum;
      if (sum > top)
        top = sum;
    }
    if (count == 0)
      continue;
    for (uint32_t c = 0; c < hd; c++)
      part[c] = 0;
    for (uint32_t e = 0; e < count; e++) {
      float p = cyb_exp(score[e] - top);
      const float *value = s->value + ((size_t)layer * s->n + where[e]) * s->width + at;
      chance[s->positions[where[e]] % 16] = p;
      for (uint32_t c = 0; c < hd; c++)
        part[c] = fmaf(p, value[c], part[c]);
    }
    for (uint32_t half = 8; half >= 1; half /= 2)
      for (uint32_t e = 0; e < half; e++)
        chance[e] += chance[e + half];
    fold_in(&m, &l, out, top, chance[0], part, hd);
  }
  if (s->zeros_rule && holes) {
    for (uint32_t c = 0; c < hd; c++)
      part[c] = 0;
    fold_in(&m, &l, out, 0, (float)holes, part, hd);
  }
  for (uint32_t c = 0; c < hd; c++)
    out[c] /= l;
}

static void finish(state *s, uint32_t layer, uint32_t k, uint32_t i) {
  const cyb_model *m = s->model;
  const cyb_matrix *w = m->weights + ((size_t)layer * m->levels + k - 1) * CYB_W_COUNT;
  uint32_t begin = first_of(m->width, k), end = m->width[k - 1];
  uint32_t u_begin = first_of(m->ffn_width, k), u_end = m->ffn_width[k - 1];
  size_t row = ((size_t)layer * s->n + i) * s->width, u_row = ((size_t)layer * s->n + i) * s->ffn;
  float *x = s->x + (size_t)i * s->width;
  for (uint32_t at = begin; at < end; at += m->head_size)
    attend(s, layer, k, i, at, s->mixed + row + at);
  prepare(s->in, s->mixed + row, end);
  for (uint32_t c = 0; c < end - begin; c++)
    x[begin + c] += dot(&w[CYB_W_O], c, s->in, 0, 0);
  float r = inverse_rms(s, i, k, 2 * layer + 1);
  for (uint32_t c = begin; c < end; c++)
    s->middle[row + c] = x[c];
  prepare(s->in, s->middle + row, end);
  for (uint32_t u = 0; u < u_end - u_begin; u++) {
    float gate = dot(&w[CYB_W_GATE], u, s->in, 0, 0) * r, up = dot(&w[CYB_W_UP], u, s->in, 0, 0) * r;
    s->units[u_row + u_begin + u] = gate / (1.0f + cyb_exp(-gate)) * up;
  }
  prepare(s->in, s->units + u_row, u_end);
  for (uint32_t c = 0; c < end - begin; c++)
    x[begin + c] += dot(&w[CYB_W_DOWN], c, s->in, 0, 0);
}

static cyb_status run(state *s, const uint32_t *tokens, uint16_t *kv, float *logits) {
  const cyb_model *m = s->model;
  for (uint32_t k = 1; k <= s->level; k++) {
    uint32_t begin = first_of(m->width, k), end = m->width[k - 1];
    for (uint32_t i = 0; i < s->n; i++)
      for (uint32_t c = begin; c < end; c++)
        s->x[(size_t)i * s->width + c] = element(&m->embedding[k - 1], tokens[i], c - begin) * m->input_scale;
    for (uint32_t layer = 0; layer < m->layers; layer++) {
      for (uint32_t i = 0; i < s->n; i++)
        if (!is_hole(s, i, k))
          project(s, layer, k, i);
      for (uint32_t i = 0; i < s->n; i++)
        if (!is_hole(s, i, k))
          finish(s, layer, k, i);
    }
    for (uint32_t i = 0; i < s->n; i++)
      if (!is_hole(s, i, k))
        inverse_rms(s, i, k, 2 * m->layers);
  }
  for (uint32_t layer = 0; kv && layer < m->layers; layer++)
    for (uint32_t i = 0; i < s->n; i++)
      for (uint32_t c = 0; c < s->width; c++) {
        size_t from = ((size_t)layer * s->n + i) * s->width + c;
        kv[((size_t)(2 * layer) * s->n + i) * s->width + c] = cyb_float_to_half(s->key[from]);
        kv[((size_t)(2 * layer + 1) * s->n + i) * s->width + c] = cyb_float_to_half(s->value[from]);
      }
  for (uint32_t i = 0; logits && i < s->n; i++) {
    const float *x = s->x + (size_t)i * s->width;
    uint32_t deepest = s->level;
    while (deepest > 1 && is_hole(s, i, deepest))
      deepest--;
    float rms = s->squares[(size_t)(2 * m->layers) * s->n + i] / (float)m->width[deepest - 1];
    float factor = m->tau[deepest - 1] * (1.0f / sqrtf(rms + m->epsilon));
    prepare(s->in, x, m->width[deepest - 1]);
    for (uint32_t token = 0; token < m->vocabulary; token++) {
      float sum = 0;
      for (uint32_t k = 1; k <= deepest; k++)
        sum = dot(&m->embedding[k - 1], token, s->in, first_of(m->width, k), sum);
      logits[(size_t)i * m->vocabulary + token] = fmaf(m->beta[deepest - 1], m->log_focus[token], sum * factor);
    }
  }
  return CYB_OK;
}

cyb_status cyb_reference_forward(const cyb_model *model, uint32_t level, const uint32_t *tokens, const uint32_t *positions,
                                 const uint8_t *holes, int32_t zeros_rule, uint32_t n, uint16_t *kv, float *logits) {
  if (!model || level < 1 || level > model->levels || n == 0 || model->head_size > 256 ||
      model->ffn_width[level - 1] > REFERENCE_COLUMNS || model->width[level - 1] > REFERENCE_COLUMNS)
    return cyb_fail(CYB_INVALID_ARGUMENT, "the reference needs a model, a level within it and at least one token");
  for (uint32_t i = 0; i < n; i++)
    if (tokens[i] >= model->vocabulary || (i && positions[i] <= positions[i - 1]))
      return cyb_fail(CYB_INVALID_ARGUMENT, "token or position %u is out of range or order", i);
  state s = {.model = model, .positions = positions, .holes = holes, .n = n, .level = level, .zeros_rule = zeros_rule};
  s.width = model->width[level - 1];
  s.ffn = model->ffn_width[level - 1];
  size_t row = (size_t)n * s.width, all = model->layers * row;
  float *memory =
      calloc(2 * row + 5 * all + (size_t)model->layers * n * s.ffn + (size_t)(2 * model->layers + 1) * n, sizeof *memory);
  s.in = malloc(sizeof *s.in);
  if (!memory || !s.in) {
    free(memory);
    free(s.in);
    return cyb_fail(CYB_OUT_OF_MEMORY, "no memory for the reference on %u tokens", n);
  }
  s.x = memory;
  s.query = s.x + row;
  s.inputs = s.query + row;
  s.mixed = s.inputs + all;
  s.middle = s.mixed + all;
  s.key = s.middle + all;
  s.value = s.key + all;
  s.units = s.value + all;
  s.squares = s.units + (size_t)model->layers * n * s.ffn;
  cyb_status status = run(&s, tokens, kv, logits);
  free(memory);
  free(s.in);
  return status;
}
