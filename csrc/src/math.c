/*
** math.c - exp, log, silu and the rotation tables, the same bits everywhere: polynomials and explicit fma, nothing of libm that may
** differ. Coefficients: Cephes single-precision expf and logf (S. Moshier).
*/
#include "kernels.h"
#include <math.h>
#include <string.h>

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

float cyb_exp(float x) {
  if (!(x > -87.0f))
    return x != x ? x : 0.0f;
  if (x > 88.0f)
    x = 88.0f;
  float n = rintf(x * 1.44269504088896341f);
  float r = fmaf(n, -0.693359375f, x);
  r = fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  p = fmaf(p, r * r, r) + 1.0f;
  return p * from_bits((uint32_t)((int32_t)n + 127) << 23);
}

float cyb_log(float x) {
  if (!(x > 0))
    return x == 0 ? -INFINITY : NAN;
  if (x == INFINITY)
    return x;
  int32_t exponent = 0;
  if (x < 1.17549435e-38f) {
    x *= 8388608.0f;
    exponent = -23;
  }
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  exponent += (int32_t)(bits >> 23) - 126;
  float m = from_bits((bits & 0x007FFFFFu) | 0x3F000000u); /* [0.5, 1) */
  if (m < 0.707106781186547524f) {
    exponent--;
    m = m + m - 1.0f;
  } else {
    m = m - 1.0f;
  }
  float z = m * m;
  float y = 7.0376836292e-2f;
  y = fmaf(y, m, -1.1514610310e-1f);
  y = fmaf(y, m, 1.1676998740e-1f);
  y = fmaf(y, m, -1.2420140846e-1f);
  y = fmaf(y, m, 1.4249322787e-1f);
  y = fmaf(y, m, -1.6668057665e-1f);
  y = fmaf(y, m, 2.0000714765e-1f);
  y = fmaf(y, m, -2.4999993993e-1f);
  y = fmaf(y, m, 3.3333331174e-1f);
  y = y * m * z;
  float e = (float)exponent;
  y = fmaf(e, -2.12194440e-4f, y);
  y = fmaf(z, -0.5f, y);
  return fmaf(e, 0.693359375f, m + y);
}

float cyb_silu(float x) {
  return x / (1.0f + cyb_exp(-x));
}

/* ---- rotation tables, in double with plain operations only ---- */

static double series_exp(double x) {
  double halved = x / 1024.0, term = 1.0, sum = 1.0;
  for (int i = 1; i < 14; i++) {
    term = term * halved / i;
    sum += term;
  }
  for (int i = 0; i < 10; i++)
    sum *= sum;
  return sum;
}

static double series_log(double x) {
  double shift = 0;
  while (x > 1.5) {
    x *= 0.5;
    shift += 0.693147180559945309417;
  }
  while (x < 0.75) {
    x *= 2;
    shift -= 0.693147180559945309417;
  }
  double u = (x - 1) / (x + 1), square = u * u, power = u, sum = 0;
  for (int i = 1; i < 40; i += 2) {
    sum += power / i;
    power *= square;
  }
  return 2 * sum + shift;
}

static void series_sincos(double x, double *sine, double *cosine) {
  const double quarter = 1.57079632679489661923;
  double turns = floor(x / quarter + 0.5);
  double r = x - turns * quarter, square = r * r, s = r, c = 1, term_s = r, term_c = 1;
  for (int i = 1; i < 12; i++) {
    term_s = -term_s * square / ((2 * i) * (2 * i + 1));
    term_c = -term_c * square / ((2 * i - 1) * (2 * i));
    s += term_s;
    c += term_c;
  }
  switch ((int)(turns - 4 * floor(turns / 4))) {
  case 0:
    *sine = s;
    *cosine = c;
    break;
  case 1:
    *sine = c;
    *cosine = -s;
    break;
  case 2:
    *sine = -s;
    *cosine = -c;
    break;
  default:
    *sine = -c;
    *cosine = s;
    break;
  }
}

void cyb_rope_table(float base, uint32_t head_size, uint32_t position, float *cosine, float *sine) {
  uint32_t half = head_size / 2;
  double logarithm = series_log((double)base);
  for (uint32_t i = 0; i < half; i++) {
    double s, c;
    series_sincos((double)position * series_exp(-logarithm * i / half), &s, &c);
    cosine[i] = (float)c;
    sine[i] = (float)s;
  }
}
