package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.memory.MemoryGovernors;
import dev.expertbank.qmoe.boundary.MemoryBudget;
import dev.expertbank.qmoe.boundary.PrefillStreaming;
import dev.expertbank.qmoe.boundary.Residency;
import dev.expertbank.qmoe.boundary.ResidencyOptions;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.cuda.CudaNode.Places;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.residency.ResidencyOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.residency.SafePoint;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.SafePoints;
import dev.expertbank.tests.cuda.RequiresGpu;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs of a node on a GPU: streams, graphs, where tensors are, and what is given back. */
@RequiresGpu
@Timeout(300)
class CudaRunTest {
  private static final OptionalLong EVERYTHING = OptionalLong.empty();
  private static final OptionalLong NOTHING = OptionalLong.of(0);
  private static final int TOKENS = 3;
  private static final int SESSIONS = 200;

  /** What the driver itself may keep, of kernels for example. */
  private static final long SLACK_BYTES = 4L << 20;

  @TempDir static Path directory;
  private static Path model;

  private CudaContext context;
  private CudaContext.Current current;
  private CudaCalls calls;
  private long stream;

  @BeforeAll
  static void writeModel() {
    model = CudaNode.writeModel(directory);
  }

  @BeforeEach
  void open() {
    context = new CudaContext(CudaProbe.run().usable().getFirst());
    current = context.makeCurrent();
    calls = context.calls();
    stream = calls.createStream();
  }

  @AfterEach
  void close() {
    calls.destroyStream(stream);
    current.close();
    context.close();
  }

  private static CudaNode node(OptionalLong pinLimit) {
    return node(pinLimit, FaultPlan.none());
  }

  private static CudaNode node(OptionalLong pinLimit, FaultPlan faults) {
    return new CudaNode(model, pinLimit, true, faults);
  }

  private static byte[] expected(int tokens) {
    try (CudaNode node = new CudaNode(model, EVERYTHING, false, FaultPlan.none())) {
      return node.run(0, tokens, Places.HOST);
    }
  }

