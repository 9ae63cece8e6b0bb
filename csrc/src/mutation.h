/* mutation.h - faults planted on purpose, so that `verify` can be seen to fail; nothing of it is in ordinary builds. */
#ifndef CYB_MUTATION_H
#define CYB_MUTATION_H
#ifdef CYB_MUTATIONS
extern int cyb_mutation;
#define CYB_MUTATED(name) (cyb_mutation == (name))
#define CYB_UNMUTATED     (cyb_mutation == CYB_MUTATE_NONE)
#else
#define CYB_MUTATED(name) 0
#define CYB_UNMUTATED     1
#endif
#endif
