/* kernels_neon.c - AArch64: products, quantisation and elementwise kernels with NEON, the rest as the scalar table has it. */
#include "kernels.h"
#include "mutation.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum { PANEL = CYB_PANEL_ROWS, GROUP = CYB_QUANT_GROUP, GROUP_BYTES = PANEL * (2 + GROUP), P = CYB_PAGE_POSITIONS };
extern const cyb_kernels cyb_kernels_reference;

static inline float32x4_t half4(const uint16_t *h) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}

static float fold16(const float32x4_t *v) {
  float32x4_t low = vaddq_f32(v[0], v[2]), high = vaddq_f32(v[1], v[3]), four = vaddq_f32(low, high);
  float lane[4];
  vst1q_f32(lane, four);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static void panel_q8(const uint8_t *data, uint32_t groups, const int16_t *q, const float *scale, const float *init,
                     float *out) {
  float32x4_t acc[4];
  for (int i = 0; i < 4; i++)
    acc[i] = init ? vld1q_f32(init + 4 * i) : vdupq_n_f32(0);
  for (uint32_t step = 0; step < groups; step++) {
    uint32_t g = CYB_MUTATED(CYB_MUTATE_SUMMATION_ORDER) ? groups - 1 - step : step;
    const uint8_t *group = data + (size_t)g * GROUP_BYTES;
    const int8_t *w = (const int8_t *)group + 2 * PANEL;
    int32x4_t sum[4];
    for (int i = 0; i < 4; i++)
      sum[i] = vdupq_n_s32(0);
    for (int c = 0; c < GROUP / 2; c++, w += 2 * PANEL) {
      int8x16x2_t pair = vld2q_s8(w); /* even columns, odd columns of 16 rows */
      int16_t first = q[g * GROUP + 2 * c], second = q[g * GROUP + 2 * c + 1];
      int16x8_t e0 = vmovl_s8(vget_low_s8(pair.val[0])), e1 = vmovl_s8(vget_high_s8(pair.val[0]));
      int16x8_t o0 = vmovl_s8(vget_low_s8(pair.val[1])), o1 = vmovl_s8(vget_high_s8(pair.val[1]));
      sum[0] = vmlal_n_s16(vmlal_n_s16(sum[0], vget_low_s16(e0), first), vget_low_s16(o0), second);
      sum[1] = vmlal_n_s16(vmlal_n_s16(sum[1], vget_high_s16(e0), first), vget_high_s16(o0), second);
      sum[2] = vmlal_n_s16(vmlal_n_s16(sum[2], vget_low_s16(e1), first), vget_low_s16(o1), second);
      sum[3] = vmlal_n_s16(vmlal_n_s16(sum[3], vget_high_s16(e1), first), vget_high_s16(o1), second);
    }
    for (int i = 0; i < 4; i++) {
      float32x4_t s = vmulq_n_f32(half4((const uint16_t *)(const void *)group + 4 * i), scale[g]);
      acc[i] = vfmaq_f32(acc[i], vcvtq_f32_s32(sum[i]), s);
    }
  }
  for (int i = 0; i < 4; i++)
    vst1q_f32(out + 4 * i, acc[i]);
}

static void panel_f16(const uint16_t *data, uint32_t columns, const float *x, const float *init, float *out) {
  float32x4_t acc[4];
  for (int i = 0; i < 4; i++)
    acc[i] = init ? vld1q_f32(init + 4 * i) : vdupq_n_f32(0);
  for (uint32_t step = 0; step < columns; step++) {
    uint32_t c = CYB_MUTATED(CYB_MUTATE_SUMMATION_ORDER) ? columns - 1 - step : step;
    for (int i = 0; i < 4; i++)
      acc[i] = vfmaq_n_f32(acc[i], half4(data + (size_t)c * PANEL + 4 * i), x[c]);
  }
  for (int i = 0; i < 4; i++)
    vst1q_f32(out + 4 * i, acc[i]);
}

static void product(const cyb_matrix *w, uint32_t panel_begin, uint32_t panel_end, const cyb_activations *x,
                    const uint32_t *rows, uint32_t n, const float *init, float *out, size_t out_stride) {
  uint32_t groups = w->columns / GROUP;
  for (uint32_t p = panel_begin; p < panel_end; p++)
    for (uint32_t t = 0; t < n; t++) {
      size_t row = rows[t], at = row * out_stride + (size_t)p * PANEL;
      const float *from = init ? init + at : NULL;
      if (w->type == CYB_Q8)
        panel_q8((const uint8_t *)w->data + (size_t)p * groups * GROUP_BYTES, groups, x->q + row * x->q_stride,
                 x->scale + row * x->scale_stride, from, out + at);
      else
        panel_f16((const uint16_t *)w->data + (size_t)p * w->columns * PANEL, w->columns, x->x + row * x->x_stride, from,
                  out + at);
    }
}

static void quantise(const float *x, uint32_t begin, uint32_t end, int16_t *q, float *scale) {
  cyb_kernels_reference.quantise(x, begin, end, q, scale);
}

static float sum_of_squares(const float *x, uint32_t n) {
  float32x4_t lane[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
  for (uint32_t i = 0; i < n; i += 16)
    for (int j = 0; j < 4; j++) {
      float32x4_t v = vld1q_f32(x + i + 4 * j);
      lane[j] = vfmaq_f32(lane[j], v, v);
    }
  return fold16(lane);
}

static void silu_multiply(const float *gate, const float *up, float factor, uint32_t n, float *out) {
  cyb_kernels_reference.silu_multiply(gate, up, factor, n, out);
}

static void scale_row(float *x, float factor, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 4)
    vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), factor));
}

