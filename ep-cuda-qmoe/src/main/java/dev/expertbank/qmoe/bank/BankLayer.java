package dev.expertbank.qmoe.bank;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Where the experts of one layer are outside of slots, and how a slot holds one: all its tensors in
 * slot order, each at a multiple of 64 bytes.
 */
final class BankLayer implements LayerExperts {
  private final QMoeSpec spec;
  private final AddressTable table;
  private final List<Tensor> tensors = new ArrayList<>();
  private long packedBytes;

  /**
   * One tensor of all experts.
   *
   * @param home where it is read in place
   * @param source where it is copied from
   */
  private record Tensor(
      QMoeInput input, long stride, long slotOffset, MemorySegment home, WeightSource source) {
    WeightSource sourceOf(int expert) {
      return switch (source) {
        case WeightSource.InFile file ->
            new WeightSource.InFile(file.channel(), file.offset() + expert * stride, stride);
        case WeightSource.InMemory memory ->
            new WeightSource.InMemory(memory.memory().asSlice(expert * stride, stride));
      };
    }
  }

  BankLayer(QMoeSpec spec, AddressTable table) {
    this.spec = spec;
    this.table = table;
  }

  @Override
  public AddressTable table() {
    return table;
  }

  void add(QMoeTensor tensor, MemorySegment home, WeightSource source) {
    long stride = tensor.bytesPerExpert();
    Tensor added = new Tensor(tensor.input(), stride, packedBytes, home, source);
    tensors.add(added);
    packedBytes = Math.addExact(packedBytes, LayerLayout.packedBytes(stride));
    for (int expert = 0; expert < spec.experts(); expert++) {
      table.set(expert, added.input(), home.address() + expert * stride);
    }
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
    Tensor any = tensors.getFirst();
    return table.get(expert, any.input()) == any.home().address() + expert * any.stride();
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
    for (Tensor tensor : tensors) {
      table.set(expert, tensor.input(), slot.address() + tensor.slotOffset());
    }
  }

  void unpublish(int expert) {
    for (Tensor tensor : tensors) {
      table.set(expert, tensor.input(), tensor.home().address() + expert * tensor.stride());
    }
  }
}
