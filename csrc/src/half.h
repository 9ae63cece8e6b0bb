/* half.h - IEEE half floats in software, round to nearest even: the definition that hardware conversions must match. */
#ifndef CYB_HALF_H
#define CYB_HALF_H
#include <stdint.h>
#include <string.h>

static inline float cyb_half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3FFu, bits;
  if (exponent == 31) {
    bits = sign | 0x7F800000u | (mantissa << 13);
  } else if (exponent) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa) {
    exponent = 113;
    while (!(mantissa & 0x400u)) {
      mantissa <<= 1;
      exponent--;
    }
    bits = sign | (exponent << 23) | ((mantissa & 0x3FFu) << 13);
  } else {
    bits = sign;
  }
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint16_t cyb_float_to_half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return (uint16_t)(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) /* rounds to 65536 or more */
    return (uint16_t)(sign | 0x7C00u);
  if (magnitude < 0x33000001u) /* at most half of the smallest */
    return (uint16_t)sign;
  uint32_t exponent = magnitude >> 23, mantissa = (magnitude & 0x7FFFFFu) | 0x800000u, shift = 13;
  if (exponent < 113)
    shift += 113 - exponent;
  uint32_t base = exponent >= 113 ? (exponent - 113) << 10 : 0; /* the implicit bit adds the one that is missing */
  uint32_t value = base + (mantissa >> shift), rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  if (rest > half || (rest == half && (value & 1)))
    value++;
  return (uint16_t)(sign | value);
}
#endif
