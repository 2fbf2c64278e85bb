package dev.expertbank.qmoe.bank;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Where the experts of one layer are outside of slots, and how a slot holds one: all its tensors in
 * slot order, each at a multiple of 64 bytes.
 */
final class BankLayer implements LayerExperts {
  private final QMoeSpec spec;
  private final AddressTable table;
  private final List<Tensor> tensors = new ArrayList<>();

  /** Why kernels cannot read an expert where it is; the empty text if they can. */
  private final String[] stagedReason;

  private final BitSet resident = new BitSet();
  private long packedBytes;

  /**
   * One tensor of all experts.
   *
   * @param home the address at which it is read in place
   * @param source where it is copied from
   */
  private record Tensor(
      QMoeInput input, long stride, long slotOffset, long home, WeightSource source) {
    WeightSource sourceOf(int expert) {
      return switch (source) {
        case WeightSource.InFile file -> file.asSlice(expert * stride, stride);
        case WeightSource.InMemory memory ->
            new WeightSource.InMemory(memory.memory().asSlice(expert * stride, stride));
      };
    }
  }

  BankLayer(QMoeSpec spec, AddressTable table) {
    this.spec = spec;
    this.table = table;
    stagedReason = new String[spec.experts()];
    Arrays.fill(stagedReason, "");
  }

  @Override
  public AddressTable table() {
    return table;
  }

  /**
   * Adds a tensor of all experts.
   *
   * @param home how much of it kernels can read where it is
   * @param alignment of what they read in place
   * @param source where it is copied from
   */
  void add(QMoeTensor tensor, Device.InPlace home, int alignment, WeightSource source) {
    long stride = tensor.bytesPerExpert();
    tensors.add(new Tensor(tensor.input(), stride, packedBytes, home.address(), source));
    packedBytes = Math.addExact(packedBytes, LayerLayout.packedBytes(stride));
    for (int expert = 0; expert < spec.experts(); expert++) {
      if ((expert + 1) * stride > home.bytes()) {
        stagedReason[expert] = home.reason();
      } else if ((home.address() + expert * stride) % alignment != 0) {
        stagedReason[expert] =
            tensor.input().schemaName() + " is not aligned to " + alignment + " bytes in the file";
      }
    }
  }

  /** Fills the table, after all tensors have been added. */
  void seal() {
    for (int expert = 0; expert < spec.experts(); expert++) {
      pointHome(expert);
    }
  }

  /** Bytes of the experts that kernels cannot read where they are, by reason. */
  Map<String, Long> stagedBytes() {
    Map<String, Long> bytes = new TreeMap<>();
    for (String reason : stagedReason) {
      if (!reason.isEmpty()) {
        bytes.merge(reason, spec.bytesPerExpert(), Long::sum);
      }
    }
    return bytes;
  }

  /** Bytes of all experts. */
  long bytes() {
    return Math.multiplyExact(spec.bytesPerExpert(), spec.experts());
  }

  LayerLayout layout(long slotGranularity) {
    return LayerLayout.packed(
        spec.experts(),
        spec.topK(),
        tensors.stream().map(Tensor::stride).toList(),
        slotGranularity);
  }

  @Override
  public boolean isCold(int expert) {
    return !resident.get(expert);
  }

  @Override
  public boolean isResident() {
    return resident.cardinality() == spec.experts();
  }

  @Override
  public boolean isReadInPlace(int expert) {
    return stagedReason[expert].isEmpty();
  }

  @Override
  public void pointTo(MemorySegment rows, int expert, Slot slot) {
    for (Tensor tensor : tensors) {
      AddressTable.set(rows, expert, tensor.input(), slot.address() + tensor.slotOffset());
    }
  }

  @Override
  public List<CopyPiece> pieces(int expert) {
    return tensors.stream()
        .map(tensor -> new CopyPiece(tensor.sourceOf(expert), tensor.slotOffset()))
        .toList();
  }

  void publish(int expert, Slot slot) {
    pointTo(table.rows(), expert, slot);
    resident.set(expert);
  }

  void unpublish(int expert) {
    pointHome(expert);
    resident.clear(expert);
  }

  private void pointHome(int expert) {
    for (Tensor tensor : tensors) {
      long home = isReadInPlace(expert) ? tensor.home() + expert * tensor.stride() : 0;
      table.set(expert, tensor.input(), home);
    }
  }
}
