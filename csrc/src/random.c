/* random.c - counter-based random numbers: a pure function of (seed, serial, position), so no order of work can change them. */
#include "kernels.h"

static uint64_t mix(uint64_t x) { /* splitmix64 finaliser, Steele, Lea, Flood 2014 */
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t cyb_random_u64(uint64_t seed, uint64_t serial, uint64_t position) {
  return mix(mix(mix(seed) ^ serial) ^ position);
}

float cyb_random_unit(uint64_t seed, uint64_t serial, uint64_t position) {
  return (float)(cyb_random_u64(seed, serial, position) >> 40) * 0x1p-24f;
}
