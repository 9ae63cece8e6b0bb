/* dispatch.c - which kernels this machine and build have. */
#include "kernels.h"

extern const cyb_kernels cyb_kernels_reference;
#if defined(__x86_64__)
extern const cyb_kernels cyb_kernels_avx2;
#elif defined(__aarch64__)
extern const cyb_kernels cyb_kernels_neon;
#endif

int32_t cyb_isa_supported(int32_t isa) {
  switch (isa) {
  case CYB_ISA_REFERENCE:
    return 1;
#if defined(__x86_64__)
  case CYB_ISA_AVX2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#elif defined(__aarch64__)
  case CYB_ISA_NEON:
    return 1;
#endif
  default:
    return 0;
  }
}

int32_t cyb_isa_best(void) {
  if (cyb_isa_supported(CYB_ISA_AVX2))
    return CYB_ISA_AVX2;
  return cyb_isa_supported(CYB_ISA_NEON) ? CYB_ISA_NEON : CYB_ISA_REFERENCE;
}

const char *cyb_isa_name(int32_t isa) {
  static const char *const names[] = {"auto", "reference", "avx2", "neon"};
  return isa >= CYB_ISA_AUTO && isa <= CYB_ISA_NEON ? names[isa] : "unknown";
}

const cyb_kernels *cyb_kernels_get(int32_t isa) {
  if (!cyb_isa_supported(isa))
    return NULL;
#if defined(__x86_64__)
  if (isa == CYB_ISA_AVX2)
    return &cyb_kernels_avx2;
#elif defined(__aarch64__)
  if (isa == CYB_ISA_NEON)
    return &cyb_kernels_neon;
#endif
  return &cyb_kernels_reference;
}
