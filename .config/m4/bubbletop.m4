dnl AX_C11_ATOMICS: lock-free C11 atomics of 64 bits, or an error. The rings are shared between processes.
AC_DEFUN([AX_C11_ATOMICS], [
  AC_CACHE_CHECK([for lock-free C11 atomics of 64 bits], [bt_cv_c11_atomics],
    [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdatomic.h>
#include <stdint.h>
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "lock-free");
static _Atomic uint64_t counter;]],
      [[return (int)atomic_fetch_add_explicit(&counter, 1, memory_order_release);]])],
      [bt_cv_c11_atomics=yes], [bt_cv_c11_atomics=no])])
  AS_IF([test "x$bt_cv_c11_atomics" != xyes], [AC_MSG_ERROR([this compiler lacks lock-free C11 atomics of 64 bits])])
])

dnl BT_FIND_CUDA: sets bt_cuda_summary, CUDA_CPPFLAGS and HAVE_CUDA. The driver itself is found at run time by dlopen.
AC_DEFUN([BT_FIND_CUDA], [
  bt_cuda_found=no
  AS_IF([test "x$with_cuda" != xno], [
    AS_CASE([$with_cuda], [auto|yes], [bt_cuda_dirs="${CUDA_HOME:-} /usr/local/cuda /usr"], [bt_cuda_dirs="$with_cuda"])
    for bt_dir in $bt_cuda_dirs; do
      AS_IF([test "x$bt_cuda_found" = xno && test -f "$bt_dir/include/cuda.h"], [bt_cuda_found="$bt_dir"])
    done
    AS_IF([test "x$bt_cuda_found" = xno && test "x$with_cuda" != xauto],
      [AC_MSG_ERROR([--with-cuda=$with_cuda: no include/cuda.h there])])
  ])
  AS_IF([test "x$bt_cuda_found" = xno],
    [bt_cuda_summary="off"; CUDA_CPPFLAGS=""],
    [bt_cuda_summary="$bt_cuda_found"; CUDA_CPPFLAGS="-I$bt_cuda_found/include"])
  CUDA_INCLUDE="$bt_cuda_found/include"
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_INCLUDE])
  AC_PATH_PROG([NVCC], [nvcc], [no], ["$bt_cuda_found/bin:$PATH"])
  AS_IF([test "x$bt_cuda_found" = xno], [NVCC=no])
  AM_CONDITIONAL([HAVE_CUDA], [test "x$bt_cuda_found" != xno])
])

dnl BT_FIND_NCCL: sets bt_nccl_summary, NCCL_CPPFLAGS and HAVE_NCCL.
AC_DEFUN([BT_FIND_NCCL], [
  bt_nccl_found=no
  AS_IF([test "x$with_nccl" != xno], [
    AS_CASE([$with_nccl], [auto|yes], [bt_nccl_dirs="${NCCL_HOME:-} /usr /usr/local ${bt_cuda_found}"], [bt_nccl_dirs="$with_nccl"])
    for bt_dir in $bt_nccl_dirs; do
      AS_IF([test "x$bt_nccl_found" = xno && test -f "$bt_dir/include/nccl.h"], [bt_nccl_found="$bt_dir"])
    done
    AS_IF([test "x$bt_nccl_found" = xno && test "x$with_nccl" != xauto],
      [AC_MSG_ERROR([--with-nccl=$with_nccl: no include/nccl.h there])])
  ])
  AS_IF([test "x$bt_nccl_found" = xno],
    [bt_nccl_summary="off"; NCCL_CPPFLAGS=""],
    [bt_nccl_summary="$bt_nccl_found"; NCCL_CPPFLAGS="-I$bt_nccl_found/include"])
  bt_nccl_library=no
  for bt_dir in lib64 lib lib/x86_64-linux-gnu; do
    AS_IF([test "x$bt_nccl_library" = xno && test -e "$bt_nccl_found/$bt_dir/libnccl.so"], [bt_nccl_library="$bt_nccl_found/$bt_dir"])
  done
  NCCL_LIBS="-L$bt_nccl_library -lnccl"
  AC_SUBST([NCCL_LIBS])
  AM_CONDITIONAL([HAVE_NVCC_AND_NCCL], [test "x$NVCC" != xno && test "x$bt_nccl_library" != xno])
  AC_SUBST([NCCL_CPPFLAGS])
  AM_CONDITIONAL([HAVE_NCCL], [test "x$bt_nccl_found" != xno])
])
