/* check.h - what the tests of single modules share: counted expectations and repeatable random values. */
#ifndef CYB_CHECK_H
#define CYB_CHECK_H
#include "kernels.h"
#include <stdio.h>

static int check_failures;
static uint64_t check_drawn;

static inline void expect(int holds, const char *what, uint64_t number) {
  if (holds)
    return;
  if (check_failures++ < 20)
    printf("FAIL %s, case %llu\n", what, (unsigned long long)number);
}

/* Prints the count and gives the exit status of main. */
static inline int check_end(void) {
  printf("%d failures\n", check_failures);
  return check_failures != 0;
}

static inline uint64_t draw(void) {
  return cyb_random_u64(11, 12, check_drawn++);
}
/* [0, most) */
static inline uint32_t draw_below(uint32_t most) {
  return (uint32_t)(draw() % most);
}
/* [-1, 1) */
static inline float draw_signed(void) {
  return cyb_random_unit(13, 14, check_drawn++) * 2 - 1;
}
/* Mostly [-1, 1); sometimes zero, subnormal, small or large. */
static inline float draw_extreme(void) {
  float x = draw_signed();
  switch (draw_below(32)) {
  case 0:
    return x < 0 ? -0.0f : 0.0f;
  case 1:
    return x * 1e-40f;
  case 2:
    return x * 1e-20f;
  case 3:
    return x * 1e6f;
  default:
    return x;
  }
}
#endif
