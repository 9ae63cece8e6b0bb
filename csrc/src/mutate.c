/* mutate.c - switches a planted fault on; see mutation.h. */
#include "kernels.h"
#include "mutation.h"

#ifdef CYB_MUTATIONS
int cyb_mutation = CYB_MUTATE_NONE;

cyb_status cyb_mutate(int32_t mutation) {
  if (mutation < CYB_MUTATE_NONE || mutation > CYB_MUTATE_STRADDLING_GROUP)
    return cyb_fail(CYB_INVALID_ARGUMENT, "mutation %d is not known", mutation);
  cyb_mutation = mutation;
  return CYB_OK;
}
#else
cyb_status cyb_mutate(int32_t mutation) {
  (void)mutation;
  return cyb_fail(CYB_UNSUPPORTED, "this library was built without CYB_MUTATIONS, so no fault can be planted");
}
#endif
