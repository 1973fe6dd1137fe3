# One word a task: TASK.cc joins snug_tasks and the generated registry, TASK_test.cc joins tasks_test. The first is what is meant
# where neither the user nor the model nor the labels say more; labels are for the first task that they fit.
function(snug_task task)
  set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set_property(GLOBAL APPEND PROPERTY SNUG_TASK_SOURCES ${here}/${task}.cc)
  if(EXISTS ${here}/${task}_test.cc)
    set_property(GLOBAL APPEND PROPERTY SNUG_TASK_TESTS ${here}/${task}_test.cc)
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY SNUG_TASKS "SNUG_TASK(${task})\n")
endfunction()

snug_task(classification)
snug_task(regression)
snug_task(multi_label)
snug_task(token_classification)
