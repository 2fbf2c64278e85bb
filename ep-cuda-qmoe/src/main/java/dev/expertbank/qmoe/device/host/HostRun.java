package dev.expertbank.qmoe.device.host;

import dev.expertbank.natives.Native;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/**
 * {@code eb_qmoe_run} with its workspace: what one run needs, reused by later runs. Used by one run
 * at a time.
 */
final class HostRun implements AutoCloseable {
  static final StructLayout LAYOUT =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("spec"),
          ValueLayout.JAVA_LONG.withName("rows"),
          ValueLayout.JAVA_LONG.withName("input"),
          ValueLayout.JAVA_LONG.withName("router"),
          ValueLayout.JAVA_LONG.withName("router_weights"),
          ValueLayout.JAVA_LONG.withName("output"),
          ValueLayout.JAVA_LONG.withName("workspace"),
          ValueLayout.JAVA_LONG.withName("workspace_bytes"),
          ValueLayout.JAVA_LONG.withName("tokens"),
          ValueLayout.JAVA_LONG.withName("window_header"),
          ValueLayout.JAVA_LONG.withName("window_counts"),
          ValueLayout.JAVA_LONG.withName("selected_expert"),
          ValueLayout.JAVA_LONG.withName("fc1_tasks"),
          ValueLayout.JAVA_LONG.withName("fc2_tasks"),
          ValueLayout.JAVA_LONG.withName("fc1_tasks_per_expert"),
          ValueLayout.JAVA_LONG.withName("active_experts"),
          ValueLayout.JAVA_LONG.withName("active_expert"),
          ValueLayout.JAVA_LONG.withName("first_active"),
          ValueLayout.JAVA_LONG.withName("end_active"),
          ValueLayout.JAVA_LONG.withName("route_expert"),
          ValueLayout.JAVA_LONG.withName("route_weight"),
          ValueLayout.JAVA_LONG.withName("state"));

  private static final long SPEC = offset("spec");
  private static final long ROWS = offset("rows");
  private static final long INPUT = offset("input");
  private static final long ROUTER = offset("router");
  private static final long ROUTER_WEIGHTS = offset("router_weights");
  private static final long OUTPUT = offset("output");
  private static final long TOKENS = offset("tokens");
  private static final long WINDOW_HEADER = offset("window_header");
  private static final long WINDOW_COUNTS = offset("window_counts");
  private static final long SELECTED_EXPERT = offset("selected_expert");
  private static final long FC1_TASKS = offset("fc1_tasks");
  private static final long FC2_TASKS = offset("fc2_tasks");
  private static final long FC1_TASKS_PER_EXPERT = offset("fc1_tasks_per_expert");
  private static final long ACTIVE_EXPERTS = offset("active_experts");
  private static final long ACTIVE_EXPERT = offset("active_expert");
  private static final long FIRST_ACTIVE = offset("first_active");
  private static final long END_ACTIVE = offset("end_active");

  private final Arena arena = Arena.ofShared();
  private final MemorySegment struct = arena.allocate(LAYOUT);
  private final long workspaceBytes;

  HostRun(long workspaceBytes) {
    this.workspaceBytes = workspaceBytes;
    MemorySegment workspace = arena.allocate(workspaceBytes, 64);
    struct.set(ValueLayout.JAVA_LONG, offset("workspace"), workspace.address());
    struct.set(ValueLayout.JAVA_LONG, offset("workspace_bytes"), workspaceBytes);
  }

  long workspaceBytes() {
    return workspaceBytes;
  }

  MemorySegment struct() {
    return struct;
  }

  void set(
      long spec, long rows, long input, long router, long routerWeights, long output, long tokens) {
    struct.set(ValueLayout.JAVA_LONG, SPEC, spec);
    struct.set(ValueLayout.JAVA_LONG, ROWS, rows);
    struct.set(ValueLayout.JAVA_LONG, INPUT, input);
    struct.set(ValueLayout.JAVA_LONG, ROUTER, router);
    struct.set(ValueLayout.JAVA_LONG, ROUTER_WEIGHTS, routerWeights);
    struct.set(ValueLayout.JAVA_LONG, OUTPUT, output);
    struct.set(ValueLayout.JAVA_LONG, TOKENS, tokens);
  }

  /** Where routes are counted; a header of 0 counts nothing. */
  void setWindow(long header, long counts) {
    struct.set(ValueLayout.JAVA_LONG, WINDOW_HEADER, header);
    struct.set(ValueLayout.JAVA_LONG, WINDOW_COUNTS, counts);
  }

  /** Where the selected experts of each row go; 0 for nowhere. */
  void setSelected(long selected) {
    struct.set(ValueLayout.JAVA_LONG, SELECTED_EXPERT, selected);
  }

  long fc1Tasks() {
    return struct.get(ValueLayout.JAVA_LONG, FC1_TASKS);
  }

  long fc2Tasks() {
    return struct.get(ValueLayout.JAVA_LONG, FC2_TASKS);
  }

  /** The experts that have routes in this run, ascending. */
  int[] activeExperts() {
    long count = struct.get(ValueLayout.JAVA_LONG, ACTIVE_EXPERTS);
    return count == 0
        ? new int[0]
        : Native.view(struct.get(ValueLayout.JAVA_LONG, ACTIVE_EXPERT), Integer.BYTES * count)
            .toArray(ValueLayout.JAVA_INT);
  }

  /** Reads experts through other rows than the table's. */
  void setRows(long rows) {
    struct.set(ValueLayout.JAVA_LONG, ROWS, rows);
  }

  /**
   * Makes the next tasks those of the active experts in [first, end).
   *
   * @return how many fc1 tasks they have
   */
  long setStage(long first, long end) {
    struct.set(ValueLayout.JAVA_LONG, FIRST_ACTIVE, first);
    struct.set(ValueLayout.JAVA_LONG, END_ACTIVE, end);
    return (end - first) * struct.get(ValueLayout.JAVA_LONG, FC1_TASKS_PER_EXPERT);
  }

  @Override
  public void close() {
    arena.close();
  }

  private static long offset(String field) {
    return LAYOUT.byteOffset(PathElement.groupElement(field));
  }
}
