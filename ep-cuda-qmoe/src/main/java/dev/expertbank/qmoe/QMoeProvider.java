package dev.expertbank.qmoe;

import dev.expertbank.qmoe.bank.ExpertBank;
import dev.expertbank.qmoe.boundary.MemoryBudget;
import dev.expertbank.qmoe.boundary.Residency;
import dev.expertbank.qmoe.boundary.RouteRecorder;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.events.ClaimEvent;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.CompiledNode;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.RunBoundary;
import dev.expertbank.spi.SafePoints;
import dev.expertbank.spi.WeightReport;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpecs;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Supplier;
import jdk.jfr.FlightRecorder;
import org.jspecify.annotations.Nullable;

/** The provider of one session: claims QMoE nodes and computes them on one device. */
final class QMoeProvider implements ExecutionProvider {
  private static final String NODE_TYPE = "com.microsoft::QMoE";

  private final QMoeOptions options;
  private final Device device;
  private final RoutingSemantics routing;
  private final ExpertBank bank;

  private volatile @Nullable Residency residency;
  private volatile @Nullable RouteRecorder recorder;

  /** Why no further run may read the weights; set by the last node of a run or at a boundary. */
  private volatile @Nullable EpException weightsFailure;

  /** Whether the files have been looked at since the boundary before. */
  private volatile boolean filesChecked;

  /** The device is the provider's from now on. */
  QMoeProvider(QMoeOptions options, Device device) {
    this.options = options;
    this.device = device;
    this.routing = options.routing(device.tensorMemory());
    this.bank = new ExpertBank(options.weightsAccess(), device);
  }

  @Override
  public MemoryDevice memoryDevice() {
    return device.tensorMemory();
  }

  @Override
  public void copy(KernelContext.Tensor from, KernelContext.Tensor to, long gpuStream) {
    device.copy(from, to, gpuStream);
  }

  @Override
  public Claim claim(GraphNode node, Supplier<Path> modelDirectory) {
    if (!node.qualifiedType().equals(NODE_TYPE)) {
      return new Claim.NotApplicable("not a " + NODE_TYPE + " node");
    }
    Claim claim =
        switch (QMoeSpecs.read(node, routing)) {
          case QMoeReading.Supported supported -> claim(node, supported, modelDirectory);
          case QMoeReading.Unsupported unsupported -> refused(unsupported);
        };
    // The first event would start the flight recorder, which takes longer than all of loading.
    if (FlightRecorder.isInitialized()) {
      record(node, claim);
    }
    return claim;
  }

  /** What takes its time and needs nothing else begins with the claim. */
  private Claim claim(
      GraphNode node, QMoeReading.Supported supported, Supplier<Path> modelDirectory) {
    Optional<QMoeReading.Unsupported> unsupported = device.unsupported(supported.spec());
    if (unsupported.isPresent()) {
      return refused(unsupported.get());
    }
    bank.openAhead(node, supported.spec(), modelDirectory);
    if (hasBudget()) {
      Residency.warmUp();
    }
    return new Claim.Claimed(true, supported.notes());
  }

  private static Claim refused(QMoeReading.Unsupported unsupported) {
    return new Claim.Refused(unsupported.code(), unsupported.reason());
  }

  private static void record(GraphNode node, Claim claim) {
    ClaimEvent event = new ClaimEvent();
    if (event.shouldCommit()) {
      event.node = node.name();
      event.operator = node.qualifiedType();
      event.answer = claim.toString();
      event.commit();
    }
  }

  @Override
  public CompiledNode compile(GraphNode node, Path modelDirectory) {
    if (!(QMoeSpecs.read(node, routing) instanceof QMoeReading.Supported supported)) {
      throw new IllegalStateException("compile of a node that was not claimed: " + node.name());
    }
    int layer = bank.layerCount();
    var experts = bank.openLayer(node, supported.spec(), modelDirectory);
    return new QMoeNode(
        this, supported.spec(), device.prepare(supported.spec(), experts, layer), layer);
  }

  private boolean hasBudget() {
    return !(options.residency().budget() instanceof MemoryBudget.Off);
  }

  @Override
  public void sessionCreated(SafePoints safePoints) {
    bank.endAhead();
    if (bank.layerCount() == 0) {
      return;
    }
    if (hasBudget()) {
      residency = Residency.open(options.residency(), bank, device, safePoints);
    }
    if (options.recordRoutes().isPresent()) {
      recorder =
          new RouteRecorder(options.recordRoutes().get(), bank.layout(device.slotGranularity()));
      device.recordRoutes(recorder);
    }
  }

  /**
   * Called before each execution.
   *
   * @throws EpException {@code weights.changed} once a weight file was found changed
   */
  void checkWeights() {
    EpException failure = weightsFailure;
    if (failure != null) {
      throw failure;
    }
  }

  /**
   * Called after each execution. Whether the files are what they were is asked after the last one
   * of a run: there a GPU still computes, while at the boundary the caller waits.
   */
  void computed(int layer) {
    if (layer == bank.layerCount() - 1) {
      checkFiles();
      filesChecked = true;
    }
  }

  private void checkFiles() {
    try {
      bank.checkUnchanged();
    } catch (EpException e) {
      weightsFailure = e;
    }
  }

  @Override
  public BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary) {
    device.runsEnded();
    if (recorder != null) {
      recorder.runsEnded(boundary.completedRuns());
    }
    if (!filesChecked) {
      checkFiles();
    }
    filesChecked = false;
    EpException failure = weightsFailure;
    if (failure != null) {
      return new BoundaryOutcome.Failed(String.valueOf(failure.getMessage()));
    }
    return residency == null
        ? BoundaryOutcome.notResident()
        : new BoundaryOutcome.Resident(residency.consume());
  }

  @Override
  public ResizeOutcome resize(ResizeRequest request) {
    if (residency == null) {
      throw new EpException(
          "residency.off", "there is no budget to resize: create the session with a memory.budget");
    }
    return residency.resize(request);
  }

  @Override
  public WeightReport weights() {
    return bank.report();
  }

  @Override
  public Optional<ResidencyMetrics> metrics() {
    return Optional.ofNullable(residency).map(Residency::metrics);
  }

  @Override
  public void close() {
    try {
      if (recorder != null) {
        recorder.close();
      }
      if (residency != null) {
        residency.close();
      }
    } finally {
      try {
        bank.endAhead();
        device.close();
      } finally {
        bank.close();
      }
    }
  }
}
