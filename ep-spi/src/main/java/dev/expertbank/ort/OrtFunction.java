package dev.expertbank.ort;

import static dev.expertbank.ort.OrtFunction.Table.API;
import static dev.expertbank.ort.OrtFunction.Table.EP_API;

import java.lang.invoke.MethodHandle;

/**
 * Every function of ONNX Runtime that the host calls: the one place that knows their positions in
 * the {@code OrtApi} and {@code OrtEpApi} tables. A test holds it against the full table of the
 * 1.29 headers. Releases only append to the tables, and all of these exist since 1.24; {@link
 * OrtRuntime} has the oldest release that is accepted.
 */
enum OrtFunction {
  CREATE_STATUS(API, 0, "CreateStatus", "P(I,P)"),
  GET_ERROR_CODE(API, 1, "GetErrorCode", "I(P)"),
  GET_ERROR_MESSAGE(API, 2, "GetErrorMessage", "P(P)"),
  GET_TENSOR_MUTABLE_DATA(API, 51, "GetTensorMutableData", "P(P,P)"),
  CAST_TYPE_INFO_TO_TENSOR_INFO(API, 55, "CastTypeInfoToTensorInfo", "P(P,P)"),
  GET_TENSOR_ELEMENT_TYPE(API, 60, "GetTensorElementType", "P(P,P)"),
  GET_DIMENSIONS_COUNT(API, 61, "GetDimensionsCount", "P(P,P)"),
  GET_DIMENSIONS(API, 62, "GetDimensions", "P(P,P,J)"),
  KERNEL_CONTEXT_GET_INPUT(API, 90, "KernelContext_GetInput", "P(P,J,P)"),
  KERNEL_CONTEXT_GET_OUTPUT(API, 91, "KernelContext_GetOutput", "P(P,J,P,J,P)"),
  RELEASE_STATUS(API, 93, "ReleaseStatus", "V(P)"),
  RELEASE_MEMORY_INFO(API, 94, "ReleaseMemoryInfo", "V(P)"),
  KERNEL_CONTEXT_GET_GPU_COMPUTE_STREAM(API, 193, "KernelContext_GetGPUComputeStream", "P(P,P)"),
  READ_OP_ATTR(API, 272, "ReadOpAttr", "P(P,I,P,J,P)"),
  KERNEL_CONTEXT_PARALLEL_FOR(API, 274, "KernelContext_ParallelFor", "P(P,P,J,J,P)"),
  GET_VALUE_INFO_NAME(API, 289, "GetValueInfoName", "P(P,P)"),
  GET_VALUE_INFO_TYPE_INFO(API, 290, "GetValueInfoTypeInfo", "P(P,P)"),
  GET_KEY_VALUE_PAIRS(API, 298, "GetKeyValuePairs", "V(P,P,P,P)"),
  RELEASE_KEY_VALUE_PAIRS(API, 300, "ReleaseKeyValuePairs", "V(P)"),
  HARDWARE_DEVICE_TYPE(API, 307, "HardwareDevice_Type", "I(P)"),
  GET_EP_API(API, 317, "GetEpApi", "P()"),
  GET_TENSOR_SIZE_IN_BYTES(API, 318, "GetTensorSizeInBytes", "P(P,P)"),
  CREATE_MEMORY_INFO_V2(API, 320, "CreateMemoryInfo_V2", "P(P,I,I,I,I,J,I,P)"),
  VALUE_INFO_GET_INITIALIZER_VALUE(API, 326, "ValueInfo_GetInitializerValue", "P(P,P)"),
  VALUE_INFO_GET_EXTERNAL_INITIALIZER_INFO(
      API, 327, "ValueInfo_GetExternalInitializerInfo", "P(P,P)"),
  VALUE_INFO_IS_CONSTANT_INITIALIZER(API, 331, "ValueInfo_IsConstantInitializer", "P(P,P)"),
  GRAPH_GET_NAME(API, 333, "Graph_GetName", "P(P,P)"),
  GRAPH_GET_MODEL_PATH(API, 334, "Graph_GetModelPath", "P(P,P)"),
  GRAPH_GET_NUM_NODES(API, 344, "Graph_GetNumNodes", "P(P,P)"),
  GRAPH_GET_NODES(API, 345, "Graph_GetNodes", "P(P,P,J)"),
  GRAPH_GET_PARENT_NODE(API, 346, "Graph_GetParentNode", "P(P,P)"),
  NODE_GET_NAME(API, 349, "Node_GetName", "P(P,P)"),
  NODE_GET_OPERATOR_TYPE(API, 350, "Node_GetOperatorType", "P(P,P)"),
  NODE_GET_DOMAIN(API, 351, "Node_GetDomain", "P(P,P)"),
  NODE_GET_SINCE_VERSION(API, 352, "Node_GetSinceVersion", "P(P,P)"),
  NODE_GET_NUM_INPUTS(API, 353, "Node_GetNumInputs", "P(P,P)"),
  NODE_GET_INPUTS(API, 354, "Node_GetInputs", "P(P,P,J)"),
  NODE_GET_NUM_OUTPUTS(API, 355, "Node_GetNumOutputs", "P(P,P)"),
  NODE_GET_OUTPUTS(API, 356, "Node_GetOutputs", "P(P,P,J)"),
  NODE_GET_NUM_ATTRIBUTES(API, 359, "Node_GetNumAttributes", "P(P,P)"),
  NODE_GET_ATTRIBUTES(API, 360, "Node_GetAttributes", "P(P,P,J)"),
  OP_ATTR_GET_TYPE(API, 363, "OpAttr_GetType", "P(P,P)"),
  OP_ATTR_GET_NAME(API, 364, "OpAttr_GetName", "P(P,P)"),
  NODE_GET_EP_NAME(API, 368, "Node_GetEpName", "P(P,P)"),
  RELEASE_EXTERNAL_INITIALIZER_INFO(API, 369, "ReleaseExternalInitializerInfo", "V(P)"),
  EXTERNAL_INITIALIZER_INFO_GET_FILE_PATH(API, 370, "ExternalInitializerInfo_GetFilePath", "P(P)"),
  EXTERNAL_INITIALIZER_INFO_GET_FILE_OFFSET(
      API, 371, "ExternalInitializerInfo_GetFileOffset", "J(P)"),
  EXTERNAL_INITIALIZER_INFO_GET_BYTE_SIZE(API, 372, "ExternalInitializerInfo_GetByteSize", "J(P)"),
  GET_TENSOR_DATA(API, 378, "GetTensorData", "P(P,P)"),
  GET_SESSION_OPTIONS_CONFIG_ENTRIES(API, 379, "GetSessionOptionsConfigEntries", "P(P,P)"),
  GET_TENSOR_ELEMENT_TYPE_AND_SHAPE_DATA_REFERENCE(
      API, 414, "GetTensorElementTypeAndShapeDataReference", "P(P,P,P,P)"),
  CREATE_EP_DEVICE(EP_API, 0, "CreateEpDevice", "P(P,P,P,P,P)"),
  EP_GRAPH_SUPPORT_INFO_ADD_NODES_TO_FUSE(
      EP_API, 2, "EpGraphSupportInfo_AddNodesToFuse", "P(P,P,J,P)"),
  MEMORY_INFO_GET_MEMORY_DEVICE(EP_API, 6, "MemoryInfo_GetMemoryDevice", "P(P)"),
  VALUE_GET_MEMORY_DEVICE(EP_API, 7, "Value_GetMemoryDevice", "P(P)"),
  MEMORY_DEVICE_ARE_EQUAL(EP_API, 8, "MemoryDevice_AreEqual", "Z(P,P)"),
  MEMORY_DEVICE_GET_DEVICE_TYPE(EP_API, 9, "MemoryDevice_GetDeviceType", "I(P)"),
  MEMORY_DEVICE_GET_MEMORY_TYPE(EP_API, 10, "MemoryDevice_GetMemoryType", "I(P)"),
  MEMORY_DEVICE_GET_VENDOR_ID(EP_API, 11, "MemoryDevice_GetVendorId", "I(P)"),
  MEMORY_DEVICE_GET_DEVICE_ID(EP_API, 12, "MemoryDevice_GetDeviceId", "I(P)"),
  CREATE_KERNEL_REGISTRY(EP_API, 18, "CreateKernelRegistry", "P(P)"),
  KERNEL_REGISTRY_ADD_KERNEL(EP_API, 20, "KernelRegistry_AddKernel", "P(P,P,P,P)"),
  CREATE_KERNEL_DEF_BUILDER(EP_API, 21, "CreateKernelDefBuilder", "P(P)"),
  RELEASE_KERNEL_DEF_BUILDER(EP_API, 22, "ReleaseKernelDefBuilder", "V(P)"),
  KERNEL_DEF_BUILDER_SET_OPERATOR_TYPE(EP_API, 23, "KernelDefBuilder_SetOperatorType", "P(P,P)"),
  KERNEL_DEF_BUILDER_SET_DOMAIN(EP_API, 24, "KernelDefBuilder_SetDomain", "P(P,P)"),
  KERNEL_DEF_BUILDER_SET_SINCE_VERSION(EP_API, 25, "KernelDefBuilder_SetSinceVersion", "P(P,I,I)"),
  KERNEL_DEF_BUILDER_SET_EXECUTION_PROVIDER(
      EP_API, 26, "KernelDefBuilder_SetExecutionProvider", "P(P,P)"),
  KERNEL_DEF_BUILDER_SET_INPUT_MEM_TYPE(EP_API, 27, "KernelDefBuilder_SetInputMemType", "P(P,J,I)"),
  KERNEL_DEF_BUILDER_SET_OUTPUT_MEM_TYPE(
      EP_API, 28, "KernelDefBuilder_SetOutputMemType", "P(P,J,I)"),
  KERNEL_DEF_BUILDER_BUILD(EP_API, 32, "KernelDefBuilder_Build", "P(P,P)"),
  RELEASE_KERNEL_DEF(EP_API, 33, "ReleaseKernelDef", "V(P)"),
  KERNEL_INFO_GET_EP(EP_API, 43, "KernelInfo_GetEp", "P(P,P)");

  /** The C structures of function pointers that ONNX Runtime hands out. */
  enum Table {
    API("OrtApi"),
    EP_API("OrtEpApi");

    private final String cName;

    Table(String cName) {
      this.cName = cName;
    }

    String cName() {
      return cName;
    }
  }

  private final Table table;
  private final int index;
  private final String cName;
  private final String signature;

  OrtFunction(Table table, int index, String cName, String signature) {
    this.table = table;
    this.index = index;
    this.cName = cName;
    this.signature = signature;
  }

  Table table() {
    return table;
  }

  int index() {
    return index;
  }

  String cName() {
    return cName;
  }

  String signature() {
    return signature;
  }

  /**
   * The function in the running ONNX Runtime. Code that runs once per node execution keeps the
   * result in a static final field, where the JIT sees a constant.
   */
  MethodHandle handle() {
    return OrtRuntime.current().handle(this);
  }
}
