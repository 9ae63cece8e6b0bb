/* kernels_reference.c - the scalar table: the definition of every kernel, in the order of operations all others must keep. */
#include "half.h"
#include "kernels.h"
#include "mutation.h"
#include <math.h>

enum { LANES = 16, PANEL = CYB_PANEL_ROWS, GROUP = CYB_QUANT_GROUP, GROUP_BYTES = PANEL * (2 + GROUP), P = CYB_PAGE_POSITIONS };

static float fold(float *lane) {
  for (int width = LANES / 2; width >= 1; width /= 2)
    for (int i = 0; i < width; i++)
      lane[i] = lane[i] + lane[i + width];
  return lane[0];
}

static void product(const cyb_matrix *w, uint32_t panel_begin, uint32_t panel_end, const cyb_activations *x,
                    const uint32_t *rows, uint32_t n, const float *init, float *out, size_t out_stride) {
  uint32_t groups = w->columns / GROUP;
  for (uint32_t p = panel_begin; p < panel_end; p++)
    for (uint32_t t = 0; t < n; t++)
      for (uint32_t i = 0; i < PANEL; i++) {
        size_t at = rows[t] * out_stride + (size_t)p * PANEL + i;
        float acc = init ? init[at] : 0.0f;
        if (w->type == CYB_F16) {
          const uint16_t *panel = (const uint16_t *)w->data + (size_t)p * w->columns * PANEL;
          const float *values = x->x + rows[t] * x->x_stride;
          for (uint32_t c = 0; c < w->columns; c++) {
            uint32_t column = CYB_MUTATED(CYB_MUTATE_SUMMATION_ORDER) ? w->columns - 1 - c : c;
            acc = fmaf(cyb_half_to_float(panel[(size_t)column * PANEL + i]), values[column], acc);
          }
        } else {
          const int16_t *values = x->q + rows[t] * x->q_stride;
          const float *scales = x->scale + rows[t] * x->scale_stride;
          for (uint32_t step = 0; step < groups; step++) {
            uint32_t g = CYB_MUTATED(CYB_MUTATE_SUMMATION_ORDER) ? groups - 1 - step : step;
            const uint8_t *group = (const uint8_t *)w->data + ((size_t)p * groups + g) * GROUP_BYTES;
            uint16_t half;
            memcpy(&half, group + 2 * i, sizeof half);
            const int8_t *q = (const int8_t *)group + 2 * PANEL;
            int32_t sum = 0;
            for (uint32_t c = 0; c < GROUP; c++)
              sum += q[(c / 2) * 2 * PANEL + i * 2 + c % 2] * values[g * GROUP + c];
            float scale = cyb_half_to_float(half) * scales[g];
            acc = fmaf((float)sum, scale, acc);
          }
        }
        out[at] = acc;
      }
}

static void quantise(const float *x, uint32_t begin, uint32_t end, int16_t *q, float *scale) {
  uint32_t shift = CYB_MUTATED(CYB_MUTATE_STRADDLING_GROUP) && begin > 0 ? GROUP / 2 : 0;
  for (uint32_t g = begin; g < end; g += GROUP) {
    float most = 0;
    for (uint32_t c = 0; c < GROUP; c++) {
      float magnitude = fabsf(x[g - shift + c]);
      most = magnitude > most ? magnitude : most;
    }
    float s = most / 4095.0f;
    if (!(s > 1e-30f)) { /* nothing, or too small to divide by */
      scale[g / GROUP] = 0;
      memset(q + g, 0, GROUP * sizeof *q);
      continue;
    }
    scale[g / GROUP] = s;
    for (uint32_t c = 0; c < GROUP; c++) {
      float value = rintf(x[g + c] / s);
      value = value > 4095.0f ? 4095.0f : value < -4095.0f ? -4095.0f : value;
      q[g + c] = (int16_t)value;
    }
  }
}

static float sum_of_squares(const float *x, uint32_t n) {
  float lane[LANES] = {0};
  for (uint32_t i = 0; i < n; i++)
    lane[i % LANES] = fmaf(x[i], x[i], lane[i % LANES]);
  return fold(lane);
}

