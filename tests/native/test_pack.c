/* test_pack.c - packed matrices: sizes, the error of each type, padding, zero groups, and what is refused. */
#include "check.h"
#include "half.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 70, COLUMNS_MOST = 160 };

static void shapes(void) {
  expect(cyb_matrix_bytes(CYB_Q8, 16, 32) == 544, "one q8 group", 0);
  expect(cyb_matrix_bytes(CYB_F16, 16, 32) == 1024, "one f16 panel", 0);
  expect(cyb_matrix_bytes(CYB_Q8, 17, 64) == 4 * 544, "rows are padded", 0);
  expect(cyb_matrix_bytes(CYB_Q8, 0, 32) == 0 && cyb_matrix_bytes(CYB_Q8, 16, 0) == 0, "nothing has no size", 0);
  expect(cyb_matrix_bytes(CYB_Q8, 16, 33) == 0 && cyb_matrix_bytes(CYB_F16, 16, 48) == 0, "columns in groups", 0);
  expect(cyb_matrix_bytes(7, 16, 32) == 0, "unknown type", 0);
}

static void there_and_back(int32_t type, uint64_t number) {
  static float values[ROWS_MOST * COLUMNS_MOST], back[ROWS_MOST * COLUMNS_MOST];
  uint32_t rows = 1 + draw_below(ROWS_MOST), columns = 32 * (1 + draw_below(COLUMNS_MOST / 32));
  for (uint32_t i = 0; i < rows * columns; i++) {
    values[i] = draw_extreme();
    if (type == CYB_F16 && number == 0)
      values[i] *= 1e6f; /* saturates instead of becoming infinite */
  }
  if (number % 3 == 0)
    memset(values, 0, 32 * sizeof *values);
  size_t bytes = cyb_matrix_bytes(type, rows, columns);
  uint8_t *packed = aligned_alloc(32, (bytes + 31) / 32 * 32);
  if (!packed) {
    expect(0, "memory", number);
    return;
  }
  memset(packed, 0xAA, bytes);
  expect(cyb_matrix_pack(type, rows, columns, values, packed, bytes) == CYB_OK, "pack", number);
  cyb_matrix matrix = {type, rows, columns, packed, bytes};
  expect(cyb_matrix_unpack(&matrix, back) == CYB_OK, "unpack", number);
  for (uint32_t i = 0; i < rows * columns; i++) {
    if (type == CYB_F16) {
      float wanted = values[i] > 65504.0f ? 65504.0f : values[i] < -65504.0f ? -65504.0f : values[i];
      expect(back[i] == cyb_half_to_float(cyb_float_to_half(wanted)), "f16 value", number);
      continue;
    }
    float most = 0;
    for (uint32_t c = i / 32 * 32; c < i / 32 * 32 + 32; c++)
      most = fabsf(values[c]) > most ? fabsf(values[c]) : most;
    float scale = cyb_half_to_float(cyb_float_to_half(most / 127.0f));
    if (scale == 0) {
      expect(back[i] == 0, "zero group", number);
      continue;
    }
    float q = rintf(values[i] / scale);
    q = q > 127 ? 127 : q < -127 ? -127 : q;
    expect(back[i] == scale * q, "q8 value", number);
  }
  static float again[ROWS_MOST * COLUMNS_MOST];
  uint32_t padded = (rows + 15) / 16 * 16; /* padding rows are zero */
  cyb_matrix whole = {type, padded, columns, packed, bytes};
  if (padded <= ROWS_MOST && cyb_matrix_unpack(&whole, again) == CYB_OK)
    for (uint32_t i = rows * columns; i < padded * columns; i++)
      expect(again[i] == 0, "padding", number);
  free(packed);
}

static void refusals(void) {
  static float values[16 * 32];
  static uint8_t packed[1024];
  cyb_matrix matrix = {CYB_Q8, 16, 32, packed, 543};
  expect(cyb_matrix_pack(CYB_Q8, 16, 32, values, packed, 545) == CYB_INVALID_ARGUMENT, "wrong size", 0);
  expect(strstr(cyb_last_error(), "544") != NULL, "the right size is told", 0);
  expect(cyb_matrix_unpack(&matrix, values) == CYB_INVALID_ARGUMENT, "wrong size, unpacked", 0);
  expect(cyb_matrix_pack(CYB_Q8, 16, 31, values, packed, 544) == CYB_INVALID_ARGUMENT, "columns", 0);
  values[32 * 3 + 5] = NAN;
  expect(cyb_matrix_pack(CYB_Q8, 16, 32, values, packed, 544) == CYB_INVALID_ARGUMENT, "not finite", 0);
  expect(strstr(cyb_last_error(), "row 3, column 5") != NULL, "where is told", 0);
}

int main(void) {
  shapes();
  for (uint64_t number = 0; number < 60; number++) {
    there_and_back(CYB_F16, number);
    there_and_back(CYB_Q8, number);
  }
  refusals();
  return check_end();
}
