/// The OpenCL functions that the plugin uses, looked up in libOpenCL.so.1 when they are first wanted: the
/// plugin loads on machines without OpenCL and reports no devices there. Thread-safe.
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#define ULLAGE_CL_FUNCTIONS(F)  \
  F(GetPlatformIDs)             \
  F(GetPlatformInfo)            \
  F(GetDeviceIDs)               \
  F(GetDeviceInfo)              \
  F(CreateContext)              \
  F(ReleaseContext)             \
  F(CreateCommandQueue)         \
  F(ReleaseCommandQueue)        \
  F(CreateBuffer)               \
  F(ReleaseMemObject)           \
  F(EnqueueReadBuffer)          \
  F(EnqueueWriteBuffer)         \
  F(EnqueueCopyBuffer)          \
  F(EnqueueMapBuffer)           \
  F(EnqueueUnmapMemObject)      \
  F(EnqueueNDRangeKernel)       \
  F(EnqueueMarkerWithWaitList)  \
  F(EnqueueBarrierWithWaitList) \
  F(Flush)                      \
  F(Finish)                     \
  F(WaitForEvents)              \
  F(ReleaseEvent)               \
  F(CreateProgramWithSource)    \
  F(CreateProgramWithBinary)    \
  F(BuildProgram)               \
  F(GetProgramInfo)             \
  F(GetProgramBuildInfo)        \
  F(ReleaseProgram)             \
  F(CreateKernel)               \
  F(ReleaseKernel)              \
  F(SetKernelArg)

namespace ullage_opencl {

struct ClApi {
#define ULLAGE_CL_MEMBER(name) decltype(&::cl##name) name = nullptr;
  ULLAGE_CL_FUNCTIONS(ULLAGE_CL_MEMBER)
#undef ULLAGE_CL_MEMBER
};

/// Null: there is no OpenCL here.
const ClApi* FindCl();
/// Only where a device exists, and therefore OpenCL.
inline const ClApi& Cl() {
  return *FindCl();
}

/// "CL_OUT_OF_RESOURCES (-5)".
const char* ErrorName(cl_int code);

}  // namespace ullage_opencl
