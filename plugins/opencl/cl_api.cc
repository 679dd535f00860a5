#include "cl_api.h"

#include <dlfcn.h>

namespace ullage_opencl {
namespace {

const ClApi* Load() {
  void* library = ::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  static ClApi api;
  bool complete = true;
#define ULLAGE_CL_FIND(name)                                                     \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(library, "cl" #name)); \
  complete = complete && api.name;
  ULLAGE_CL_FUNCTIONS(ULLAGE_CL_FIND)
#undef ULLAGE_CL_FIND
  return complete ? &api : nullptr;
}

}  // namespace

const ClApi* FindCl() {
  static const ClApi* const api = Load();
  return api;
}

const char* ErrorName(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
      return "CL_DEVICE_NOT_AVAILABLE";
    case CL_COMPILER_NOT_AVAILABLE:
      return "CL_COMPILER_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
      return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
      return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE:
      return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_VALUE:
      return "CL_INVALID_VALUE";
    case CL_INVALID_BUFFER_SIZE:
      return "CL_INVALID_BUFFER_SIZE";
    case CL_INVALID_KERNEL_ARGS:
      return "CL_INVALID_KERNEL_ARGS";
    case CL_INVALID_ARG_SIZE:
      return "CL_INVALID_ARG_SIZE";
    case CL_INVALID_ARG_VALUE:
      return "CL_INVALID_ARG_VALUE";
    case CL_INVALID_WORK_GROUP_SIZE:
      return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_KERNEL_NAME:
      return "CL_INVALID_KERNEL_NAME";
    default:
      return "OpenCL error";
  }
}

}  // namespace ullage_opencl
