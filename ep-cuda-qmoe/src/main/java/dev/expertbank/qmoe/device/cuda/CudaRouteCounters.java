package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.qmoe.device.RouteRecord;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** The record of routes in the device's memory, with a copy of it in page-locked memory. */
final class CudaRouteCounters implements RouteCounters, AutoCloseable {
  private final CudaContext context;
  private final CudaCalls calls;
  private final CudaRuns runs;
  private final CudaFaults faults;
  private final MemorySegment copy;
  private final long record;
  private final long stream;
  private final RouteRecord layout;
  private volatile boolean armed;

  /** Whether what was reset last may not be on the device yet. */
  private volatile boolean resetting;

  /**
   * Disarmed; its content means nothing before the first {@link #reset}.
   *
   * @param runs that count
   * @param experts of each layer
   */
  CudaRouteCounters(
      CudaContext context,
      CudaHostMemory hostMemory,
      CudaRuns runs,
      CudaFaults faults,
      List<Integer> experts) {
    this.context = context;
    this.runs = runs;
    this.faults = faults;
    calls = context.calls();
    layout = new RouteRecord(experts);
    copy = hostMemory.allocate(layout.byteSize());
    try (var _ = context.makeCurrentRelaxed()) {
      record = context.memory().allocate(copy.byteSize());
      try {
        stream = calls.createStream();
      } catch (CudaException e) {
        context.memory().free(record);
        throw e;
      }
    }
  }

  @Override
  public void arm() {
    armed = true;
  }

  @Override
  public void disarm() {
    armed = false;
  }

  /** The address of the header, or NULL while nothing is counted. */
  long header() {
    awaitReset();
    return armed ? record : 0;
  }

  private void awaitReset() {
    if (resetting) {
      // It was begun at the boundary before, so it is done, as a rule.
      try (var _ = context.makeCurrentRelaxed()) {
        calls.synchronizeStream(stream);
      }
      resetting = false;
    }
  }

  /** The address of a layer's counters. */
  long counts(int layer) {
    return record + layout.offset(layer);
  }

  @Override
  public int[] read() {
    runs.await();
    try (var _ = context.makeCurrentRelaxed()) {
      faults.check(Operation.READ_ROUTES, CudaFunction.MEMCPY_DTOH_ASYNC, copy.address());
      calls.copyToHost(copy.address(), record, copy.byteSize(), stream);
      calls.synchronizeStream(stream);
    }
    return copy.toArray(ValueLayout.JAVA_INT);
  }

  @Override
  public void reset(int[] header) {
    awaitReset();
    copy.fill((byte) 0);
    MemorySegment.copy(header, 0, copy, ValueLayout.JAVA_INT, 0, header.length);
    try (var _ = context.makeCurrentRelaxed()) {
      faults.check(Operation.RESET_ROUTES, CudaFunction.MEMCPY_HTOD_ASYNC, record);
      calls.copyToDevice(record, copy.address(), copy.byteSize(), stream);
      resetting = true;
    }
  }

  /** Nothing counts any more. */
  @Override
  public void close() {
    try (var _ = context.makeCurrentRelaxed()) {
      context.memory().free(record);
      calls.destroyStream(stream);
    }
  }
}