  private static void assertFails(String code, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(EpException.class, e -> assertThat(e.code()).isEqualTo(code));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 8, 9, CudaNode.MAX_TOKENS})
  void bitsDoNotDependOnWhereTensorsAre(int tokens) {
    byte[] expected = expected(tokens);
    assertThat(expected).isNotEqualTo(new byte[expected.length]);
    try (CudaNode node = node(EVERYTHING)) {
      for (int places = 0; places < 8; places++) {
        Places mixed = new Places((places & 1) == 0, (places & 2) == 0, (places & 4) == 0);
        node.clear(stream);
        assertThat(node.run(stream, tokens, mixed)).as("%s", mixed).isEqualTo(expected);
      }
    }
  }

  @Test
  void runsInTwoStreamsDoNotDisturbEachOther() throws Exception {
    byte[] few = expected(TOKENS);
    byte[] many = expected(CudaNode.MAX_TOKENS);
    try (CudaNode first = node(EVERYTHING);
        CudaNode second = node(EVERYTHING);
        var pool = Executors.newFixedThreadPool(3)) {
      List<Callable<Boolean>> tasks = new ArrayList<>();
      // The first two are of one session, whose runs share the pool of workspaces.
      tasks.add(() -> repeats(first, TOKENS, Places.DEVICE, few));
      tasks.add(() -> repeats(first, CudaNode.MAX_TOKENS, new Places(true, true, false), many));
      tasks.add(() -> repeats(second, CudaNode.MAX_TOKENS, Places.DEVICE, many));
      for (Future<Boolean> task : pool.invokeAll(tasks)) {
        assertThat(task.get()).isTrue();
      }
    }
  }

  private boolean repeats(CudaNode node, int tokens, Places places, byte[] expected) {
    try (var _ = context.makeCurrent()) {
      long own = calls.createStream();
      for (int i = 0; i < 200; i++) {
        assertThat(node.run(own, tokens, places)).isEqualTo(expected);
      }
      calls.destroyStream(own);
    }
    return true;
  }

  @Test
  void runsThatFollowEachOtherInDifferentStreamsShareAWorkspace() {
    byte[] expected = expected(TOKENS);
    long other = calls.createStream();
    try (CudaNode node = node(EVERYTHING)) {
      for (int i = 0; i < 100; i++) {
        node.launch(i % 2 == 0 ? stream : other, TOKENS, Places.DEVICE);
      }
      node.device().awaitRuns();
      assertThat(calls.isStreamDone(stream)).isTrue();
      assertThat(calls.isStreamDone(other)).isTrue();
      assertThat(node.output(stream, TOKENS, Places.DEVICE)).isEqualTo(expected);
    }
    calls.destroyStream(other);
  }

  /** Residency acts at once: the test has no runs in flight when it asks. */
  private static final class AtOnce implements SafePoints {
    @Override
    public <T> CompletableFuture<T> next(Supplier<T> action) {
      return CompletableFuture.completedFuture(action.get());
    }
  }

  private static Residency residency(CudaNode node, long budget) {
    ResidencyOptions options =
        new ResidencyOptions(
            new MemoryBudget.Bytes(budget),
            "whole-bank",
            1L << 30,
            Optional.empty(),
            Optional.empty(),
            PrefillStreaming.OFF,
            PinSettings.NONE);
    return Residency.open(options, node.bank(), node.device(), new AtOnce());
  }

  @Test
  void aGraphFollowsTheExpertsAndNothingMovesWhileItIsCaptured() {
    byte[] expected = expected(TOKENS);
    try (CudaNode node = node(EVERYTHING)) {
      long slotBytes = node.device().slotGranularity();
      long budget = CudaNode.EXPERTS * slotBytes;
      try (Residency residency = residency(node, budget)) {
        assertThat(node.run(stream, TOKENS, Places.DEVICE)).isEqualTo(expected);
        assertThat(residency.consume()).isInstanceOf(ResidencyOutcome.Applied.class);

        calls.beginCapture(stream);
        node.launch(stream, TOKENS, Places.DEVICE);
        assertThat(node.device().capturing()).isTrue();
        assertThat(residency.consume())
            .isEqualTo(new ResidencyOutcome.RejectedNotSafeBoundary(SafePoint.Blocker.CAPTURING));
        long graph = calls.endCapture(stream);
        assertThat(node.device().capturing()).isFalse();
        assertThat(residency.metrics().residentExperts()).isZero();

        long executable = calls.instantiate(graph);
        calls.destroyGraph(graph);
        assertThat(replay(node, executable)).as("everything is cold").isEqualTo(expected);
        residency.consume();
        assertThat(residency.metrics().residentExperts()).isEqualTo(CudaNode.EXPERTS);
        assertThat(replay(node, executable)).as("everything is resident").isEqualTo(expected);
        residency.resize(new ResizeRequest(ResizeRequest.Direction.SHRINK, budget - slotBytes));
        assertThat(residency.metrics().residentExperts()).isEqualTo(1);
        assertThat(residency.metrics().heldBytes()).isEqualTo(slotBytes);
        assertThat(replay(node, executable)).as("all but one are cold").isEqualTo(expected);
        assertThat(node.run(stream, TOKENS, Places.DEVICE)).isEqualTo(expected);
        calls.destroyExecutable(executable);
      }
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  private byte[] replay(CudaNode node, long executable) {
    node.clear(stream);
    calls.launchGraph(executable, stream);
    return node.output(stream, TOKENS, Places.DEVICE);
  }

  @Test
  void aGraphAndOrdinaryRunsHaveWorkspacesOfTheirOwn() {
    byte[] expected = expected(TOKENS);
    byte[] many = expected(CudaNode.MAX_TOKENS);
    long other = calls.createStream();
    try (CudaNode node = node(EVERYTHING)) {
      node.run(stream, TOKENS, Places.DEVICE);
      calls.beginCapture(stream);
      node.launch(stream, TOKENS, Places.DEVICE);
      node.launch(stream, TOKENS, Places.DEVICE);
      long graph = calls.endCapture(stream);
      long executable = calls.instantiate(graph);
      calls.destroyGraph(graph);
      for (int i = 0; i < 50; i++) {
        assertThat(node.run(other, CudaNode.MAX_TOKENS, new Places(true, true, false)))
            .isEqualTo(many);
        calls.launchGraph(executable, stream);
      }
      node.device().awaitRuns();
      assertThat(calls.isStreamDone(stream)).as("graphs are waited for").isTrue();
      assertThat(replay(node, executable)).isEqualTo(expected);
      calls.destroyExecutable(executable);
    }
    calls.destroyStream(other);
  }

  @Test
  void whatAGraphCannotRepeatIsRefused() {
    try (CudaNode node = node(EVERYTHING);
        CudaNode staged = node(NOTHING)) {
      assertRefusedInCapture(node, TOKENS, Places.DEVICE);
      node.run(stream, TOKENS, Places.DEVICE);
      assertRefusedInCapture(node, TOKENS, new Places(false, true, true));
      node.run(stream, TOKENS, Places.DEVICE);
      assertRefusedInCapture(node, CudaNode.MAX_TOKENS, Places.DEVICE);
      staged.run(stream, TOKENS, Places.DEVICE);
      assertRefusedInCapture(staged, TOKENS, Places.DEVICE);
      assertThat(node.run(stream, TOKENS, Places.DEVICE)).isEqualTo(expected(TOKENS));
    }
  }

  private void assertRefusedInCapture(CudaNode node, int tokens, Places places) {
    calls.beginCapture(stream);
    assertFails("device.capture", () -> node.launch(stream, tokens, places));
    calls.destroyGraph(calls.endCapture(stream));
  }

  /** The graph would find them gone from their slots later. */
  @Test
  void expertsThatCannotBeReadAreNotCapturedThoughAllAreResident() {
    byte[] expected = expected(TOKENS);
    try (CudaNode node = node(NOTHING);
        Residency residency = residency(node, CudaNode.EXPERTS * node.device().slotGranularity())) {
      for (int i = 0; i < 3; i++) {
        assertThat(node.run(stream, TOKENS, Places.DEVICE)).isEqualTo(expected);
        residency.consume();
      }
      assertThat(residency.metrics().residentExperts()).isEqualTo(CudaNode.EXPERTS);
      assertRefusedInCapture(node, TOKENS, Places.DEVICE);
      assertThat(node.run(stream, TOKENS, Places.DEVICE)).isEqualTo(expected);
    }
  }

  @Test
  void withoutAStreamThereIsNoRun() {
    try (CudaNode node = node(EVERYTHING)) {
      assertFails("io.device", () -> node.launch(0, TOKENS, Places.DEVICE));
    }
  }

  @Test
  void tensorsAreCopiedBothWaysButNotInACapture() {
    try (CudaNode node = node(EVERYTHING)) {
      assertThat(node.copyInputThere(stream)).isEqualTo(node.input());
      calls.beginCapture(stream);
      assertFails("device.capture", () -> node.copyInputThere(stream));
      calls.destroyGraph(calls.endCapture(stream));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 9, CudaNode.MAX_TOKENS})
  void bitsDoNotDependOnWhetherExpertsAreReadInPlace(int tokens) {
    byte[] expected = expected(tokens);
    try (CudaNode node = node(NOTHING)) {
      assertThat(node.bank().report().inPlaceBytes()).isZero();
      for (int i = 0; i < 3; i++) {
        node.clear(stream);
        assertThat(node.run(stream, tokens, Places.DEVICE)).isEqualTo(expected);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Operation.class,
      names = {"COMMIT_SLOT", "START_COPY", "COPY"})
  void anExpertThatCannotBeCopiedFailsItsRunOnly(Operation operation) {
    byte[] expected = expected(TOKENS);
    try (CudaNode node = node(NOTHING, FaultPlan.at(operation, 1))) {
      assertFails(
          operation == Operation.COMMIT_SLOT ? "device.memory" : "device.copy",
          () -> node.launch(stream, TOKENS, Places.DEVICE));
      assertThat(node.run(stream, TOKENS, Places.DEVICE)).isEqualTo(expected);
    }
  }

  @Test
  void slotsThatMayStillBeWrittenToAreNotUsedAgain() {
    try (CudaNode node = node(NOTHING, FaultPlan.at(Operation.AWAIT_COPY, 1))) {
      for (int i = 0; i < 2; i++) {
        assertFails("device.copy", () -> node.launch(stream, TOKENS, Places.DEVICE));
      }
    }
  }

  @Test
  void sessionsLeaveNoMemoryBehind() {
    session();
    session();
    long before = context.memory().freeBytes();
    for (int i = 0; i < SESSIONS; i++) {
      session();
    }
    assertThat(context.memory().freeBytes()).isGreaterThanOrEqualTo(before - SLACK_BYTES);
  }

  /** With slots, counters, staged experts, tensors on both sides and a graph. */
  private void session() {
    try (CudaNode node = node(NOTHING);
        Residency residency = residency(node, CudaNode.EXPERTS * node.device().slotGranularity())) {
      node.run(stream, CudaNode.MAX_TOKENS, Places.HOST);
      residency.consume();
      node.run(stream, TOKENS, Places.DEVICE);
      residency.consume();
    }
    try (CudaNode node = node(EVERYTHING)) {
      node.run(stream, TOKENS, Places.DEVICE);
      calls.beginCapture(stream);
      node.launch(stream, TOKENS, Places.DEVICE);
      calls.destroyGraph(calls.endCapture(stream));
    }
  }
}
