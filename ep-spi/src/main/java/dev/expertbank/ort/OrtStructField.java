package dev.expertbank.ort;

import static dev.expertbank.ort.Upcall.OnThrow.STATUS;
import static dev.expertbank.ort.Upcall.OnThrow.ZERO;

/**
 * The fields of the C structures that the host fills: the one place that knows their offsets on
 * 64-bit platforms. A test holds it against the full table of the 1.29 headers. Each structure
 * begins with a 32-bit {@code ort_version_supported}; releases only append fields, and ONNX Runtime
 * reads no field that is newer than the version stated there.
 */
enum OrtStructField {
  FACTORY_GET_NAME("OrtEpFactory", "GetName", 8, "P(P)", ZERO),
  FACTORY_GET_VENDOR("OrtEpFactory", "GetVendor", 16, "P(P)", ZERO),
  FACTORY_GET_SUPPORTED_DEVICES(
      "OrtEpFactory", "GetSupportedDevices", 24, "P(P,P,J,P,J,P)", STATUS),
  FACTORY_CREATE_EP("OrtEpFactory", "CreateEp", 32, "P(P,P,P,J,P,P,P)", STATUS),
  FACTORY_RELEASE_EP("OrtEpFactory", "ReleaseEp", 40, "V(P,P)", ZERO),
  FACTORY_GET_VENDOR_ID("OrtEpFactory", "GetVendorId", 48, "I(P)", ZERO),
  FACTORY_GET_VERSION("OrtEpFactory", "GetVersion", 56, "P(P)", ZERO),
  // ONNX Runtime calls this one without a check for NULL.
  FACTORY_CREATE_DATA_TRANSFER("OrtEpFactory", "CreateDataTransfer", 88, "P(P,P)", STATUS),

  EP_GET_NAME("OrtEp", "GetName", 8, "P(P)", ZERO),
  EP_GET_CAPABILITY("OrtEp", "GetCapability", 16, "P(P,P,P)", STATUS),
  EP_COMPILE("OrtEp", "Compile", 24, "P(P,P,P,J,P,P)", STATUS),
  EP_RELEASE_NODE_COMPUTE_INFOS("OrtEp", "ReleaseNodeComputeInfos", 32, "V(P,P,J)", ZERO),
  EP_ON_RUN_START("OrtEp", "OnRunStart", 64, "P(P,P)", STATUS),
  EP_ON_RUN_END("OrtEp", "OnRunEnd", 72, "P(P,P,Z)", STATUS),
  EP_GET_KERNEL_REGISTRY("OrtEp", "GetKernelRegistry", 104, "P(P,P)", STATUS),
  EP_ON_SESSION_INITIALIZATION_END("OrtEp", "OnSessionInitializationEnd", 176, "P(P)", STATUS),
  EP_GET_DEFAULT_MEMORY_DEVICE("OrtEp", "GetDefaultMemoryDevice", 184, "P(P,P)", STATUS),

  NODE_CREATE_STATE("OrtNodeComputeInfo", "CreateState", 8, "P(P,P,P)", STATUS),
  NODE_COMPUTE("OrtNodeComputeInfo", "Compute", 16, "P(P,P,P)", STATUS),
  NODE_RELEASE_STATE("OrtNodeComputeInfo", "ReleaseState", 24, "V(P,P)", ZERO),

  KERNEL_COMPUTE("OrtKernelImpl", "Compute", 8, "P(P,P)", STATUS),
  KERNEL_RELEASE("OrtKernelImpl", "Release", 16, "V(P)", ZERO);

  /** Sizes of the structures in the release whose layout this is. */
  static final long FACTORY_BYTES = 168;

  static final long EP_BYTES = 208;
  static final long NODE_COMPUTE_INFO_BYTES = 32;
  static final long KERNEL_IMPL_BYTES = 40;
  static final long NODE_FUSION_OPTIONS_BYTES = 8;
  static final long NODE_FUSION_OPTIONS_DROP_CONSTANT_INITIALIZERS = 4;

  private final String struct;
  private final String cName;
  private final long offset;
  private final String signature;
  private final Upcall.OnThrow onThrow;

  OrtStructField(
      String struct, String cName, long offset, String signature, Upcall.OnThrow onThrow) {
    this.struct = struct;
    this.cName = cName;
    this.offset = offset;
    this.signature = signature;
    this.onThrow = onThrow;
  }

  String struct() {
    return struct;
  }

  String cName() {
    return cName;
  }

  long offset() {
    return offset;
  }

  String signature() {
    return signature;
  }

  /** How an exception in the function behind this field reaches ONNX Runtime. */
  Upcall.OnThrow onThrow() {
    return onThrow;
  }
}
