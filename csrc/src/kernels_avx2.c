/* kernels_avx2.c - AVX2, FMA and F16C; the same operations in the same order as kernels_reference.c, eight lanes at a time. */
#include "kernels.h"
#include "mutation.h"
#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { PANEL = CYB_PANEL_ROWS, GROUP = CYB_QUANT_GROUP, GROUP_BYTES = PANEL * (2 + GROUP), P = CYB_PAGE_POSITIONS };
extern const cyb_kernels cyb_kernels_reference;

static inline __m256 exp8(__m256 x) {
  __m256 dead = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LE_OQ);
  x = _mm256_min_ps(_mm256_set1_ps(88.0f), x); /* in this order, so that what is not a number stays so */
  __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693359375f), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_andnot_ps(dead, _mm256_mul_ps(p, _mm256_castsi256_ps(bits)));
}

/* lanes 0..7 in a, 8..15 in b */
static inline float fold16(__m256 a, __m256 b) {
  __m256 eight = _mm256_add_ps(a, b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline __m256 half8(const uint16_t *h) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

static inline __m256i pair_at(const int16_t *q) {
  int32_t pair;
  memcpy(&pair, q, sizeof pair);
  return _mm256_set1_epi32(pair);
}

/* One panel of 16 rows against T <= 4 tokens. Integer accumulators have names, as gcc keeps an array of eight in memory; the float ones
** stay in out between groups, so that they do not take registers from them. Together this is twice the speed. */
static inline __attribute__((always_inline)) void panel_q8(const uint8_t *data, uint32_t groups, const int16_t *const *q,
                                                           const float *const *scale, const float *const *init,
                                                           float *const *out, const int T) {
  const int16_t *q0 = q[0], *q1 = T > 1 ? q[1] : q0, *q2 = T > 2 ? q[2] : q0, *q3 = T > 3 ? q[3] : q0;
  for (int t = 0; t < T; t++) {
    __m256 low = init ? _mm256_loadu_ps(init[t]) : _mm256_setzero_ps(), high = init ? _mm256_loadu_ps(init[t] + 8) : low;
    _mm256_storeu_ps(out[t], low);
    _mm256_storeu_ps(out[t] + 8, high);
  }
  for (uint32_t step = 0; step < groups; step++) {
    uint32_t g = CYB_MUTATED(CYB_MUTATE_SUMMATION_ORDER) ? groups - 1 - step : step;
    const uint8_t *group = data + (size_t)g * GROUP_BYTES;
    const __m128i *w = (const __m128i *)(const void *)(group + 2 * PANEL);
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
#pragma GCC unroll 4
    for (int c = 0; c < GROUP / 2; c++) {
      __m256i w0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(w + 2 * c)), w1 = _mm256_cvtepi8_epi16(_mm_loadu_si128(w + 2 * c + 1));
#define SUM(t)                                                                                                                 \
  if (T > t) {                                                                                                                 \
    __m256i x = pair_at(q##t + g * GROUP + 2 * c);                                                                             \
    a##t = _mm256_add_epi32(a##t, _mm256_madd_epi16(w0, x));                                                                   \
    b##t = _mm256_add_epi32(b##t, _mm256_madd_epi16(w1, x));                                                                   \
  }
      SUM(0)
      SUM(1)
      SUM(2)
      SUM(3)
#undef SUM
    }
    __m256 s0 = half8((const uint16_t *)(const void *)group), s1 = half8((const uint16_t *)(const void *)group + 8);
#define ADD(t)                                                                                                                 \
  if (T > t) {                                                                                                                 \
    __m256 s = _mm256_broadcast_ss(scale[t] + g);                                                                              \
    __m256 low = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a##t), _mm256_mul_ps(s0, s), _mm256_loadu_ps(out[t]));                     \
    __m256 high = _mm256_fmadd_ps(_mm256_cvtepi32_ps(b##t), _mm256_mul_ps(s1, s), _mm256_loadu_ps(out[t] + 8));                \
    _mm256_storeu_ps(out[t], low);                                                                                             \
    _mm256_storeu_ps(out[t] + 8, high);                                                                                        \
  }
    ADD(0)
    ADD(1)
    ADD(2)
    ADD(3)
#undef ADD
  }
}

static inline __attribute__((always_inline)) void panel_f16(const uint16_t *data, uint32_t columns, const float *const *x,
                                                            const float *const *init, float *const *out, const int T) {
  __m256 low[4], high[4];
  for (int t = 0; t < T; t++) {
    low[t] = init ? _mm256_loadu_ps(init[t]) : _mm256_setzero_ps();
    high[t] = init ? _mm256_loadu_ps(init[t] + 8) : _mm256_setzero_ps();
  }
  for (uint32_t step = 0; step < columns; step++) {
    uint32_t c = CYB_MUTATED(CYB_MUTATE_SUMMATION_ORDER) ? columns - 1 - step : step;
    __m256 w0 = half8(data + (size_t)c * PANEL), w1 = half8(data + (size_t)c * PANEL + 8);
    for (int t = 0; t < T; t++) {
      __m256 v = _mm256_broadcast_ss(x[t] + c);
      low[t] = _mm256_fmadd_ps(w0, v, low[t]);
      high[t] = _mm256_fmadd_ps(w1, v, high[t]);
    }
  }
  for (int t = 0; t < T; t++) {
    _mm256_storeu_ps(out[t], low[t]);
    _mm256_storeu_ps(out[t] + 8, high[t]);
  }
}

/* T tokens against all panels: a panel stays in the first cache while the tokens of a call walk over it. */
#define TILES(T)                                                                                                               \
  if (w->type == CYB_Q8)                                                                                                       \
    panel_q8((const uint8_t *)w->data + (size_t)p * groups * GROUP_BYTES, groups, q, scale, init ? from : NULL, to, T);        \
  else                                                                                                                         \
    panel_f16((const uint16_t *)w->data + (size_t)p * w->columns * PANEL, w->columns, xs, init ? from : NULL, to, T)

static void product(const cyb_matrix *w, uint32_t panel_begin, uint32_t panel_end, const cyb_activations *x,
                    const uint32_t *rows, uint32_t n, const float *init, float *out, size_t out_stride) {
  uint32_t groups = w->columns / GROUP;
  for (uint32_t p = panel_begin; p < panel_end; p++)
    for (uint32_t t = 0; t < n;) {
      uint32_t count = n - t < 4 ? n - t : 4;
      const int16_t *q[4];
      const float *scale[4], *xs[4], *from[4];
      float *to[4];
      for (uint32_t i = 0; i < count; i++) {
        size_t row = rows[t + i];
        q[i] = x->q + row * x->q_stride;
        scale[i] = x->scale + row * x->scale_stride;
        xs[i] = w->type == CYB_F16 ? x->x + row * x->x_stride : NULL;
        size_t at = row * out_stride + (size_t)p * PANEL;
        from[i] = init ? init + at : NULL;
        to[i] = out + at;
      }
      switch (count) {
      case 4:
        TILES(4);
        break;
      case 3:
        TILES(3);
        break;
      case 2:
        TILES(2);
        break;
      default:
        TILES(1);
        break;
      }
      t += count;
    }
}

static void quantise(const float *x, uint32_t begin, uint32_t end, int16_t *q, float *scale) {
  if (CYB_MUTATED(CYB_MUTATE_STRADDLING_GROUP)) {
    cyb_kernels_reference.quantise(x, begin, end, q, scale);
    return;
  }
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (uint32_t g = begin; g < end; g += GROUP) {
    __m256 v[4], most = _mm256_setzero_ps();
    for (int i = 0; i < 4; i++) {
      v[i] = _mm256_loadu_ps(x + g + 8 * i);
      most = _mm256_max_ps(_mm256_andnot_ps(sign, v[i]), most);
    }
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    four = _mm_max_ss(four, _mm_shuffle_ps(four, four, 1));
    float s = _mm_cvtss_f32(four) / 4095.0f;
    if (!(s > 1e-30f)) {
      scale[g / GROUP] = 0;
      memset(q + g, 0, GROUP * sizeof *q);
      continue;
    }
    scale[g / GROUP] = s;
    __m256 divisor = _mm256_set1_ps(s), top = _mm256_set1_ps(4095.0f), bottom = _mm256_set1_ps(-4095.0f);
    __m256i whole[4];
    for (int i = 0; i < 4; i++)
      whole[i] = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(_mm256_div_ps(v[i], divisor), top), bottom));
    for (int i = 0; i < 2; i++) {
      __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(whole[2 * i], whole[2 * i + 1]), 0xD8);
      _mm256_storeu_si256((__m256i *)(void *)(q + g + 16 * i), packed);
    }
  }
}

static float sum_of_squares(const float *x, uint32_t n) {
  __m256 a = _mm256_setzero_ps(), b = a;
  for (uint32_t i = 0; i < n; i += 16) {
    __m256 u = _mm256_loadu_ps(x + i), v = _mm256_loadu_ps(x + i + 8);
    a = _mm256_fmadd_ps(u, u, a);
    b = _mm256_fmadd_ps(v, v, b);
  }
  return fold16(a, b);
}

static void silu_multiply(const float *gate, const float *up, float factor, uint32_t n, float *out) {
  __m256 f = _mm256_set1_ps(factor), one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
  for (uint32_t i = 0; i < n; i += 8) {
    __m256 g = _mm256_mul_ps(_mm256_loadu_ps(gate + i), f), u = _mm256_mul_ps(_mm256_loadu_ps(up + i), f);
    __m256 s = _mm256_div_ps(g, _mm256_add_ps(one, exp8(_mm256_xor_ps(g, sign))));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(s, u));
  }
}

