package dev.expertbank.qmoe.bank;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.OwnPages;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExternalDataFile;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.WeightReport;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;

/**
 * Knows where the experts of one session are. Weights in external data stay in the file; weights
 * inside the model are copied once. Owns the mappings, the copies and the address tables.
 */
public final class ExpertBank implements AutoCloseable {
  private final WeightsAccess access;
  private final Device device;
  private final WeightFiles files = new WeightFiles();
  private final Arena arena = Arena.ofShared();
  private final List<BankLayer> layers = new ArrayList<>();
  private final OpeningAhead ahead = new OpeningAhead();
  private boolean closed;

  /**
   * An empty bank.
   *
   * @param device reads the experts; is closed before the bank
   */
  public ExpertBank(WeightsAccess access, Device device) {
    this.access = access;
    this.device = device;
  }

  /**
   * Begins to open the files of a layer in place, if that takes the device a while; the caller goes
   * on meanwhile.
   *
   * @param node will be opened as a layer, in the order of the calls of this: the order decides
   *     what is read in place where not everything can be
   * @param modelDirectory gives what {@link #openLayer} will get; asked before this returns, if at
   *     all
   */
  public void openAhead(GraphNode node, QMoeSpec spec, Supplier<Path> modelDirectory) {
    if (access != WeightsAccess.MAP || !device.opensInPlaceSlowly()) {
      return;
    }
    Path directory = modelDirectory.get();
    for (QMoeTensor tensor : spec.tensors()) {
      GraphValue value = node.input(tensor.input().slot()).orElseThrow();
      if (value.constant().orElse(null) instanceof ConstantData.External) {
        ahead.add(() -> device.openInPlace(locate(value, length(tensor, spec), directory).home()));
      }
    }
  }

  /** Ends what {@link #openAhead} has begun: all layers are open, or the device is to be closed. */
  public void endAhead() {
    ahead.close();
  }

  private static long length(QMoeTensor tensor, QMoeSpec spec) {
    return Math.multiplyExact(tensor.bytesPerExpert(), spec.experts());
  }

  /**
   * Opens a layer: all experts of a node. Layers are numbered from 0 in the order in which they are
   * opened.
   *
   * @param modelDirectory the folder that external data is relative to
   * @return valid until the bank is closed
   * @throws EpException {@code external.…} or {@code weights.…} if a tensor cannot be read
   */
  public LayerExperts openLayer(GraphNode node, QMoeSpec spec, Path modelDirectory) {
    BankLayer layer =
        new BankLayer(
            spec, new AddressTable(device.hostMemory(AddressTable.bytes(spec.experts()))));
    for (QMoeTensor tensor : spec.tensors()) {
      GraphValue value = node.input(tensor.input().slot()).orElseThrow();
      Located located = locate(value, length(tensor, spec), modelDirectory);
      layer.add(
          tensor, device.openInPlace(located.home()), device.alignment(tensor), located.source());
    }
    layer.seal();
    layers.add(layer);
    return layer;
  }

  /** How many layers have been opened. */
  public int layerCount() {
    return layers.size();
  }

  /**
   * The layout of all layers.
   *
   * @param slotGranularity of the device
   */
  public ResidencyLayout layout(long slotGranularity) {
    return new ResidencyLayout(
        layers.stream().map(layer -> layer.layout(slotGranularity)).toList());
  }

  /** How the device reaches the experts that are not resident. */
  public WeightReport report() {
    Map<String, Long> staged = new TreeMap<>();
    long bytes = 0;
    for (BankLayer layer : layers) {
      bytes += layer.bytes();
      layer.stagedBytes().forEach((reason, more) -> staged.merge(reason, more, Long::sum));
    }
    long inPlace = bytes - staged.values().stream().mapToLong(Long::longValue).sum();
    return new WeightReport(inPlace, staged);
  }

  /** What to copy so that a slot holds an expert. */
  List<CopyPiece> pieces(ExpertKey key) {
    return layers.get(key.layer()).pieces(key.expert());
  }

  /** Points the row of an expert to a slot that holds it; between runs only. */
  void publish(ExpertKey key, Slot slot) {
    layers.get(key.layer()).publish(key.expert(), slot);
  }

  /** Points the row of an expert back to where it came from; between runs only. */
  void unpublish(ExpertKey key) {
    layers.get(key.layer()).unpublish(key.expert());
  }

  /** Where a tensor of all experts is read in place, and where it is copied from. */
  private record Located(MemorySegment home, WeightSource source) {
    static Located inMemory(MemorySegment memory) {
      return new Located(memory, new WeightSource.InMemory(memory));
    }
  }

  private Located locate(GraphValue value, long length, Path modelDirectory) {
    ConstantData constant =
        value
            .constant()
            .orElseThrow(
                () -> new EpException("weights.constant", value.name() + " is no constant"));
    if (constant.byteLength() != length) {
      throw new EpException(
          "weights.length",
          value.name() + " has " + constant.byteLength() + " bytes, its shape needs " + length);
    }
    return switch (constant) {
      case ConstantData.External external -> {
        ExternalDataFile file = ExternalDataFile.resolve(modelDirectory, external.location());
        file.checkRange(external.offset(), length, value.name());
        if (access == WeightsAccess.COPY) {
          yield Located.inMemory(files.copy(file, external.offset(), length));
        }
        WeightSource.InFile source = files.source(file, external.offset(), length);
        yield new Located(source.mapped(), source);
      }
      case ConstantData.Inline inline -> {
        MemorySegment copy = OwnPages.allocate(arena, length);
        inline.reader().readInto(copy);
        yield Located.inMemory(copy);
      }
    };
  }

  /**
   * Checks that the files the experts are read from are still what they were.
   *
   * @throws EpException {@code weights.changed} naming the file
   */
  public void checkUnchanged() {
    files.checkUnchanged();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      endAhead();
      arena.close();
      files.close();
    }
  }
}
