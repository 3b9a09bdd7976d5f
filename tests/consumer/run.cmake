# One consumer test: a fresh folder, configure, build, run; any step that fails fails the test.
set(work ${BUILD}/consumer/${KIND})
file(REMOVE_RECURSE ${work})
function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(KIND STREQUAL "install")
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix --config ${CONFIG})
  set(where -D CMAKE_PREFIX_PATH=${work}/prefix)
  # The tree must work from another place than the one it was installed to.
  file(RENAME ${work}/prefix ${work}/moved)
  set(where -D CMAKE_PREFIX_PATH=${work}/moved)
else()
  set(where -D samebits_DIR=${BUILD})
endif()
if(SANITIZE)
  list(APPEND where -D CMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_BUILD_TYPE=${CONFIG}
  -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF ${where})
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/quickstart)
step(${work}/build/head)
