package dev.expertbank.ort;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtEpDevice;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.natives.Native;
import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.spi.MemoryDevice;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * What ONNX Runtime's CUDA provider on GPU 0 is to its neighbours, without a GPU: a plugin under
 * the name of the CUDA plugin, with the same option and the same memory device, that allocates
 * "GPU" memory on the host and copies to and from it. It claims no node and has no stream.
 */
public final class FakeCuda {
  private static final String EP_NAME = "CudaPluginExecutionProvider";

  // Positions that only a provider with an allocator fills; ort_api_slots.tsv has them.
  private static final long FACTORY_CREATE_ALLOCATOR = 72;
  private static final long FACTORY_RELEASE_ALLOCATOR = 80;
  private static final long ALLOCATOR_BYTES = 64;
  private static final long ALLOCATOR_ALLOC = 8;
  private static final long ALLOCATOR_FREE = 16;
  private static final long ALLOCATOR_INFO = 24;
  private static final long DATA_TRANSFER_BYTES = 32;
  private static final long DATA_TRANSFER_RELEASE = 8;
  private static final long DATA_TRANSFER_CAN_COPY = 16;
  private static final long DATA_TRANSFER_COPY_TENSORS = 24;
  private static final int CREATE_KEY_VALUE_PAIRS = 295;
  private static final int ADD_KEY_VALUE_PAIR = 296;
  private static final int EP_DEVICE_ADD_ALLOCATOR_INFO = 5;

  /** By address; memory lives as long as it is listed. */
  private static final Map<Long, MemorySegment> ALLOCATIONS = new ConcurrentHashMap<>();

  private static final AtomicBoolean REGISTERED = new AtomicBoolean();
  private static final MemorySegment NAME = Arena.global().allocateFrom(EP_NAME);
  private static final MemorySegment VERSION = Arena.global().allocateFrom("1.0.0");

  // Set when ONNX Runtime loads the library, before it calls anything else.
  private static long api;
  private static long epApi;
  private static long memoryInfo;
  private static long factory;
  private static long ep;
  private static long allocator;
  private static long dataTransfer;

  private FakeCuda() {}

  /** Adds the provider to the options of one session. */
  public static void addTo(OrtEnvironment environment, OrtSession.SessionOptions options)
      throws OrtException {
    if (REGISTERED.compareAndSet(false, true)) {
      environment.registerExecutionProviderLibrary("fake-cuda", library().toString());
    }
    List<OrtEpDevice> devices =
        environment.getEpDevices().stream().filter(d -> d.getEpName().equals(EP_NAME)).toList();
    options.addExecutionProvider(devices, Map.of());
  }

  /** Allocations of "GPU" memory that have not been freed. */
  public static int liveAllocations() {
    return ALLOCATIONS.size();
  }

