package dev.expertbank.spi;

/** A memory that tensors can be in. */
public sealed interface MemoryDevice {
  /** Memory that the CPU reads and writes, page-locked or not. */
  MemoryDevice HOST = new Host();

  /** Use {@link #HOST}. */
  record Host() implements MemoryDevice {}

  /**
   * A GPU's own memory, which the CPU cannot read.
   *
   * @param vendorId PCI vendor, such as {@link #NVIDIA}
   * @param number from 0, as the vendor's provider in ONNX Runtime counts them
   */
  record Gpu(int vendorId, int number) implements MemoryDevice {
    /** PCI vendor of NVIDIA. */
    public static final int NVIDIA = 0x10DE;

    /** The GPU that CUDA lists under that number. */
    public static Gpu cuda(int number) {
      return new Gpu(NVIDIA, number);
    }
  }
}
