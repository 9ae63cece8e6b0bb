# Included before any language is enabled, so that a machine without a compiler is told so in one sentence.
include(CheckLanguage)
check_language(C)
if(NOT CMAKE_C_COMPILER)
  message(FATAL_ERROR "cybtui needs a C compiler (C11): install gcc or clang, for example `apt install gcc`, then install cybtui again.")
endif()
