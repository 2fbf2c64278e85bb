package dev.expertbank.tests.session;

import static dev.expertbank.tests.session.SmallQMoe.run;
import static dev.expertbank.tests.session.SmallQMoe.tokens;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtException;
import dev.expertbank.memory.MemoryGovernors;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResidencyOutcome;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.residency.ResizeRequest.Direction;
import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ProviderSession;
import dev.expertbank.tests.TestDevice;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Residency in a session: what it may never change, and what an application can ask of it. */
@Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ResidencyTest {
  private static final int LAYERS = 3;

  private static final long EXPERT_BYTES = SmallQMoe.EXPERT_BYTES;
  private static final long SLOT_BYTES = TestDevice.slotBytes(EXPERT_BYTES);
  private static final long WHOLE_BANK = LAYERS * SmallQMoe.EXPERTS * SLOT_BYTES;

  /** A third of the bank. */
  private static final long THIRD = WHOLE_BANK / 3;

  private static final String THIRD_BUDGET = Long.toString(THIRD);

  /** Two sessions have 10,000 runs together. */
  private static final int RUNS_PER_SESSION = 5_000;

  @TempDir Path directory;

  private Path model;

  @BeforeEach
  void writeModel() {
    model = SmallQMoe.write(directory, LAYERS);
  }

  @Test
  void withoutABudgetThereIsNoResidency() throws Exception {
    try (var open = SmallQMoe.open(model, Map.of())) {
      run(open.session(), tokens(1, 1));
      ProviderSession session = session(open);
      assertThat(session.lastBoundaryOutcome()).contains(BoundaryOutcome.notResident());
      assertThat(session.metrics()).isEmpty();
      assertThat(session.resize(grow(1)))
          .failsWithin(10, TimeUnit.SECONDS)
          .withThrowableThat()
          .withMessageContaining("create the session with a memory.budget");
    }
  }

  @Test
  void theWholeBankBecomesResidentAndEveryUseHits() throws Exception {
    Map<String, String> options = Map.of("memory.budget", "1GiB", "residency.policy", "whole-bank");
    try (var open = SmallQMoe.open(model, options)) {
      for (int i = 0; i < 2; i++) {
        run(open.session(), tokens(1, i));
      }
      ResidencyMetrics filled = session(open).metrics().orElseThrow();
      assertThat(filled.residentExperts()).isEqualTo(LAYERS * SmallQMoe.EXPERTS);
      assertThat(filled.residentBytes()).isEqualTo(LAYERS * SmallQMoe.EXPERTS * EXPERT_BYTES);
      assertThat(filled.budgetBytes()).as("no more than can be used").isEqualTo(WHOLE_BANK);
      assertThat(filled.heldBytes()).isEqualTo(WHOLE_BANK);
      assertThat(filled.totals().use().hits()).isZero();
      run(open.session(), tokens(1, 9));
      ResidencyMetrics used = session(open).metrics().orElseThrow();
      assertThat(used.totals().use().hits()).isEqualTo(LAYERS * SmallQMoe.TOP_K);
      assertThat(session(open).lastBoundaryOutcome().orElseThrow())
          .isInstanceOfSatisfying(
              BoundaryOutcome.Resident.class,
              resident ->
                  assertThat(resident.residency()).isInstanceOf(ResidencyOutcome.Applied.class));
    }
  }

  @Test
  void pinnedExpertsHitFromTheSecondBoundaryOn() throws Exception {
    // The recorded model routes every row to these five.
    Map<String, String> options =
        Map.of(
            "memory.budget", Long.toString(5 * RoutedModel.SLOT_BYTES),
            "residency.policy", "hot-set",
            "residency.pin.keys", "1:8,1:13,1:19,2:24,2:26");
    int[][][][] routes = GraniteRoutes.prompt("code").runs();
    Path routed = Files.createDirectory(directory.resolve("routed"));
    try (var open = SmallQMoe.open(RoutedModel.write(routed), options)) {
      for (int run = 1; run <= 5; run++) {
        RoutedModel.run(open.session(), routes[run]);
      }
      assertThat(session(open).metrics().orElseThrow().totals().use().hits()).isEqualTo(3 * 5);
    }
  }

  @Test
  void pinsThatNameNoExpertAreRefused() {
    assertThatThrownBy(() -> SmallQMoe.open(model, pins("0-3")))
        .hasMessageContaining("residency.pin.keys: '0-3' is not valid; use experts such as 0:5");
    assertThatThrownBy(() -> SmallQMoe.open(model, pins("0:99")))
        .hasMessageContaining("expert 99 of layer 0 is pinned; it has 8");
  }

  private static Map<String, String> pins(String keys) {
    return Map.of(
        "memory.budget", "1GiB", "residency.policy", "hot-set", "residency.pin.keys", keys);
  }

  @Test
  void aPolicyFromAnotherJarIsChosenByItsName() throws Exception {
    Map<String, String> options =
        Map.of("memory.budget", "1GiB", "residency.policy", EvenExpertsPolicyFactory.NAME);
    try (var open = SmallQMoe.open(model, options)) {
      for (int i = 0; i < 2; i++) {
        run(open.session(), tokens(1, i));
      }
      assertThat(session(open).metrics().orElseThrow().residentExperts())
          .isEqualTo(LAYERS * SmallQMoe.EXPERTS / 2);
    }
  }

  @Test
  void aBudgetIsGivenBackWithTheSession() throws Exception {
    try (var memory = MemoryGovernors.forDevice(TestDevice.name(), Map.of())) {
      try (var open =
          SmallQMoe.open(model, Map.of("memory.budget", THIRD_BUDGET, "residency.policy", "lru"))) {
        for (int i = 0; i < 4; i++) {
          run(open.session(), tokens(1, i));
        }
        assertThat(memory.governor().usage(TestDevice.tier()).assigned()).isEqualTo(THIRD);
        assertThat(memory.governor().usage(TestDevice.tier()).mapped()).isEqualTo(THIRD);
      }
      assertThat(memory.governor().usage(TestDevice.tier()).claimed()).isZero();
      assertThat(memory.governor().leakReport()).isEmpty();
    }
  }

  @Test
  void aResizeFromAnotherThreadTakesEffectBetweenRuns() throws Exception {
    List<float[][]> expected = expected(8);
    Map<String, String> options =
        Map.of("memory.budget", Long.toString(percent(80)), "residency.policy", "lru");
    try (var open = SmallQMoe.open(model, options);
        var pool = Executors.newSingleThreadExecutor()) {
      AtomicBoolean stop = new AtomicBoolean();
      Future<Integer> runs =
          pool.submit(
              () -> {
                int count = 0;
                while (!stop.get() || count < expected.size()) {
                  int seed = count++ % expected.size();
                  assertThat(run(open.session(), tokens(1, seed)))
                      .isDeepEqualTo(expected.get(seed));
                }
                return count;
              });
      try {
        for (int i = 0; i < 20; i++) {
          ResizeOutcome shrunk =
              session(open).resize(shrink(percent(60))).get(10, TimeUnit.SECONDS);
          assertThat(shrunk.extent()).isEqualTo(ResizeOutcome.Extent.FULL);
          ResidencyMetrics small = session(open).metrics().orElseThrow();
          assertThat(small.heldBytes()).isLessThanOrEqualTo(percent(80) - percent(60));
          ResizeOutcome grown = session(open).resize(grow(percent(60))).get(10, TimeUnit.SECONDS);
          assertThat(grown.after()).isEqualTo(percent(80));
        }
      } finally {
        stop.set(true);
      }
      assertThat(runs.get(30, TimeUnit.SECONDS)).isPositive();
    }
  }

  @Test
  void managementAndFlightRecorderSeeASessionWhileItIsOpen() throws Exception {
    MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    ObjectName any = new ObjectName("dev.expertbank:type=Residency,*");
    Path file = directory.resolve("events.jfr");
    try (var recording = new Recording()) {
      for (String event : List.of("Claim", "Fill", "Publish", "Boundary", "Resize")) {
        recording.enable("dev.expertbank." + event).withoutThreshold();
      }
      recording.start();
      try (var open =
          SmallQMoe.open(model, Map.of("memory.budget", THIRD_BUDGET, "residency.policy", "lru"))) {
        for (int i = 0; i < 3; i++) {
          run(open.session(), tokens(1, 1));
        }
        assertThat(session(open).resize(shrink(1))).succeedsWithin(10, TimeUnit.SECONDS);
        ObjectName name = server.queryNames(any, null).iterator().next();
        ResidencyMetrics metrics = session(open).metrics().orElseThrow();
        assertThat(server.getAttribute(name, "Hits"))
            .isEqualTo(metrics.totals().use().hits())
            .isNotEqualTo(0L);
        assertThat(server.getAttribute(name, "HeldBytes")).isEqualTo(metrics.heldBytes());
      }
      assertThat(server.queryNames(any, null)).isEmpty();
      recording.dump(file);
    }
    assertThat(
            RecordingFile.readAllEvents(file).stream().map(event -> event.getEventType().getName()))
        .contains(
            "dev.expertbank.Claim",
            "dev.expertbank.Fill",
            "dev.expertbank.Publish",
            "dev.expertbank.Boundary",
            "dev.expertbank.Resize");
  }

  @Test
  void weightsInsideTheModelAreCopiedIntoSlotsToo() throws Exception {
    byte[] bytes =
        SmallQMoe.node(
                SmallQMoe.weights(OnnxModelBuilder.named("inline"))
                    .input("x", ElementType.FLOAT, SmallQMoe.rows(SmallQMoe.HIDDEN))
                    .input("router", ElementType.FLOAT, SmallQMoe.rows(SmallQMoe.EXPERTS))
                    .output("y", ElementType.FLOAT, SmallQMoe.rows(SmallQMoe.HIDDEN)),
                "x",
                "router",
                "y")
            .toBytes();
    float[][] router = {{1, 2, 3, 4, 5, 6, 7, 8}};
    List<float[][]> outputs = new ArrayList<>();
    for (String budget : List.of("off", "1GiB")) {
      try (var open =
          SmallQMoe.open(
              options -> SmallQMoe.ENVIRONMENT.createSession(bytes, options),
              Map.of("memory.budget", budget, "residency.policy", "whole-bank"),
              SmallQMoe.Configure.NOTHING)) {
        for (int i = 0; i < 3; i++) {
          try (var x = OnnxTensor.createTensor(SmallQMoe.ENVIRONMENT, tokens(1, 1));
              var logits = OnnxTensor.createTensor(SmallQMoe.ENVIRONMENT, router);
              var result = open.session().run(Map.of("x", x, "router", logits))) {
            outputs.add((float[][]) result.get(0).getValue());
          }
        }
        session(open)
            .metrics()
            .ifPresent(metrics -> assertThat(metrics.totals().use().hits()).isPositive());
      }
    }
    assertThat(outputs).allSatisfy(output -> assertThat(output).isDeepEqualTo(outputs.get(0)));
  }

  @Test
  void anAutomaticBudgetTakesNoMoreThanTheDeviceHasLeft() throws Exception {
    try (var memory = MemoryGovernors.forDevice(TestDevice.name(), Map.of())) {
      long left = 12 * SLOT_BYTES + 1696;
      memory.governor().setLimit(TestDevice.tier(), left);
      try (var open = SmallQMoe.open(model, Map.of("memory.budget", "auto"))) {
        assertThat(session(open).metrics().orElseThrow().budgetBytes()).isEqualTo(left);
      }
    }
  }

  @Test
  void aClosedSessionRefusesToResize() throws Exception {
    ProviderSession session;
    try (var open = SmallQMoe.open(model, Map.of("memory.budget", THIRD_BUDGET))) {
      session = session(open);
    }
    assertThat(session.resize(grow(1)))
        .failsWithin(10, TimeUnit.SECONDS)
        .withThrowableThat()
        .withMessageContaining("the session is closed");
  }

  @Test
  void twoSessionsNeverHoldMoreThanTheirDeviceHas() throws Exception {
    List<float[][]> expected = expected(4);
    long limit = WHOLE_BANK;
    Map<String, String> options =
        Map.of(
            "memory.budget",
            Long.toString(limit / 2),
            "residency.policy",
            "lru",
            "prefill.streaming",
            "off");
    try (var memory =
            MemoryGovernors.forDevice(TestDevice.name(), Map.of(TestDevice.tier(), limit));
        var first = SmallQMoe.open(model, options);
        var second = SmallQMoe.open(model, options);
        var pool = Executors.newFixedThreadPool(2)) {
      memory.governor().setLimit(TestDevice.tier(), limit);
      assertThatThrownBy(() -> SmallQMoe.open(model, options))
          .isInstanceOf(OrtException.class)
          .hasMessageContaining("memory.");
      List<Callable<Boolean>> tasks = new ArrayList<>();
      int seeds = 0;
      for (var open : List.of(first, second)) {
        int ownSeed = seeds++;
        tasks.add(
            () -> {
              SplittableRandom random = new SplittableRandom(ownSeed);
              for (int i = 0; i < RUNS_PER_SESSION; i++) {
                int seed = i % expected.size();
                assertThat(run(open.session(), tokens(1, seed))).isDeepEqualTo(expected.get(seed));
                if (i % 5 == 0) {
                  long bytes = random.nextLong(1, limit / 2);
                  ResizeRequest request = random.nextBoolean() ? grow(bytes) : shrink(bytes);
                  assertThat(session(open).resize(request)).succeedsWithin(60, TimeUnit.SECONDS);
                }
                assertThat(memory.governor().usage(TestDevice.tier()).claimed())
                    .isLessThanOrEqualTo(limit);
                ResidencyMetrics metrics = session(open).metrics().orElseThrow();
                assertThat(metrics.armed()).isTrue();
                assertThat(metrics.quarantinedSlots()).isZero();
              }
              return true;
            });
      }
      for (Future<Boolean> result : pool.invokeAll(tasks)) {
        assertThat(result.get()).isTrue();
      }
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  @Test
  void whatCannotBeHonouredIsRefusedWhenTheSessionIsCreated() throws Exception {
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("memory.budget", "8GB")))
        .isInstanceOf(EpException.class)
        .hasMessageContaining("'8GB' is not valid; use off, auto or a number of bytes such as");
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("residency.policy", "oracle")))
        .isInstanceOf(EpException.class)
        .hasMessageContaining("adaptive, even-experts, hot-set, lru, static-profile, whole-bank");
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("memory.budget", "4096")))
        .isInstanceOf(OrtException.class)
        .hasMessageContaining("[memory.budget]")
        .hasMessageContaining("holds no expert: the smallest takes " + SLOT_BYTES);
    assertThatThrownBy(
            () ->
                SmallQMoe.open(
                    model, Map.of("memory.budget", THIRD_BUDGET, "residency.byte-cap", "100")))
        .hasMessageContaining("[residency.byte-cap]");
    assertThatThrownBy(
            () ->
                SmallQMoe.open(
                    model,
                    Map.of("memory.budget", THIRD_BUDGET, "residency.policy", "static-profile")))
        .hasMessageContaining("set residency.profile.load");
    Path noProfile = Files.writeString(directory.resolve("no.profile"), "text");
    assertThatThrownBy(
            () ->
                SmallQMoe.open(
                    model,
                    Map.of(
                        "memory.budget",
                        THIRD_BUDGET,
                        "residency.profile.load",
                        noProfile.toString())))
        .hasMessageContaining("[profile.format]");
    assertThatThrownBy(
            () ->
                SmallQMoe.open(
                    model,
                    Map.of(
                        "memory.budget", THIRD_BUDGET, "residency.profile.save", "/no/such/file")))
        .hasMessageContaining("[profile.write]");
    assertThatThrownBy(
            () ->
                SmallQMoe.open(
                    model, Map.of("memory.budget", THIRD_BUDGET, "weights.access", "copy")))
        .hasMessageContaining("exclude each other");
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  private List<float[][]> expected(int seeds) throws OrtException {
    List<float[][]> outputs = new ArrayList<>();
    try (var open = SmallQMoe.open(model, Map.of())) {
      for (int seed = 0; seed < seeds; seed++) {
        outputs.add(run(open.session(), tokens(1, seed)));
      }
    }
    return outputs;
  }

  private static ProviderSession session(SmallQMoe.Open open) {
    return open.registration().sessions().getFirst();
  }

  private static long percent(int percent) {
    return WHOLE_BANK * percent / 100;
  }

  private static ResizeRequest grow(long bytes) {
    return new ResizeRequest(Direction.GROW, bytes);
  }

  private static ResizeRequest shrink(long bytes) {
    return new ResizeRequest(Direction.SHRINK, bytes);
  }
}