  private static Path library() {
    Path path = NativeLibrary.extractCopy("expertbank_ort_bridge", "FakeCuda");
    try {
      Native.link(
              Native.library(path).findOrThrow("expertbank_install").address(),
              FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG))
          .invokeExact(
              status("createEpFactories", "P(P,P,P,P,J,P)"), status("releaseEpFactory", "P(P)"));
    } catch (Throwable e) {
      throw new LinkageError("the bridge's installer failed", e);
    }
    return path;
  }

  private static long status(String method, String signature) {
    return Upcall.stub(MethodHandles.lookup(), method, signature, Upcall.OnThrow.STATUS);
  }

  private static long plain(String method, String signature) {
    return Upcall.stub(MethodHandles.lookup(), method, signature, Upcall.OnThrow.ZERO);
  }

  private static long struct(long byteSize, Map<Long, Long> fields) {
    MemorySegment memory = Arena.global().allocate(byteSize, Long.BYTES);
    memory.set(ValueLayout.JAVA_INT, 0, OrtRuntime.current().apiVersion());
    fields.forEach((offset, stub) -> memory.set(ValueLayout.JAVA_LONG, offset, stub));
    return memory.address();
  }

  private static Object call(long table, int slot, String signature, Object... arguments)
      throws Throwable {
    long function = Native.view(table, 8L * slot + 8).getAtIndex(ValueLayout.JAVA_LONG, slot);
    return Native.link(function, Signature.descriptor(signature)).invokeWithArguments(arguments);
  }

  private static void set(long address, long value) {
    Native.view(address, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, value);
  }

  // Upcalls: package-private for Upcall, which guards them all.

  static long createEpFactories(
      long name, long apiBase, long logger, long factories, long maxFactories, long outCount)
      throws Throwable {
    OrtRuntime.bind(apiBase);
    api = (long) call(apiBase, 0, "P(I)", OrtRuntime.current().apiVersion());
    epApi = (long) call(api, OrtFunction.GET_EP_API.index(), "P()");
    memoryInfo = createMemoryInfo();
    allocator =
        struct(
            ALLOCATOR_BYTES,
            Map.of(
                ALLOCATOR_ALLOC, plain("alloc", "P(P,J)"),
                ALLOCATOR_FREE, plain("free", "V(P,P)"),
                ALLOCATOR_INFO, plain("info", "P(P)")));
    dataTransfer =
        struct(
            DATA_TRANSFER_BYTES,
            Map.of(
                DATA_TRANSFER_RELEASE, plain("releaseDataTransfer", "V(P)"),
                DATA_TRANSFER_CAN_COPY, plain("canCopy", "Z(P,P,P)"),
                DATA_TRANSFER_COPY_TENSORS, status("copyTensors", "P(P,P,P,P,J)")));
    ep =
        struct(
            OrtStructField.EP_BYTES,
            Map.of(
                OrtStructField.EP_GET_NAME.offset(), plain("getName", "P(P)"),
                OrtStructField.EP_GET_CAPABILITY.offset(), status("getCapability", "P(P,P,P)")));
    factory =
        struct(
            OrtStructField.FACTORY_BYTES,
            Map.of(
                OrtStructField.FACTORY_GET_NAME.offset(),
                plain("getName", "P(P)"),
                OrtStructField.FACTORY_GET_VENDOR.offset(),
                plain("getName", "P(P)"),
                OrtStructField.FACTORY_GET_VENDOR_ID.offset(),
                plain("getVendorId", "I(P)"),
                OrtStructField.FACTORY_GET_VERSION.offset(),
                plain("getVersion", "P(P)"),
                OrtStructField.FACTORY_GET_SUPPORTED_DEVICES.offset(),
                status("getSupportedDevices", "P(P,P,J,P,J,P)"),
                OrtStructField.FACTORY_CREATE_EP.offset(),
                status("createEp", "P(P,P,P,J,P,P,P)"),
                OrtStructField.FACTORY_RELEASE_EP.offset(),
                plain("releaseEp", "V(P,P)"),
                FACTORY_CREATE_ALLOCATOR,
                status("createAllocator", "P(P,P,P,P)"),
                FACTORY_RELEASE_ALLOCATOR,
                plain("releaseAllocator", "V(P,P)"),
                OrtStructField.FACTORY_CREATE_DATA_TRANSFER.offset(),
                status("createDataTransfer", "P(P,P)")));
    set(factories, factory);
    set(outCount, 1);
    return 0;
  }

  private static long createMemoryInfo() throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      OrtFunction function = OrtFunction.CREATE_MEMORY_INFO_V2;
      int gpu = 1;
      int defaultMemory = 0;
      int deviceAllocator = 0;
      OrtStatus.check(
          (long)
              function
                  .handle()
                  .invokeExact(
                      arena.allocateFrom("CUDA").address(),
                      gpu,
                      MemoryDevice.Gpu.NVIDIA,
                      0,
                      defaultMemory,
                      0L,
                      deviceAllocator,
                      out.address()),
          function);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  static long releaseEpFactory(long self) {
    return 0;
  }

  static long getName(long self) {
    return NAME.address();
  }

  static int getVendorId(long self) {
    return MemoryDevice.Gpu.NVIDIA;
  }

  static long getVersion(long self) {
    return VERSION.address();
  }

  static long getSupportedDevices(
      long self, long devices, long count, long epDevices, long maxEpDevices, long outCount)
      throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      call(api, CREATE_KEY_VALUE_PAIRS, "V(P)", out.address());
      long options = out.get(ValueLayout.JAVA_LONG, 0);
      long key = arena.allocateFrom("device_id").address();
      call(api, ADD_KEY_VALUE_PAIR, "V(P,P,P)", options, key, arena.allocateFrom("0").address());
      // The list begins with the CPU, which every machine has.
      long cpu = Native.view(devices, Long.BYTES).get(ValueLayout.JAVA_LONG, 0);
      OrtFunction create = OrtFunction.CREATE_EP_DEVICE;
      OrtStatus.check(
          (long) create.handle().invokeExact(self, cpu, 0L, options, epDevices), create);
      OrtCalls.release(OrtFunction.RELEASE_KEY_VALUE_PAIRS, options);
      long epDevice = Native.view(epDevices, Long.BYTES).get(ValueLayout.JAVA_LONG, 0);
      OrtStatus.check(
          (long) call(epApi, EP_DEVICE_ADD_ALLOCATOR_INFO, "P(P,P)", epDevice, memoryInfo), create);
      set(outCount, 1);
    }
    return 0;
  }

  static long createEp(
      long self, long devices, long metadata, long count, long options, long logger, long out) {
    set(out, ep);
    return 0;
  }

  static void releaseEp(long self, long released) {}

  static long getCapability(long self, long graph, long supportInfo) {
    return 0;
  }

  static long createAllocator(long self, long info, long options, long out) {
    set(out, allocator);
    return 0;
  }

  static void releaseAllocator(long self, long released) {}

  static long alloc(long self, long bytes) {
    MemorySegment memory = Arena.ofAuto().allocate(Math.max(bytes, 1), 256);
    ALLOCATIONS.put(memory.address(), memory);
    return memory.address();
  }

  static void free(long self, long address) {
    ALLOCATIONS.remove(address);
  }

  static long info(long self) {
    return memoryInfo;
  }

  static long createDataTransfer(long self, long out) {
    set(out, dataTransfer);
    return 0;
  }

  static void releaseDataTransfer(long self) {}

  static boolean canCopy(long self, long from, long to) {
    return isGpu(from) || isGpu(to);
  }

  private static boolean isGpu(long memoryDevice) {
    try {
      int type = (int) OrtFunction.MEMORY_DEVICE_GET_DEVICE_TYPE.handle().invokeExact(memoryDevice);
      return type == 1;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static long copyTensors(long self, long from, long to, long streams, long count) {
    MemorySegment sources = Native.view(from, Long.BYTES * count);
    MemorySegment targets = Native.view(to, Long.BYTES * count);
    try (OrtCalls calls = new OrtCalls()) {
      for (long i = 0; i < count; i++) {
        long source = sources.getAtIndex(ValueLayout.JAVA_LONG, i);
        long target = targets.getAtIndex(ValueLayout.JAVA_LONG, i);
        long bytes = calls.pointer(OrtFunction.GET_TENSOR_SIZE_IN_BYTES, source);
        if (bytes > 0) {
          Native.view(calls.pointer(OrtFunction.GET_TENSOR_MUTABLE_DATA, target), bytes)
              .copyFrom(Native.view(calls.pointer(OrtFunction.GET_TENSOR_DATA, source), bytes));
        }
      }
    }
    return 0;
  }
}
