package dev.expertbank.qmoe.device.cuda;

import java.util.ArrayList;
import java.util.List;

/**
 * What the driver tells of one device.
 *
 * @param number from 0, in the driver's order, which {@code CUDA_VISIBLE_DEVICES} changes
 * @param major of the compute capability
 * @param minor of the compute capability
 * @param sharedBytesPerBlock shared memory that a block may ask for
 * @param sharedBytesPerMultiprocessor shared memory of all blocks of a multiprocessor
 * @param prohibited an administrator lets nobody compute on it
 * @param unifiedAddressing host and device have one address space
 * @param mapsMemory physical memory can be mapped to reserved addresses
 * @param registersHost memory that a process has can be page-locked
 * @param registersReadOnly also where the process may only read it
 * @param sharesHostAddresses kernels find page-locked memory at the host's address
 */
public record CudaDeviceInfo(
    int number,
    String name,
    int major,
    int minor,
    int multiprocessors,
    int sharedBytesPerBlock,
    int sharedBytesPerMultiprocessor,
    long memoryBytes,
    boolean prohibited,
    boolean unifiedAddressing,
    boolean mapsMemory,
    boolean registersHost,
    boolean registersReadOnly,
    boolean sharesHostAddresses) {
  /** The oldest compute capability that kernels are built for, as 10 · major + minor. */
  private static final int MIN_CAPABILITY = 75;

  /** What option {@code device} calls it, such as {@code cuda:0}. */
  public String id() {
    return "cuda:" + number;
  }

  /** Number and name, for messages. */
  public String label() {
    return id() + " (" + name + ")";
  }

  /** Whether a kernel may start while the one before it in its stream still ends. */
  boolean kernelsMayOverlap() {
    return major >= 9;
  }

  /** Why it cannot be used, each one sentence; empty if it can. */
  public List<String> problems() {
    List<String> problems = new ArrayList<>();
    if (10 * major + minor < MIN_CAPABILITY) {
      problems.add(
          label()
              + " has compute capability "
              + major
              + "."
              + minor
              + ", the kernels need 7.5 or newer");
    }
    if (prohibited) {
      problems.add(label() + " is in compute mode PROHIBITED: nvidia-smi -c 0 ends that");
    }
    if (!unifiedAddressing) {
      problems.add(label() + " does not share one address space with the host");
    }
    if (!mapsMemory) {
      problems.add(label() + " has no virtual memory management");
    }
    return problems;
  }

  /** What it is, in words. */
  public String description() {
    return label()
        + ", compute capability "
        + major
        + "."
        + minor
        + ", "
        + multiprocessors
        + " multiprocessors, "
        + (memoryBytes >> 20)
        + " MiB";
  }
}
