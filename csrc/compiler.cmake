# Included before any language is enabled, so that a machine without a compiler is told so in one sentence.
include(CheckLanguage)
check_language(C)
if(NOT CMAKE_C_COMPILER)
  message(FATAL_ERROR " cybtui needs a C compiler: install gcc or clang (on Debian `apt install gcc`), then install cybtui again.")
endif()