static void silu_multiply(const float *gate, const float *up, float factor, uint32_t n, float *out) {
  for (uint32_t i = 0; i < n; i++)
    out[i] = cyb_silu(gate[i] * factor) * (up[i] * factor);
}

static void scale(float *x, float factor, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    x[i] *= factor;
}

static void add(float *x, const float *y, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    x[i] += y[i];
}

static void rotate(float *head, const float *cosine, const float *sine, uint32_t head_size) {
  uint32_t half = head_size / 2;
  for (uint32_t i = 0; i < half; i++) {
    float a = head[i], b = head[i + half];
    head[i] = fmaf(a, cosine[i], -(b * sine[i]));
    head[i + half] = fmaf(b, cosine[i], a * sine[i]);
  }
}

static void to_half(const float *x, uint16_t *h, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    h[i] = cyb_float_to_half(x[i]);
}

static void from_half(const uint16_t *h, float *x, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    x[i] = cyb_half_to_float(h[i]);
}

static void attend_chunk(const float *q, const uint16_t *keys, const uint16_t *values, uint32_t mask, uint32_t head_size,
                         float *m, float *l, float *o) {
  float score[P] = {0}, chance[P];
  for (uint32_t c = 0; c < head_size; c++) {
    o[c] = 0;
    for (uint32_t i = 0; i < P; i++)
      score[i] = fmaf(q[c], cyb_half_to_float(keys[(size_t)c * P + i]), score[i]);
  }
  float maximum = -INFINITY;
  for (uint32_t i = 0; i < P; i++)
    if ((mask >> i & 1) && score[i] > maximum)
      maximum = score[i];
  *m = maximum;
  *l = 0;
  if (mask == 0)
    return;
  for (uint32_t i = 0; i < P; i++)
    chance[i] = mask >> i & 1 ? cyb_exp(score[i] - maximum) : 0.0f;
  for (uint32_t i = 0; i < P; i++)
    if (mask >> i & 1)
      for (uint32_t c = 0; c < head_size; c++)
        o[c] = fmaf(chance[i], cyb_half_to_float(values[(size_t)i * head_size + c]), o[c]);
  *l = fold(chance);
}

static void merge(float *m, float *l, float *o, float m2, float l2, const float *o2, uint32_t head_size) {
  if (m2 == -INFINITY)
    return;
  float maximum = *m > m2 ? *m : m2;
  float a = cyb_exp(*m - maximum), b = cyb_exp(m2 - maximum);
  *l = fmaf(l2, b, *l * a);
  for (uint32_t c = 0; c < head_size; c++)
    o[c] = fmaf(o2[c], b, o[c] * a);
  *m = maximum;
}

static void tile_softmax(const float *x, uint32_t n, float *maximum, float *sum, float *maxima) {
  float most = -INFINITY, lane[LANES] = {0};
  for (uint32_t i = 0; i < CYB_TILE_MAXIMA; i++)
    maxima[i] = -INFINITY;
  for (uint32_t i = 0; i < n; i++) {
    float *mine = &maxima[i / 128 * 8 + i % 8];
    *mine = x[i] > *mine ? x[i] : *mine;
    most = x[i] > most ? x[i] : most;
  }
  *maximum = most;
  *sum = 0;
  if (most == -INFINITY)
    return;
  for (uint32_t i = 0; i < n; i++)
    lane[i % LANES] += cyb_exp(x[i] - most);
  *sum = fold(lane);
}

static void reaching(const float *x, uint32_t n, float bar, uint32_t *mask) {
  for (uint32_t i = 0; i < 4; i++)
    mask[i] = 0;
  for (uint32_t i = 0; i < n; i++)
    mask[i / 32] |= (uint32_t)(x[i] >= bar) << i % 32;
}

static void logits(const float *accumulator, float factor, float beta, const float *log_focus, uint32_t n, float *out) {
  for (uint32_t i = 0; i < n; i++)
    out[i] = fmaf(beta, log_focus[i], accumulator[i] * factor);
}

const cyb_kernels cyb_kernels_reference = {product, quantise,  sum_of_squares, silu_multiply, scale,        add,      rotate,
                                           to_half, from_half, attend_chunk,   merge,         tile_softmax, reaching, logits};
