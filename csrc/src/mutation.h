/* mutation.h - faults planted on purpose, so that `verify` can be seen to fail; nothing of it is in ordinary builds. */
#ifndef CYB_MUTATION_H
#define CYB_MUTATION_H
#ifdef CYB_MUTATIONS
extern int cyb_mutation;
#define CYB_MUTATED(name) (cyb_mutation == (name))
#else
#define CYB_MUTATED(name) 0
#endif
#endif