static void scale_row(float *x, float factor, uint32_t n) {
  __m256 f = _mm256_set1_ps(factor);
  for (uint32_t i = 0; i < n; i += 8)
    _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), f));
}

static void add(float *x, const float *y, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 8)
    _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
}

static void rotate(float *head, const float *cosine, const float *sine, uint32_t head_size) {
  uint32_t half = head_size / 2;
  if (half % 8) {
    cyb_kernels_reference.rotate(head, cosine, sine, head_size);
    return;
  }
  for (uint32_t i = 0; i < half; i += 8) {
    __m256 a = _mm256_loadu_ps(head + i), b = _mm256_loadu_ps(head + half + i);
    __m256 c = _mm256_loadu_ps(cosine + i), s = _mm256_loadu_ps(sine + i);
    _mm256_storeu_ps(head + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    _mm256_storeu_ps(head + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
  }
}

static void to_half(const float *x, uint16_t *h, uint32_t n) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(h + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  cyb_kernels_reference.to_half(x + i, h + i, n - i);
}

static void from_half(const uint16_t *h, float *x, uint32_t n) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(x + i, half8(h + i));
  cyb_kernels_reference.from_half(h + i, x + i, n - i);
}

static void attend_chunk(const float *q, const uint16_t *keys, const uint16_t *values, uint32_t mask, uint32_t head_size,
                         float *m, float *l, float *o) {
  if (head_size % 8) {
    cyb_kernels_reference.attend_chunk(q, keys, values, mask, head_size, m, l, o);
    return;
  }
  memset(o, 0, head_size * sizeof *o);
  *l = 0;
  *m = -INFINITY;
  if (mask == 0)
    return;
  __m256 s0 = _mm256_setzero_ps(), s1 = s0;
  for (uint32_t c = 0; c < head_size; c++) {
    __m256 v = _mm256_broadcast_ss(q + c);
    s0 = _mm256_fmadd_ps(v, half8(keys + (size_t)c * P), s0);
    s1 = _mm256_fmadd_ps(v, half8(keys + (size_t)c * P + 8), s1);
  }
  __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  __m256i all = _mm256_set1_epi32((int)mask), upper = _mm256_slli_epi32(bits, 8);
  __m256 in0 = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, bits), bits));
  __m256 in1 = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, upper), upper));
  __m256 never = _mm256_set1_ps(-INFINITY);
  __m256 most = _mm256_max_ps(_mm256_blendv_ps(never, s0, in0), _mm256_blendv_ps(never, s1, in1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  four = _mm_max_ss(four, _mm_shuffle_ps(four, four, 1));
  float maximum = _mm_cvtss_f32(four);
  __m256 top = _mm256_set1_ps(maximum);
  __m256 p0 = _mm256_and_ps(in0, exp8(_mm256_sub_ps(s0, top))), p1 = _mm256_and_ps(in1, exp8(_mm256_sub_ps(s1, top)));
  float chance[P];
  _mm256_storeu_ps(chance, p0);
  _mm256_storeu_ps(chance + 8, p1);
  if (head_size == 32) {
    __m256 o0 = _mm256_setzero_ps(), o1 = o0, o2 = o0, o3 = o0;
    for (uint32_t i = 0; i < P; i++) {
      if (!(mask >> i & 1))
        continue;
      __m256 p = _mm256_broadcast_ss(chance + i);
      const uint16_t *v = values + (size_t)i * 32;
      o0 = _mm256_fmadd_ps(p, half8(v), o0);
      o1 = _mm256_fmadd_ps(p, half8(v + 8), o1);
      o2 = _mm256_fmadd_ps(p, half8(v + 16), o2);
      o3 = _mm256_fmadd_ps(p, half8(v + 24), o3);
    }
    _mm256_storeu_ps(o, o0);
    _mm256_storeu_ps(o + 8, o1);
    _mm256_storeu_ps(o + 16, o2);
    _mm256_storeu_ps(o + 24, o3);
  } else {
    for (uint32_t i = 0; i < P; i++) {
      if (!(mask >> i & 1))
        continue;
      __m256 p = _mm256_broadcast_ss(chance + i);
      for (uint32_t c = 0; c < head_size; c += 8)
        _mm256_storeu_ps(o + c, _mm256_fmadd_ps(p, half8(values + (size_t)i * head_size + c), _mm256_loadu_ps(o + c)));
    }
  }
  *m = maximum;
  *l = fold16(p0, p1);
}

static void merge(float *m, float *l, float *o, float m2, float l2, const float *o2, uint32_t head_size) {
  if (head_size % 8 || m2 == -INFINITY) {
    cyb_kernels_reference.merge(m, l, o, m2, l2, o2, head_size);
    return;
  }
  float maximum = *m > m2 ? *m : m2;
  __m256 both = exp8(_mm256_setr_ps(*m - maximum, m2 - maximum, 0, 0, 0, 0, 0, 0));
  __m128 first = _mm256_castps256_ps128(both), second = _mm_movehdup_ps(first);
  *l = fmaf(l2, _mm_cvtss_f32(second), *l * _mm_cvtss_f32(first));
  __m256 va = _mm256_broadcastss_ps(first), vb = _mm256_broadcastss_ps(second);
  for (uint32_t c = 0; c < head_size; c += 8)
    _mm256_storeu_ps(o + c, _mm256_fmadd_ps(_mm256_loadu_ps(o2 + c), vb, _mm256_mul_ps(_mm256_loadu_ps(o + c), va)));
  *m = maximum;
}

static void tile_softmax(const float *x, uint32_t n, float *maximum, float *sum, float *maxima) {
  uint32_t whole = n & ~15u;
  float most = -INFINITY, lane[8];
  __m256 never = _mm256_set1_ps(-INFINITY), all = never;
  for (uint32_t begin = 0; begin < CYB_VOCAB_TILE; begin += 128) {
    uint32_t end = begin + 128 < n ? begin + 128 : n & ~7u;
    __m256 here = never;
    for (uint32_t i = begin; i < end; i += 8)
      here = _mm256_max_ps(_mm256_loadu_ps(x + i), here);
    _mm256_storeu_ps(maxima + begin / 16, here);
    all = _mm256_max_ps(here, all);
  }
  _mm256_storeu_ps(lane, all);
  for (int i = 0; i < 8; i++)
    most = lane[i] > most ? lane[i] : most;
  for (uint32_t i = n & ~7u; i < n; i++) {
    float *mine = &maxima[i / 128 * 8 + i % 8];
    *mine = x[i] > *mine ? x[i] : *mine;
    most = x[i] > most ? x[i] : most;
  }
  *maximum = most;
  *sum = 0;
  if (most == -INFINITY)
    return;
  __m256 top = _mm256_set1_ps(most), a = _mm256_setzero_ps(), b = a;
  for (uint32_t i = 0; i < whole; i += 16) {
    a = _mm256_add_ps(a, exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i), top)));
    b = _mm256_add_ps(b, exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), top)));
  }
  if (whole < n) {
    float rest[16];
    for (uint32_t i = 0; i < 16; i++)
      rest[i] = whole + i < n ? x[whole + i] : -INFINITY;
    a = _mm256_add_ps(a, exp8(_mm256_sub_ps(_mm256_loadu_ps(rest), top)));
    b = _mm256_add_ps(b, exp8(_mm256_sub_ps(_mm256_loadu_ps(rest + 8), top)));
  }
  *sum = fold16(a, b);
}

