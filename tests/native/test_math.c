/* test_math.c - our exp, log, silu and rotation tables against libm in double; random numbers; half floats. */
#include "check.h"
#include "half.h"
#include <math.h>

static void exponentials(void) {
  for (uint32_t i = 0; i < 200000; i++) {
    float x = draw_signed() * 86.9f;
    expect(fabs(cyb_exp(x) / exp((double)x) - 1) < 2e-7, "exp", i);
  }
  expect(cyb_exp(0) == 1.0f && cyb_exp(-0.0f) == 1.0f, "exp of zero", 0);
  expect(cyb_exp(-INFINITY) == 0 && cyb_exp(-87.0f) == 0 && cyb_exp(-1e30f) == 0, "exp far below", 0);
  expect(isfinite(cyb_exp(1e30f)) && cyb_exp(88.0f) == cyb_exp(INFINITY), "exp saturates", 0);
  expect(isnan(cyb_exp(NAN)), "exp of no number", 0);
}

static void logarithms(void) {
  for (uint32_t i = 0; i < 200000; i++) {
    float x = ldexpf(1.0f + 0.5f * (draw_signed() + 1), (int)draw_below(250) - 125);
    double wanted = log((double)x);
    expect(fabs(cyb_log(x) - wanted) < 2e-7 * fabs(wanted) + 1e-7, "log", i);
  }
  expect(cyb_log(1.0f) == 0, "log of one", 0);
  expect(fabs(cyb_log(1e-40f) - log((double)1e-40f)) < 2e-5, "log of a subnormal", 0);
  expect(cyb_log(0) == -INFINITY && cyb_log(INFINITY) == INFINITY && isnan(cyb_log(-1)), "log at its ends", 0);
}

static void silus(void) {
  for (uint32_t i = 0; i < 50000; i++) {
    float x = draw_signed() * 80;
    double wanted = x / (1 + exp(-(double)x));
    expect(fabs(cyb_silu(x) - wanted) <= 4e-7 * fabs(wanted), "silu", i);
  }
  expect(cyb_silu(0) == 0 && cyb_silu(100) == 100 && fabsf(cyb_silu(-1e6f)) < 1e-30f, "silu at its ends", 0);
}

static void rotations(void) {
  float cosine[64], sine[64];
  static const uint32_t positions[] = {0, 1, 2, 15, 16, 1000, 65535, 1000000};
  for (uint32_t p = 0; p < sizeof positions / sizeof *positions; p++)
    for (uint32_t head = 16; head <= 128; head *= 2) {
      cyb_rope_table(10000.0f, head, positions[p], cosine, sine);
      for (uint32_t i = 0; i < head / 2; i++) {
        double angle = positions[p] * pow(10000.0, -2.0 * i / head);
        expect(fabs(cosine[i] - cos(angle)) < 1e-7 && fabs(sine[i] - sin(angle)) < 1e-7, "rotation", positions[p]);
      }
    }
}

static void random_numbers(void) {
  double sum = 0;
  uint32_t above = 0;
  for (uint64_t i = 0; i < 100000; i++) {
    float x = cyb_random_unit(5, i % 7, i);
    expect(x >= 0 && x < 1, "random number within [0, 1)", i);
    sum += x;
    above += x >= 0.75f;
  }
  expect(fabs(sum / 100000 - 0.5) < 0.005 && above > 24400 && above < 25600, "random numbers are even", 0);
  expect(cyb_random_u64(1, 2, 3) == cyb_random_u64(1, 2, 3), "random numbers are a function", 0);
  expect(cyb_random_u64(1, 2, 3) != cyb_random_u64(2, 1, 3) && cyb_random_u64(1, 2, 3) != cyb_random_u64(1, 3, 2),
         "of their order", 0);
}

static void half_floats(void) {
  for (uint32_t bits = 0; bits < 65536; bits++) {
    uint16_t h = (uint16_t)bits;
    if ((h & 0x7C00u) == 0x7C00u && (h & 0x3FFu))
      continue;
    float x = cyb_half_to_float(h);
    expect(cyb_float_to_half(x) == h, "half float there and back", bits);
    if ((h & 0x7FFFu) >= 0x7BFFu)
      continue;
    float next = cyb_half_to_float((uint16_t)(h + 1)), middle = 0.5f * x + 0.5f * next;
    expect(cyb_float_to_half(middle) == (uint16_t)(h + (h & 1)), "half float ties to even", bits);
    expect(cyb_float_to_half(nextafterf(middle, next)) == (uint16_t)(h + 1), "half float above the middle", bits);
    expect(cyb_float_to_half(nextafterf(middle, x)) == h, "half float below the middle", bits);
  }
}

int main(void) {
  exponentials();
  logarithms();
  silus();
  rotations();
  random_numbers();
  half_floats();
  return check_end();
}
