package dev.expertbank.model.cli;

import static dev.expertbank.model.cli.QMoeRun.golden;
import static dev.expertbank.model.cli.QMoeRun.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.expertbank.model.OnnxModelReader;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.ResidencyLayouts;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatProfileText;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.policy.StaticProfilePolicy;
import dev.expertbank.residency.simulation.ResidencySimulator;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.SimulationResult;
import dev.expertbank.spi.qmoe.NonPageableReason;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PlanCommandTest {
  @TempDir private Path directory;

  private Path model() {
    SyntheticModel model =
        SyntheticModel.builder().geometry(64, 96, 4, 2).layers(2).biases(false).build();
    Path file = directory.resolve("m.onnx");
    SyntheticModelWriter.write(model, file, false, SyntheticModelWriter.Progress.NONE);
    return file;
  }

  private Path profile(ResidencyLayout layout, double... usesPerRow) {
    Path file = directory.resolve("heat.txt");
    HeatProfileText.save(new HeatProfile(layout, usesPerRow), file);
    return file;
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "-json"})
  void withAProfileTheMostUsedExpertsComeFirst(String output) throws IOException {
    Path file = model();
    ResidencyLayout layout =
        ResidencyLayouts.of(QMoeNode.of(OnnxModelReader.read(file), RoutingSemantics.ORT_CPU));
    Path heat = profile(layout, 0.75, 0.25, 1, 0, 0, 0.5, 0.5, 1);
    String arguments = "plan --budget 40% --profile " + heat + " " + file;

    QMoeRun run = run((output.isEmpty() ? arguments : arguments + " --json").split(" "));

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.OK);
    assertThat(run.out().replace(directory.toString(), "DIR"))
        .isEqualTo(golden("plan-profile" + output + ".txt"));
  }

  @Test
  void aProfileOfAnotherModelIsRefused() {
    Path heat = profile(new ResidencyLayout(List.of(LayerLayout.pageable(2, 1, 1, 1))), 0, 1);

    QMoeRun run = run("plan", "--budget", "1MiB", "--profile", heat.toString(), model().toString());

    assertThat(run.exitCode()).isEqualTo(ExitCode.FILE);
    assertThat(run.err()).contains("heat.txt").contains("[profile.model]");
    assertThat(run.out()).isEmpty();
  }

  @Test
  void missingDataIsAFindingOfAPlanThatIsPrinted() throws IOException {
    Path file = model();
    Files.delete(directory.resolve("m.onnx.data"));

    QMoeRun run = run("plan", "--budget", "0", file.toString());

    assertThat(run.exitCode()).isEqualTo(ExitCode.FINDINGS);
    assertThat(run.out()).contains("resident  0 of 8 experts").contains("4 do not fit");
    assertThat(run.err()).contains("external.missing");
  }

  /** Layers of different sizes, one of which cannot be moved. */
  private static final ResidencyLayout MIXED =
      new ResidencyLayout(
          List.of(
              LayerLayout.pageable(3, 1, 5000, 8192),
              LayerLayout.nonPageable(3, 1, 4096, new NonPageableReason.InlineTensor()),
              LayerLayout.pageable(3, 1, 4096, 4096)));

  @ParameterizedTest
  @ValueSource(longs = {0, 4095, 4096, 8192, 12288, 20480, 28672, 1 << 20})
  void thePlanHoldsWhatTheSimulatedBankHolds(long budget) {
    int[][][] rows = {
      {{0}, {0}, {2}}, {{1}, {0}, {2}}, {{0}, {2}, {1}}, {{0}, {0}, {2}}, {{0}, {1}, {0}}
    };
    RouteTrace trace =
        new RouteTrace.Builder(List.of(3, 3, 3), List.of(1, 1, 1))
            .windowPerRow(RouteTrace.Phase.PREFILL, rows)
            .windowPerRow(RouteTrace.Phase.DECODE, rows)
            .build();
    HeatProfile heat =
        new HeatProfile(MIXED, new double[] {0.8, 0.2, 0, 0.6, 0.2, 0.2, 0.2, 0.2, 0.6});

    PlannedResidency plan = PlannedResidency.of(MIXED, budget, Optional.of(heat));
    SimulationResult simulated =
        ResidencySimulator.run(
            trace,
            new ResidencySimulator.Bank(MIXED, budget, new StaticProfilePolicy(MIXED, heat)));

    assertThat(simulated.moves().started()).isEqualTo(plan.resident());
    assertThat(simulated.moves().startedBytes()).isEqualTo(plan.residentExpertBytes());
    assertThat(simulated.byteHitRate()).isCloseTo(plan.byteHitRate().orElseThrow(), within(1e-12));
    assertThat(plan.residentSlotBytes()).isLessThanOrEqualTo(budget);
  }

  @Test
  void everyExpertIsResidentOrHasAReason() {
    HeatProfile heat = new HeatProfile(MIXED, new double[] {0.8, 0.2, 0, 1, 0, 0, 0.5, 0.5, 0});
    for (Optional<HeatProfile> known : List.of(Optional.of(heat), Optional.<HeatProfile>empty())) {
      for (long budget = 0; budget <= 40960; budget += 2048) {
        for (PlannedResidency.Layer layer : PlannedResidency.of(MIXED, budget, known).layers()) {
          int explained = layer.obstacle().isPresent() ? 3 : layer.withoutRoom() + layer.unused();
          assertThat(layer.resident().size() + explained).isEqualTo(3);
        }
      }
    }
  }

  @Test
  void withoutAProfileEveryLayerGetsItsShare() {
    PlannedResidency plan = PlannedResidency.of(MIXED, 2 * (8192 + 4096), Optional.empty());

    assertThat(plan.layers().stream().map(layer -> layer.resident().size()))
        .containsExactly(2, 0, 2);
    assertThat(plan.byteHitRate()).isEmpty();
  }
}
