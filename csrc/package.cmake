# The Python package's share of the build: the library and the generated cffi module go into engine/.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
set(CYB_CDEF ${CMAKE_CURRENT_BINARY_DIR}/_cyb_cdef.py)
add_custom_command(
  OUTPUT ${CYB_CDEF}
  COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/generate_cdef.py ${CMAKE_CURRENT_SOURCE_DIR}/include/cyb.h ${CYB_CDEF}
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/generate_cdef.py ${CMAKE_CURRENT_SOURCE_DIR}/include/cyb.h
  VERBATIM)
add_custom_target(cyb_cdef ALL DEPENDS ${CYB_CDEF})
install(TARGETS cyb LIBRARY DESTINATION engine RUNTIME DESTINATION engine)
install(FILES ${CYB_CDEF} DESTINATION engine)