static void reaching(const float *x, uint32_t n, float bar, uint32_t *mask) {
  if (n < 128) {
    cyb_kernels_reference.reaching(x, n, bar, mask);
    return;
  }
  __m256 bars = _mm256_set1_ps(bar);
  for (uint32_t i = 0; i < 4; i++, x += 32) {
    uint32_t bits = 0;
    for (uint32_t j = 0; j < 4; j++)
      bits |= (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + 8 * j), bars, _CMP_GE_OQ)) << 8 * j;
    mask[i] = bits;
  }
}

static void logits(const float *accumulator, float factor, float beta, const float *log_focus, uint32_t n, float *out) {
  __m256 f = _mm256_set1_ps(factor), b = _mm256_set1_ps(beta);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_fmadd_ps(b, _mm256_loadu_ps(log_focus + i), _mm256_mul_ps(_mm256_loadu_ps(accumulator + i), f)));
  for (; i < n; i++)
    out[i] = fmaf(beta, log_focus[i], accumulator[i] * factor);
}

const cyb_kernels cyb_kernels_avx2 = {product, quantise,  sum_of_squares, silu_multiply, scale_row,    add,      rotate,
                                      to_half, from_half, attend_chunk,   merge,         tile_softmax, reaching, logits};
#else
typedef int cyb_no_avx2; /* a translation unit holds something */
#endif
