// Compares our names for cuDNN's numbers with its header.
#include <cudnn_graph.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cudnn_library.h"

namespace tidepool::cudnn {
namespace {

#define SAME(ours, theirs) EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs))

TEST(CudnnNames, OfEnumeratorsMatchTheHeader) {
  SAME(success, CUDNN_STATUS_SUCCESS);
  SAME(DataType::fp32, CUDNN_DATA_FLOAT);
  SAME(DataType::fp16, CUDNN_DATA_HALF);
  SAME(DataType::int32, CUDNN_DATA_INT32);
  SAME(DataType::bf16, CUDNN_DATA_BFLOAT16);
  SAME(DataType::boolean, CUDNN_DATA_BOOLEAN);
  SAME(PointwiseMode::add, CUDNN_POINTWISE_ADD);
  SAME(PointwiseMode::mul, CUDNN_POINTWISE_MUL);
  SAME(PointwiseMode::div, CUDNN_POINTWISE_DIV);
  SAME(PointwiseMode::sub, CUDNN_POINTWISE_SUB);
  SAME(PointwiseMode::exp, CUDNN_POINTWISE_EXP);
  SAME(PointwiseMode::log, CUDNN_POINTWISE_LOG);
  SAME(PointwiseMode::cmp_ge, CUDNN_POINTWISE_CMP_GE);
  SAME(PointwiseMode::gen_index, CUDNN_POINTWISE_GEN_INDEX);
  SAME(PointwiseMode::binary_select, CUDNN_POINTWISE_BINARY_SELECT);
  SAME(ReductionMode::add, CUDNN_REDUCE_TENSOR_ADD);
  SAME(ReductionMode::max, CUDNN_REDUCE_TENSOR_MAX);
  SAME(HeuristicsMode::a, CUDNN_HEUR_MODE_A);
  SAME(NumericalNote::nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  SAME(numerical_notes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
}

TEST(CudnnNames, OfAttributesMatchTheHeader) {
  SAME(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE);
  SAME(AttributeType::boolean, CUDNN_TYPE_BOOLEAN);
  SAME(AttributeType::int64, CUDNN_TYPE_INT64);
  SAME(AttributeType::void_ptr, CUDNN_TYPE_VOID_PTR);
  SAME(AttributeType::heur_mode, CUDNN_TYPE_HEUR_MODE);
  SAME(AttributeType::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
  SAME(AttributeType::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
  SAME(AttributeType::backend_descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  SAME(AttributeType::reduction_operator_type, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  SAME(AttributeType::int32, CUDNN_TYPE_INT32);
  SAME(AttributeType::text, CUDNN_TYPE_CHAR);
  SAME(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
  SAME(Attribute::pointwise_math_prec, CUDNN_ATTR_POINTWISE_MATH_PREC);
  SAME(Attribute::pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS);
  SAME(Attribute::engineheur_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
  SAME(Attribute::engineheur_operation_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  SAME(Attribute::engineheur_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  SAME(Attribute::engineheur_deviceprop, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  SAME(Attribute::enginecfg_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
  SAME(Attribute::execution_plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  SAME(Attribute::execution_plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  SAME(Attribute::execution_plan_deviceprop, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  SAME(Attribute::operation_pointwise_pw_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  SAME(Attribute::operation_pointwise_xdesc, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  SAME(Attribute::operation_pointwise_bdesc, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  SAME(Attribute::operation_pointwise_ydesc, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  SAME(Attribute::operation_pointwise_tdesc, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  SAME(Attribute::operationgraph_ops, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  SAME(Attribute::tensor_byte_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  SAME(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
  SAME(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
  SAME(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
  SAME(Attribute::tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  SAME(Attribute::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  SAME(Attribute::tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  SAME(Attribute::variant_pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  SAME(Attribute::variant_pack_data_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  SAME(Attribute::variant_pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  SAME(Attribute::engine_numerical_note, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  SAME(Attribute::matmul_comp_type, CUDNN_ATTR_MATMUL_COMP_TYPE);
  SAME(Attribute::operation_matmul_adesc, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  SAME(Attribute::operation_matmul_bdesc, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  SAME(Attribute::operation_matmul_cdesc, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  SAME(Attribute::operation_matmul_desc, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  SAME(Attribute::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
  SAME(Attribute::reduction_comp_type, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  SAME(Attribute::operation_reduction_xdesc, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  SAME(Attribute::operation_reduction_ydesc, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  SAME(Attribute::operation_reduction_desc, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  SAME(Attribute::operation_reshape_xdesc, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  SAME(Attribute::operation_reshape_ydesc, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  SAME(Attribute::deviceprop_device_id, CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
  SAME(Attribute::deviceprop_json_representation, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

TEST(CudnnNames, OfDescriptorsMatchTheHeader) {
  SAME(DescriptorType::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SAME(DescriptorType::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  SAME(DescriptorType::enginecfg, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  SAME(DescriptorType::engineheur, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  SAME(DescriptorType::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  SAME(DescriptorType::operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  SAME(DescriptorType::operationgraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  SAME(DescriptorType::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  SAME(DescriptorType::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SAME(DescriptorType::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  SAME(DescriptorType::operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  SAME(DescriptorType::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  SAME(DescriptorType::operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  SAME(DescriptorType::operation_reshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  SAME(DescriptorType::deviceprop, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
}

}  // namespace
}  // namespace tidepool::cudnn
