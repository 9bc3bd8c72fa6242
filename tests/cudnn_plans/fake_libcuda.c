// A libcuda.so.1 for a machine without a GPU: as much of the driver as cuDNN asks while it makes a plan for a
// GPU that is only described. Kernels are compiled and "loaded"; anything that would need a device fails as
// the toolkit's stub does.
enum { success = 0, stub_library = 34 };
static char nothing[1];

#define FAILS(name) \
  int name(void) { return stub_library; }
#define SUCCEEDS(name) \
  int name(void) { return success; }
#define GIVES(name)      \
  int name(void** out) { \
    *out = nothing;      \
    return success;      \
  }
#define COUNTS(name, number) \
  int name(int* out) {       \
    *out = number;           \
    return success;          \
  }

GIVES(cuLibraryLoadData)
GIVES(cuLibraryGetKernel)
SUCCEEDS(cuLibraryUnload)
COUNTS(cuKernelGetAttribute, 0)
SUCCEEDS(cuKernelSetAttribute)
COUNTS(cuFuncGetAttribute, 0)
SUCCEEDS(cuFuncSetAttribute)
COUNTS(cuOccupancyMaxActiveBlocksPerMultiprocessor, 1)

int cuGetErrorString(int error, const char** text) {
  *text = error == success ? "success" : "there is no GPU here";
  return success;
}
int cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }

FAILS(cuInit)
FAILS(cuDriverGetVersion)
FAILS(cuDeviceGet)
FAILS(cuDeviceGetAttribute)
FAILS(cuDeviceGetCount)
FAILS(cuDevicePrimaryCtxRelease)
FAILS(cuDevicePrimaryCtxReset)
FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuCtxGetCurrent)
FAILS(cuCtxGetDevice)
FAILS(cuCtxGetLimit)
FAILS(cuCtxPopCurrent)
FAILS(cuCtxPushCurrent)
FAILS(cuLaunchCooperativeKernel)
FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx)
FAILS(cuLibraryLoadFromFile)
FAILS(cuLinkAddData)
FAILS(cuLinkAddData_v2)
FAILS(cuLinkAddFile_v2)
FAILS(cuLinkComplete)
FAILS(cuLinkCreate)
FAILS(cuLinkCreate_v2)
FAILS(cuLinkDestroy)
FAILS(cuMemcpyDtoH_v2)
FAILS(cuModuleGetFunction)
FAILS(cuModuleGetGlobal_v2)
FAILS(cuModuleLoadData)
FAILS(cuModuleLoadDataEx)
FAILS(cuModuleLoadFatBinary)
FAILS(cuModuleUnload)
FAILS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuStreamGetCtx)
FAILS(cuStreamSynchronize)
FAILS(cuTensorMapEncodeTiled)
FAILS(cuTensorMapEncodeIm2col)
FAILS(cuKernelGetFunction)