static void add(float *x, const float *y, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 4)
    vst1q_f32(x + i, vaddq_f32(vld1q_f32(x + i), vld1q_f32(y + i)));
}

static void rotate(float *head, const float *cosine, const float *sine, uint32_t head_size) {
  cyb_kernels_reference.rotate(head, cosine, sine, head_size);
}

static void to_half(const float *x, uint16_t *h, uint32_t n) {
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4)
    vst1_u16(h + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
  cyb_kernels_reference.to_half(x + i, h + i, n - i);
}

static void from_half(const uint16_t *h, float *x, uint32_t n) {
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4)
    vst1q_f32(x + i, half4(h + i));
  cyb_kernels_reference.from_half(h + i, x + i, n - i);
}

static void attend_chunk(const float *q, const uint16_t *keys, const uint16_t *values, uint32_t mask, uint32_t head_size,
                         float *m, float *l, float *o) {
  cyb_kernels_reference.attend_chunk(q, keys, values, mask, head_size, m, l, o);
}

static void merge(float *m, float *l, float *o, float m2, float l2, const float *o2, uint32_t head_size) {
  cyb_kernels_reference.merge(m, l, o, m2, l2, o2, head_size);
}

static void tile_softmax(const float *x, uint32_t n, float *maximum, float *sum, float *maxima) {
  cyb_kernels_reference.tile_softmax(x, n, maximum, sum, maxima);
}

static void reaching(const float *x, uint32_t n, float bar, uint32_t *mask) {
  cyb_kernels_reference.reaching(x, n, bar, mask);
}

static void logits(const float *accumulator, float factor, float beta, const float *log_focus, uint32_t n, float *out) {
  uint32_t i = 0;
  float32x4_t b = vdupq_n_f32(beta);
  for (; i + 4 <= n; i += 4)
    vst1q_f32(out + i, vfmaq_f32(vmulq_n_f32(vld1q_f32(accumulator + i), factor), b, vld1q_f32(log_focus + i)));
  for (; i < n; i++)
    out[i] = fmaf(beta, log_focus[i], accumulator[i] * factor);
}

const cyb_kernels cyb_kernels_neon = {product, quantise,  sum_of_squares, silu_multiply, scale_row,    add,      rotate,
                                      to_half, from_half, attend_chunk,   merge,         tile_softmax, reaching, logits};
#else
typedef int cyb_no_neon; /* a translation unit holds something */
#endif
