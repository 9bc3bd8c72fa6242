// Library loads cuDNN at run time if a GPU profits from it. cuDNN may be absent, and nothing is linked
// against it.
//
// This header declares the parts of cuDNN 9's graph API ("backend API") that we use. Names are those of
// NVIDIA's documentation without their prefix, numbers are those of its headers (tests compare them if a
// header is installed).
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "base/types.h"

struct cudnnContext;

namespace tidepool::cudnn {

using Descriptor = void*;

enum class DataType : i32 { fp32 = 0, fp16 = 2, int32 = 4, bf16 = 9, boolean = 11 };

enum class PointwiseMode : i32 {
  add = 0,
  mul = 1,
  div = 6,
  sub = 9,
  exp = 13,
  log = 15,
  cmp_ge = 303,
  gen_index = 501,
  binary_select = 601,
};

enum class ReductionMode : i32 { add = 0, max = 3 };
enum class HeuristicsMode : i32 { a = 3 };
enum class NumericalNote : i32 { nondeterministic = 4 };
inline constexpr i64 numerical_notes = 10;  // most notes that an engine has

enum class AttributeType : i32 {
  data_type = 1,
  boolean = 2,
  int64 = 3,
  void_ptr = 6,
  heur_mode = 8,
  numerical_note = 11,
  pointwise_mode = 14,
  backend_descriptor = 15,
  reduction_operator_type = 18,
  int32 = 23,
  text = 24,
};

enum class Attribute : i32 {
  pointwise_mode = 0,
  pointwise_math_prec = 1,
  pointwise_axis = 9,
  engineheur_mode = 200,
  engineheur_operation_graph = 201,
  engineheur_results = 202,
  engineheur_deviceprop = 204,
  enginecfg_engine = 300,
  execution_plan_engine_config = 401,
  execution_plan_workspace_size = 402,
  execution_plan_deviceprop = 407,
  operation_pointwise_pw_descriptor = 750,
  operation_pointwise_xdesc = 751,
  operation_pointwise_bdesc = 752,
  operation_pointwise_ydesc = 753,
  operation_pointwise_tdesc = 758,
  operationgraph_ops = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  variant_pack_unique_ids = 1000,
  variant_pack_data_pointers = 1001,
  variant_pack_workspace = 1003,
  engine_numerical_note = 1303,
  matmul_comp_type = 1500,
  operation_matmul_adesc = 1520,
  operation_matmul_bdesc = 1521,
  operation_matmul_cdesc = 1522,
  operation_matmul_desc = 1523,
  reduction_operator = 1600,
  reduction_comp_type = 1601,
  operation_reduction_xdesc = 1610,
  operation_reduction_ydesc = 1611,
  operation_reduction_desc = 1612,
  operation_reshape_xdesc = 2200,
  operation_reshape_ydesc = 2201,
  deviceprop_device_id = 2700,
  deviceprop_json_representation = 2702,
};

enum class DescriptorType : i32 {
  pointwise = 0,
  engine = 2,
  enginecfg = 3,
  engineheur = 4,
  execution_plan = 5,
  operation_pointwise = 13,
  operationgraph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
  reduction = 21,
  operation_reduction = 22,
  operation_reshape = 31,
  deviceprop = 38,
};

inline constexpr int success = 0;

class Library {
 public:
  // Loads libcudnn.so.9 from the loader's path, or the file that TIDEPOOL_CUDNN names.
  // Errors: cuDNN is missing, too old or another library, or TIDEPOOL_CUDNN=off (ErrorKind::usage).
  static Result<std::unique_ptr<Library>> load();

  // Results are 0 or an error.
  struct Calls {
    size_t (*get_version)() = nullptr;
    const char* (*error_string)(int) = nullptr;
    void (*last_error)(char*, size_t) = nullptr;
    int (*create)(cudnnContext**) = nullptr;
    int (*destroy)(cudnnContext*) = nullptr;
    int (*set_stream)(cudnnContext*, cudaStream_t) = nullptr;
    int (*create_descriptor)(DescriptorType, Descriptor*) = nullptr;
    int (*destroy_descriptor)(Descriptor) = nullptr;
    int (*finalize)(Descriptor) = nullptr;
    int (*set_attribute)(Descriptor, Attribute, AttributeType, i64 count, const void*) = nullptr;
    int (*get_attribute)(Descriptor, Attribute, AttributeType, i64 room, i64* count, void*) = nullptr;
    int (*execute)(cudnnContext*, Descriptor plan, Descriptor variant_pack) = nullptr;
  };
  const Calls& calls() const { return calls_; }
  std::string version() const;  // "9.19.0"
  // RETURNS: the library's words for why the last call failed.
  std::string last_error() const;
  // RETURNS: the library's words for a status that is not 0.
  Error error(int status, const std::string& doing) const;

 private:
  Library() = default;

  Calls calls_;
};

}  // namespace tidepool::cudnn
