package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.device.cuda.CudaCalls.HostCopy;
import dev.expertbank.tests.cuda.RequiresGpu;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Every call of the driver that computing makes, with a kernel that adds to a number. */
@RequiresGpu
class CudaCallsTest {
  /** Takes {@code struct { uint32_t *sum; uint32_t amount; }}. */
  private static final String PTX =
      """
      .version 6.3
      .target sm_75
      .address_size 64
      .visible .entry add_amount(.param .align 8 .b8 parameters[16])
      {
        .reg .b32 %r<4>;
        .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [parameters];
        ld.param.u32 %r1, [parameters+8];
        cvta.to.global.u64 %rd2, %rd1;
        ld.global.u32 %r2, [%rd2];
        add.u32 %r3, %r2, %r1;
        st.global.u32 [%rd2], %r3;
        ret;
      }
      \0""";

  private static final MemoryLayout PARAMETERS =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("sum"),
          ValueLayout.JAVA_INT.withName("amount"),
          MemoryLayout.paddingLayout(4));

  private static final LaunchShape ONE = LaunchShape.of(1, 1, 0);

  private static final int ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
  private static final int ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES = 8;
  private static final int POINTER_MEMORY_TYPE = 2;
  private static final int MEMORY_TYPE_HOST = 1;

  private final Arena arena = Arena.ofShared();
  private CudaContext context;
  private CudaContext.Current current;
  private CudaCalls calls;
  private CudaMemoryCalls memory;
  private long stream;
  private long module;
  private long function;
  private long sum;
  private KernelParameters parameters;

  @BeforeEach
  void open() {
    context = new CudaContext(CudaProbe.run().usable().getFirst());
    current = context.makeCurrent();
    calls = context.calls();
    memory = context.memory();
    stream = calls.createStream();
    module = calls.loadModule(PTX.getBytes(StandardCharsets.US_ASCII));
    function = calls.function(module, "add_amount");
    sum = memory.allocate(Integer.BYTES);
    parameters = new KernelParameters(arena, PARAMETERS, false);
    parameters.struct().set(ValueLayout.JAVA_LONG, 0, sum);
    parameters.struct().set(ValueLayout.JAVA_INT, 8, 37);
    calls.setInts(sum, 5, 1, stream);
  }

  @AfterEach
  void close() {
    memory.free(sum);
    calls.unloadModule(module);
    calls.destroyStream(stream);
    current.close();
    context.close();
    arena.close();
  }

  private int sum() {
    MemorySegment copy = arena.allocate(ValueLayout.JAVA_INT);
    calls.copyToHost(copy.address(), sum, Integer.BYTES, stream);
    calls.synchronizeStream(stream);
    return copy.get(ValueLayout.JAVA_INT, 0);
  }

  @Test
  void aKernelReadsItsStructureWhenItIsLaunched() {
    calls.launch(function, ONE, stream, parameters);
    parameters.struct().set(ValueLayout.JAVA_INT, 8, 100);
    calls.launch(function, ONE, stream, parameters);
    assertThat(sum()).isEqualTo(5 + 37 + 100);
  }

  @Test
  void whatIsCapturedIsDoneWhenItsGraphIsLaunched() {
    assertThat(calls.isCapturing(stream)).isFalse();
    calls.beginCapture(stream);
    assertThat(calls.isCapturing(stream)).isTrue();
    calls.launch(function, ONE, stream, parameters);
    long graph = calls.endCapture(stream);
    assertThat(calls.isCapturing(stream)).isFalse();
    assertThat(sum()).isEqualTo(5);
    long executable = calls.instantiate(graph);
    calls.destroyGraph(graph);
    for (int i = 0; i < 3; i++) {
      calls.launchGraph(executable, stream);
    }
    assertThat(sum()).isEqualTo(5 + 3 * 37);
    calls.destroyExecutable(executable);
  }

  @Test
  void eventsOrderStreamsAndMeasureThem() {
    long start = calls.createTimedEvent();
    long end = calls.createTimedEvent();
    long ordered = calls.createEvent();
    long other = calls.createStream();
    assertThat(calls.hasHappened(ordered)).as("never recorded").isTrue();
    calls.recordEvent(start, stream);
    calls.launch(function, ONE, stream, parameters);
    calls.recordEvent(end, stream);
    calls.recordEvent(ordered, stream);
    calls.streamWaitsFor(other, ordered);
    calls.launch(function, ONE, other, parameters);
    calls.synchronizeStream(other);
    assertThat(calls.isStreamDone(other)).isTrue();
    calls.synchronizeEvent(end);
    assertThat(calls.hasHappened(end)).isTrue();
    assertThat(calls.elapsedNanos(start, end)).isBetween(0L, 10_000_000_000L);
    assertThat(sum()).isEqualTo(5 + 2 * 37);
    calls.destroyStream(other);
    calls.destroyEvent(ordered);
    calls.destroyEvent(end);
    calls.destroyEvent(start);
  }

  @Test
  void memoryIsFilledAndCopiedOnTheDevice() {
    long two = memory.allocate(2 * Integer.BYTES);
    calls.setBytes(two, (byte) 0x81, 2 * Integer.BYTES, stream);
    calls.copyOnDevice(sum, two + Integer.BYTES, Integer.BYTES, stream);
    assertThat(sum()).isEqualTo(0x81818181);
    memory.free(two);
  }

  @Test
  void copiesOfABatchEachHaveTheirTargetSourceAndSize() {
    long host = memory.allocateHost(3L * Integer.BYTES);
    MemorySegment words = Native.view(host, 3L * Integer.BYTES);
    words.copyFrom(MemorySegment.ofArray(new int[] {1, 2, 3}));
    long target = memory.allocate(4L * Integer.BYTES);
    calls.setBytes(target, (byte) 0, 4L * Integer.BYTES, stream);
    calls.copyToDevice(
        List.of(
            new HostCopy(target + 2 * Integer.BYTES, host, Integer.BYTES),
            new HostCopy(target, host + Integer.BYTES, 2 * Integer.BYTES)),
        stream);
    MemorySegment arrived = arena.allocate(ValueLayout.JAVA_INT, 4);
    calls.copyToHost(arrived.address(), target, arrived.byteSize(), stream);
    calls.synchronizeStream(stream);
    assertThat(arrived.toArray(ValueLayout.JAVA_INT)).containsExactly(2, 3, 1, 0);
    memory.free(target);
    memory.freeHost(host);
  }

  @Test
  void pageLockedMemoryIsAtOneAddress() {
    long host = memory.allocateHost(4096);
    assertThat(memory.deviceAddress(host)).isEqualTo(host);
    assertThat(memory.pointerAttribute(host, POINTER_MEMORY_TYPE)).isEqualTo(MEMORY_TYPE_HOST);
    memory.freeHost(host);
  }

  @Test
  void kernelsHaveAttributes() {
    assertThat(calls.functionAttribute(function, ATTRIBUTE_MAX_THREADS_PER_BLOCK)).isPositive();
    calls.setFunctionAttribute(function, ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES, 48 << 10);
    assertThat(calls.functionAttribute(function, ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES))
        .isEqualTo(48 << 10);
    assertThat(calls.activeBlocks(function, 128, 64)).isPositive();
  }

  @Test
  void errorsSayTheCallItsArgumentsTheDeviceAndTheDriversWords() {
    assertThatThrownBy(() -> calls.function(module, "missing"))
        .isInstanceOf(CudaException.class)
        .hasMessageContaining("cuModuleGetFunction(")
        .hasMessageContaining("kernel 'missing'")
        .hasMessageContaining("CUDA_ERROR_NOT_FOUND (500), ");
    LaunchShape tooManyThreads = LaunchShape.of(1, 1 << 20, 0);
    assertThatThrownBy(() -> calls.launch(function, tooManyThreads, stream, parameters))
        .isInstanceOf(CudaException.class)
        .hasMessageContaining("blockX=1048576")
        .hasMessageContaining(
            " on " + context.info().label() + " failed: CUDA_ERROR_INVALID_VALUE");
    calls.launch(function, ONE, stream, parameters);
    assertThat(sum()).isEqualTo(5 + 37);
  }

  @Test
  void aThreadGetsTheContextItHadBack() throws InterruptedException {
    boolean[] restored = new boolean[2];
    Thread thread =
        Thread.ofPlatform()
            .start(
                () -> {
                  try (var _ = context.makeCurrentRelaxed()) {
                    restored[0] = isCurrent();
                  }
                  restored[1] = !isCurrent();
                });
    thread.join();
    assertThat(restored).containsOnly(true);
    try (var _ = context.makeCurrentRelaxed()) {
      assertThat(isCurrent()).isTrue();
    }
    assertThat(isCurrent()).isTrue();
  }

  /** Memory can be asked for only where a context is current. */
  private boolean isCurrent() {
    try {
      return memory.freeBytes() > 0;
    } catch (CudaException e) {
      return false;
    }
  }
}
