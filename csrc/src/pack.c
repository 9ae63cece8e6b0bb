/* pack.c - packed matrices: the tile order that kernels read, written once at export; see cyb_matrix in cyb.h. */
#include "half.h"
#include "kernels.h"
#include <math.h>

enum { PANEL = CYB_PANEL_ROWS, GROUP = CYB_QUANT_GROUP, GROUP_BYTES = PANEL * (2 + GROUP) };

size_t cyb_matrix_bytes(int32_t type, uint32_t rows, uint32_t columns) {
  if (rows == 0 || columns == 0 || columns % GROUP || rows > 1u << 28 || columns > 1u << 20)
    return 0;
  size_t panels = ((size_t)rows + PANEL - 1) / PANEL;
  if (type == CYB_F16)
    return panels * PANEL * columns * sizeof(uint16_t);
  return type == CYB_Q8 ? panels * (columns / GROUP) * GROUP_BYTES : 0;
}

static cyb_status check(int32_t type, uint32_t rows, uint32_t columns, size_t bytes) {
  size_t expected = cyb_matrix_bytes(type, rows, columns);
  if (expected == 0)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a %u x %u matrix of type %d cannot be packed: columns must be a multiple of 32",
                    rows, columns, type);
  if (bytes != expected)
    return cyb_fail(CYB_INVALID_ARGUMENT, "a packed %u x %u matrix has %zu bytes, not %zu", rows, columns, expected, bytes);
  return CYB_OK;
}

cyb_status cyb_matrix_pack(int32_t type, uint32_t rows, uint32_t columns, const float *values, void *packed, size_t bytes) {
  cyb_status status = check(type, rows, columns, bytes);
  if (status != CYB_OK)
    return status;
  for (size_t i = 0; i < (size_t)rows * columns; i++)
    if (!isfinite(values[i]))
      return cyb_fail(CYB_INVALID_ARGUMENT, "value at row %zu, column %zu is not finite", i / columns, i % columns);
  memset(packed, 0, bytes);
  if (type == CYB_F16) {
    uint16_t *out = packed;
    for (uint32_t row = 0; row < rows; row++)
      for (uint32_t column = 0; column < columns; column++) {
        float value = values[(size_t)row * columns + column];
        value = value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value;
        out[((size_t)(row / PANEL) * columns + column) * PANEL + row % PANEL] = cyb_float_to_half(value);
      }
    return CYB_OK;
  }
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t g = 0; g < columns / GROUP; g++) {
      const float *from = values + (size_t)row * columns + (size_t)g * GROUP;
      uint8_t *group = (uint8_t *)packed + ((size_t)(row / PANEL) * (columns / GROUP) + g) * GROUP_BYTES;
      uint32_t lane = row % PANEL;
      float most = 0;
      for (uint32_t c = 0; c < GROUP; c++)
        most = fabsf(from[c]) > most ? fabsf(from[c]) : most;
      float wanted = most / 127.0f;
      uint16_t half = cyb_float_to_half(wanted > 65504.0f ? 65504.0f : wanted);
      float scale = cyb_half_to_float(half);
      memcpy(group + 2 * lane, &half, sizeof half);
      for (uint32_t c = 0; c < GROUP; c++) {
        float q = scale > 0 ? rintf(from[c] / scale) : 0;
        q = q > 127 ? 127 : q < -127 ? -127 : q;
        ((int8_t *)group)[2 * PANEL + (c / 2) * 2 * PANEL + lane * 2 + c % 2] = (int8_t)q;
      }
    }
  return CYB_OK;
}

cyb_status cyb_matrix_unpack(const cyb_matrix *matrix, float *values) {
  cyb_status status = check(matrix->type, matrix->rows, matrix->columns, matrix->bytes);
  if (status != CYB_OK)
    return status;
  uint32_t columns = matrix->columns;
  for (uint32_t row = 0; row < matrix->rows; row++)
    for (uint32_t column = 0; column < columns; column++) {
      float *out = values + (size_t)row * columns + column;
      uint32_t lane = row % PANEL;
      if (matrix->type == CYB_F16) {
        *out = cyb_half_to_float(((const uint16_t *)matrix->data)[((size_t)(row / PANEL) * columns + column) * PANEL + lane]);
        continue;
      }
      const uint8_t *group =
          (const uint8_t *)matrix->data + ((size_t)(row / PANEL) * (columns / GROUP) + column / GROUP) * GROUP_BYTES;
      uint16_t half;
      memcpy(&half, group + 2 * lane, sizeof half);
      uint32_t c = column % GROUP;
      *out = cyb_half_to_float(half) * (float)((const int8_t *)group)[2 * PANEL + (c / 2) * 2 * PANEL + lane * 2 + c % 2];
    }
  return CYB_OK;
}
