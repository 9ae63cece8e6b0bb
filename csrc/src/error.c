/* error.c - the last error text of each thread: the only state that is not in an object. */
#include "kernels.h"
#include <stdarg.h>
#include <stdio.h>

#ifndef CYB_VERSION
#define CYB_VERSION "0"
#endif

static _Thread_local char last_error[512] = "";

cyb_status cyb_fail(cyb_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  return status;
}

const char *cyb_last_error(void) {
  return last_error;
}
const char *cyb_version(void) {
  return CYB_VERSION;
}
