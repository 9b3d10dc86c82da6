/* The part of the CUDA driver that timing needs, found by name at run time. */
#ifndef BT_CAPTURE_CUDA_DRIVER_H
#define BT_CAPTURE_CUDA_DRIVER_H

#include <stdbool.h>

typedef struct bt_cu_context *bt_cu_context;
typedef struct bt_cu_stream *bt_cu_stream;
typedef struct bt_cu_event *bt_cu_event;

enum { BT_CU_OK = 0, BT_CU_NOT_READY = 600, BT_CU_FIRST_CAPTURE_ERROR = 900, BT_CU_LAST_CAPTURE_ERROR = 907 };
enum { BT_CU_EVENT_DEFAULT = 0, BT_CU_STREAM_NON_BLOCKING = 1, BT_CU_CAPTURE_NONE = 0, BT_CU_CAPTURE_RELAXED = 2 };

typedef struct bt_cuda_driver {
  int (*event_create)(bt_cu_event *event, unsigned flags);
  int (*event_destroy)(bt_cu_event event);
  int (*event_record)(bt_cu_event event, bt_cu_stream stream);
  int (*event_query)(bt_cu_event event);
  int (*event_elapsed)(float *ms, bt_cu_event from, bt_cu_event to);
  int (*stream_create)(bt_cu_stream *stream, unsigned flags);
  int (*stream_destroy)(bt_cu_stream stream);
  int (*stream_is_capturing)(bt_cu_stream stream, int *status);
  int (*stream_context)(bt_cu_stream stream, bt_cu_context *context);
  int (*context_push)(bt_cu_context context);
  int (*context_pop)(bt_cu_context *context);
  int (*exchange_capture_mode)(int *mode);
} bt_cuda_driver;

/* Loads it, once a process. NULL: there is none, or it lacks a function. */
const bt_cuda_driver *bt_cuda_driver_get(void);

#endif
