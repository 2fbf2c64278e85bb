package dev.expertbank.qmoe.bank;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExternalDataFile;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;

/**
 * Knows where the experts of one session are. Weights in external data stay in the file; weights
 * inside the model are copied once. Owns the mappings, the copies and the address tables.
 */
public final class ExpertBank implements AutoCloseable {
  private final WeightsAccess access;
  private final WeightFiles files = new WeightFiles();
  private final Arena arena = Arena.ofShared();
  private boolean closed;

  public ExpertBank(WeightsAccess access) {
    this.access = access;
  }

  /**
   * Opens a layer: the address table of all experts of a node.
   *
   * @param modelDirectory the folder that external data is relative to
   * @return valid until the bank is closed
   * @throws EpException {@code external.…} or {@code weights.…} if a tensor cannot be read
   */
  public AddressTable openLayer(GraphNode node, QMoeSpec spec, Path modelDirectory) {
    AddressTable table = new AddressTable(arena, spec.experts());
    for (QMoeTensor tensor : spec.tensors()) {
      GraphValue value = node.input(tensor.input().slot()).orElseThrow();
      long stride = tensor.bytesPerExpert();
      MemorySegment bytes =
          locate(value, Math.multiplyExact(stride, spec.experts()), modelDirectory);
      for (int expert = 0; expert < spec.experts(); expert++) {
        table.set(expert, tensor.input(), bytes.asSlice(expert * stride, stride));
      }
    }
    return table;
  }

  private MemorySegment locate(GraphValue value, long length, Path modelDirectory) {
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
        yield access == WeightsAccess.COPY
            ? files.copy(file, external.offset(), length)
            : files.map(file, external.offset(), length);
      }
      case ConstantData.Inline inline -> {
        MemorySegment copy = arena.allocate(length, 64);
        inline.reader().readInto(copy);
        yield copy;
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
      arena.close();
      files.close();
    }
  }
}
