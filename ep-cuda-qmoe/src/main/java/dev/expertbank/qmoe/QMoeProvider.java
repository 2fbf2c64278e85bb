package dev.expertbank.qmoe;

import dev.expertbank.qmoe.bank.ExpertBank;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.host.HostDevice;
import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.CompiledNode;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.RunBoundary;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpecs;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** The provider of one session: claims QMoE nodes and computes them on one device. */
final class QMoeProvider implements ExecutionProvider {
  private static final String NODE_TYPE = "com.microsoft::QMoE";

  private final QMoeOptions options;
  private final Device device = new HostDevice();
  private final ExpertBank bank;

  /** Why no further run may read the weights; set at a boundary. */
  private volatile @Nullable EpException weightsFailure;

  QMoeProvider(QMoeOptions options) {
    this.options = options;
    this.bank = new ExpertBank(options.weightsAccess());
  }

  @Override
  public Claim claim(GraphNode node) {
    if (!node.qualifiedType().equals(NODE_TYPE)) {
      return new Claim.NotApplicable("not a " + NODE_TYPE + " node");
    }
    return switch (QMoeSpecs.read(node, options.routing())) {
      case QMoeReading.Supported supported -> new Claim.Claimed(true, supported.notes());
      case QMoeReading.Unsupported unsupported ->
          new Claim.Refused(unsupported.code(), unsupported.reason());
    };
  }

  @Override
  public CompiledNode compile(GraphNode node, Path modelDirectory) {
    if (!(QMoeSpecs.read(node, options.routing()) instanceof QMoeReading.Supported supported)) {
      throw new IllegalStateException("compile of a node that was not claimed: " + node.name());
    }
    var table = bank.openLayer(node, supported.spec(), modelDirectory);
    return new QMoeNode(this, supported.spec(), device.prepare(supported.spec(), table));
  }

  /**
   * Called before each execution.
   *
   * @throws EpException {@code weights.changed} once a boundary has found a weight file changed
   */
  void checkWeights() {
    EpException failure = weightsFailure;
    if (failure != null) {
      throw failure;
    }
  }

  @Override
  public BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary) {
    try {
      bank.checkUnchanged();
    } catch (EpException e) {
      weightsFailure = e;
      return new BoundaryOutcome.Failed(String.valueOf(e.getMessage()));
    }
    return BoundaryOutcome.notResident();
  }

  @Override
  public void close() {
    try {
      device.close();
    } finally {
      bank.close();
    }
  }
}
