package dev.expertbank.qmoe.device.host;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.qmoe.device.RouteRecord;
import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** The record of routes in memory that the C kernels count in. */
final class HostRouteCounters implements RouteCounters, AutoCloseable {
  private final FaultPlan faults;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment record;
  private final RouteRecord layout;
  private volatile boolean armed;

  HostRouteCounters(List<Integer> experts, FaultPlan faults) {
    this.faults = faults;
    layout = new RouteRecord(experts);
    record = arena.allocate(layout.byteSize(), 64);
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
    return armed ? record.address() : 0;
  }

  /** The address of a layer's counters. */
  long counts(int layer) {
    return record.address() + layout.offset(layer);
  }

  @Override
  public int[] read() {
    if (faults.fails(FaultPlan.Operation.READ_ROUTES)) {
      throw new EpException("device.routes", "the record of routes could not be read");
    }
    return record.toArray(ValueLayout.JAVA_INT);
  }

  @Override
  public void reset(int[] header) {
    if (faults.fails(FaultPlan.Operation.RESET_ROUTES)) {
      throw new EpException("device.routes", "the record of routes could not be reset");
    }
    record.fill((byte) 0);
    MemorySegment.copy(header, 0, record, ValueLayout.JAVA_INT, 0, header.length);
  }

  @Override
  public void close() {
    arena.close();
  }
}
