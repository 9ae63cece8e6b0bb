/*
** sequence.h - a list of chunks that one agent, context or query reads: its view into the pool.
**
** Under back-fill every block of every chunk is canonical and shared. Under zeros and window the KV of blocks >= 2 is private: it was
** computed over holes, so it lives in overlay pages of the sequence and depth[] says which positions hold which blocks.
*/
#ifndef CYB_SEQUENCE_H
#define CYB_SEQUENCE_H
#include "chunk.h"

/*
** Invariant: chunks [0, shared) belong to contexts, the others to layers personal and kv; only the last chunk may be open;
** have[q] <= depth[q] or depth[q] == 0 (not computed yet); overlay pages exist only while inherit is not back-fill.
*/
typedef struct cyb_sequence {
  uint32_t *chunks; /* [capacity] ids, [0, count) held */
  uint32_t count, capacity, shared;
  uint32_t serial; /* owner tag of overlay pages */
  int32_t inherit; /* CYB_INHERIT_* in force */
  uint32_t window;
  uint8_t *depth; /* [capacity*16] level of KV a position holds when nothing was released; private positions, not back-fill */
  uint8_t *have;  /* [capacity*16] level stored now */
  uint32_t *overlay; /* [capacity][slots] page ids of blocks >= 2 */
  uint32_t overlay_pages;
  uint32_t window_end;                  /* position + 1 of the row that window_from[] is for, 0 = none */
  uint32_t window_from[CYB_LEVELS_MAX]; /* oldest position that row fills at each level; CYB_NONE = not chosen yet */
} cyb_sequence;

void cyb_sequence_init(cyb_sequence *sequence, uint32_t serial);
void cyb_sequence_clear(cyb_sequence *sequence, cyb_chunks *chunks); /* drops everything held; arrays are kept */
void cyb_sequence_free(cyb_sequence *sequence, cyb_chunks *chunks);
/* Adds one token behind the last; new_layer starts a chunk even if the last has room. CYB_OUT_OF_MEMORY leaves it unchanged. */
cyb_status cyb_sequence_append(cyb_sequence *sequence, cyb_chunks *chunks, uint32_t token, uint8_t layer, int new_layer);
/* Adds tokens [0,n): whole sealed chunks that exist already are mapped instead of made again. close: the layer ends here. */
cyb_status cyb_sequence_extend(cyb_sequence *sequence, cyb_chunks *chunks, const uint32_t *tokens, uint32_t n, uint8_t layer,
                               int close);
/* Maps a chunk of another holder behind the last. */
cyb_status cyb_sequence_map(cyb_sequence *sequence, cyb_chunks *chunks, uint32_t id);
uint32_t cyb_sequence_end(const cyb_sequence *sequence, const cyb_chunks *chunks); /* one past the last absolute position */
void cyb_sequence_set_inherit(cyb_sequence *sequence, cyb_chunks *chunks, int32_t inherit, uint32_t window);
/* Indexes chunks that became sealed; where an equal one exists, maps that and drops its own. */
void cyb_sequence_seal(cyb_sequence *sequence, cyb_chunks *chunks);
void cyb_sequence_drop_overlay(cyb_sequence *sequence, cyb_chunks *chunks);
/* Frees the pages of chunks nobody else holds and of the overlay; tokens stay, so the next gather computes them again. The overlay of a
** window stays: what was filled when cannot be computed again. */
void cyb_sequence_release_pages(cyb_sequence *sequence, cyb_chunks *chunks);
/* Overlay pages of slots [begin, end) of chunk number i; 0: pool full, nothing taken. */
int cyb_sequence_overlay(cyb_sequence *sequence, cyb_chunks *chunks, uint32_t i, uint32_t begin, uint32_t end);
/* Positions of chunk number i that block k (>= 2) of the row at `own` attends to under zeros or window, as a mask. */
uint32_t cyb_sequence_mask(const cyb_sequence *sequence, const cyb_chunks *chunks, uint32_t i, uint32_t k, uint32_t own);
#endif
