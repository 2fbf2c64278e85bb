package dev.expertbank.qmoe.device.cuda;

import static dev.expertbank.qmoe.device.cuda.CudaDriver.call;
import static dev.expertbank.qmoe.device.cuda.CudaDriver.link;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.function.LongToIntFunction;

/**
 * Memory that a device can reach: its own, page-locked memory of the host, and ranges of addresses
 * whose physical memory comes and goes. Each method is a call of the driver that throws {@link
 * CudaException} if it fails. The calling thread has the device's context current. Safe from any
 * thread.
 */
final class CudaMemoryCalls {
  private static final MethodHandle MEM_ALLOC = link(CudaFunction.MEM_ALLOC);
  private static final MethodHandle MEM_FREE = link(CudaFunction.MEM_FREE);
  private static final MethodHandle MEM_GET_INFO = link(CudaFunction.MEM_GET_INFO);
  private static final MethodHandle HOST_ALLOC = link(CudaFunction.MEM_HOST_ALLOC);
  private static final MethodHandle FREE_HOST = link(CudaFunction.MEM_FREE_HOST);
  private static final MethodHandle HOST_REGISTER = link(CudaFunction.MEM_HOST_REGISTER);
  private static final MethodHandle HOST_UNREGISTER = link(CudaFunction.MEM_HOST_UNREGISTER);
  private static final MethodHandle DEVICE_POINTER = link(CudaFunction.MEM_HOST_GET_DEVICE_POINTER);
  private static final MethodHandle POINTER_ATTRIBUTE = link(CudaFunction.POINTER_GET_ATTRIBUTE);
  private static final MethodHandle GRANULARITY = link(CudaFunction.MEM_GET_ALLOCATION_GRANULARITY);
  private static final MethodHandle ADDRESS_RESERVE = link(CudaFunction.MEM_ADDRESS_RESERVE);
  private static final MethodHandle ADDRESS_FREE = link(CudaFunction.MEM_ADDRESS_FREE);
  private static final MethodHandle MEM_CREATE = link(CudaFunction.MEM_CREATE);
  private static final MethodHandle MEM_RELEASE = link(CudaFunction.MEM_RELEASE);
  private static final MethodHandle MEM_MAP = link(CudaFunction.MEM_MAP);
  private static final MethodHandle MEM_UNMAP = link(CudaFunction.MEM_UNMAP);
  private static final MethodHandle MEM_SET_ACCESS = link(CudaFunction.MEM_SET_ACCESS);

  /** Page-locked for every context of the process, and mapped for devices. */
  private static final int HOST_PORTABLE_AND_MAPPED = 1 | 2;

  /** Devices only read it; without it the driver refuses what the CPU may not write either. */
  private static final int REGISTER_READ_ONLY = 8;

  private static final int GRANULARITY_MINIMUM = 0;

  /** {@code CUmemAllocationProp}, of which everything else stays zero. */
  private static final long PROPERTIES_BYTES = 32;

  private static final long PROPERTIES_TYPE = 0;
  private static final long PROPERTIES_LOCATION_TYPE = 8;
  private static final long PROPERTIES_LOCATION_ID = 12;
  private static final int TYPE_PINNED = 1;

  /** {@code CUmemAccessDesc}. */
  private static final long ACCESS_BYTES = 12;

  private static final long ACCESS_LOCATION_TYPE = 0;
  private static final long ACCESS_LOCATION_ID = 4;
  private static final long ACCESS_FLAGS = 8;
  private static final int READ_AND_WRITE = 3;

  private static final int LOCATION_DEVICE = 1;

  private final String device;
  private final int number;

  /**
   * Calls for one device.
   *
   * @param device its name and number, for messages
   */
  CudaMemoryCalls(String device, int number) {
    this.device = device;
    this.number = number;
  }

  /** What could be had of the device's memory, by anyone. */
  long freeBytes() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 2);
      long free = out.address();
      long total = free + Long.BYTES;
      check(call(MEM_GET_INFO, free, total), CudaFunction.MEM_GET_INFO, free, total);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Memory of the device, aligned to 256 bytes, for {@link #free}. Not zeroed. */
  long allocate(long bytes) {
    return result(out -> call(MEM_ALLOC, out, bytes), CudaFunction.MEM_ALLOC, bytes);
  }

  /** Waits for the device's work first. */
  void free(long address) {
    check(call(MEM_FREE, address), CudaFunction.MEM_FREE, address);
  }

  /** Page-locked memory of the host that devices can reach, for {@link #freeHost}. Not zeroed. */
  long allocateHost(long bytes) {
    return result(
        out -> call(HOST_ALLOC, out, bytes, HOST_PORTABLE_AND_MAPPED),
        CudaFunction.MEM_HOST_ALLOC,
        bytes,
        HOST_PORTABLE_AND_MAPPED);
  }

  void freeHost(long address) {
    check(call(FREE_HOST, address), CudaFunction.MEM_FREE_HOST, address);
  }

  /**
   * Page-locks memory that the process has, for {@link #unregisterHost}, and lets devices reach it.
   *
   * @param address a multiple of the page size, as is the size
   * @param readOnly devices will not write to it
   */
  void registerHost(long address, long bytes, boolean readOnly) {
    int flags = HOST_PORTABLE_AND_MAPPED | (readOnly ? REGISTER_READ_ONLY : 0);
    check(
        call(HOST_REGISTER, address, bytes, flags),
        CudaFunction.MEM_HOST_REGISTER,
        address,
        bytes,
        flags);
  }

  /**
   * Ends {@link #registerHost}.
   *
   * @param address the same
   */
  void unregisterHost(long address) {
    check(call(HOST_UNREGISTER, address), CudaFunction.MEM_HOST_UNREGISTER, address);
  }

  /** Where the device finds page-locked memory of the host. */
  long deviceAddress(long host) {
    return result(
        out -> call(DEVICE_POINTER, out, host, 0),
        CudaFunction.MEM_HOST_GET_DEVICE_POINTER,
        host,
        0);
  }

  /**
   * What the driver knows of an address.
   *
   * @param attribute a {@code CUpointer_attribute} of at most 64 bits
   */
  long pointerAttribute(long address, int attribute) {
    return result(
        out -> call(POINTER_ATTRIBUTE, out, attribute, address),
        CudaFunction.POINTER_GET_ATTRIBUTE,
        attribute,
        address);
  }

  /** What physical memory comes in: sizes and addresses are multiples of it. */
  long granularity() {
    try (Arena arena = Arena.ofConfined()) {
      long properties = properties(arena);
      return result(
          out -> call(GRANULARITY, out, properties, GRANULARITY_MINIMUM),
          CudaFunction.MEM_GET_ALLOCATION_GRANULARITY,
          properties,
          GRANULARITY_MINIMUM);
    }
  }

  /** A range of addresses without memory, for {@link #freeAddresses}. */
  long reserveAddresses(long bytes) {
    return result(
        out -> call(ADDRESS_RESERVE, out, bytes, 0, 0, 0),
        CudaFunction.MEM_ADDRESS_RESERVE,
        bytes,
        0,
        0,
        0);
  }

  void freeAddresses(long address, long bytes) {
    check(call(ADDRESS_FREE, address, bytes), CudaFunction.MEM_ADDRESS_FREE, address, bytes);
  }

  /**
   * Physical memory of the device, for {@link #release}.
   *
   * @param bytes a multiple of {@link #granularity}
   */
  long create(long bytes) {
    // JCuda's cuMemCreate leaves allocFlags.reserved as the stack had it, and the driver answers
    // CUDA_ERROR_INVALID_VALUE unless that is zero.
    try (Arena arena = Arena.ofConfined()) {
      long properties = properties(arena);
      return result(
          out -> call(MEM_CREATE, out, bytes, properties, 0),
          CudaFunction.MEM_CREATE,
          bytes,
          properties,
          0);
    }
  }

  /** Gives up a handle; the memory itself goes back when it is not mapped any more either. */
  void release(long handle) {
    check(call(MEM_RELEASE, handle), CudaFunction.MEM_RELEASE, handle);
  }

  /** Puts memory behind reserved addresses; the device cannot reach it before it may. */
  void map(long address, long bytes, long handle) {
    check(
        call(MEM_MAP, address, bytes, 0, handle, 0),
        CudaFunction.MEM_MAP,
        address,
        bytes,
        0,
        handle,
        0);
  }

  /** Takes memory away from a range that was mapped in one call. */
  void unmap(long address, long bytes) {
    check(call(MEM_UNMAP, address, bytes), CudaFunction.MEM_UNMAP, address, bytes);
  }

  /** Lets the device read and write a mapped range. */
  void setAccess(long address, long bytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment access = arena.allocate(ACCESS_BYTES, Integer.BYTES);
      access.set(ValueLayout.JAVA_INT, ACCESS_LOCATION_TYPE, LOCATION_DEVICE);
      access.set(ValueLayout.JAVA_INT, ACCESS_LOCATION_ID, number);
      access.set(ValueLayout.JAVA_INT, ACCESS_FLAGS, READ_AND_WRITE);
      check(
          call(MEM_SET_ACCESS, address, bytes, access.address(), 1),
          CudaFunction.MEM_SET_ACCESS,
          address,
          bytes,
          access.address(),
          1);
    }
  }

  private long properties(Arena arena) {
    MemorySegment properties = arena.allocate(PROPERTIES_BYTES, Long.BYTES);
    properties.set(ValueLayout.JAVA_INT, PROPERTIES_TYPE, TYPE_PINNED);
    properties.set(ValueLayout.JAVA_INT, PROPERTIES_LOCATION_TYPE, LOCATION_DEVICE);
    properties.set(ValueLayout.JAVA_INT, PROPERTIES_LOCATION_ID, number);
    return properties.address();
  }

  private void check(int result, CudaFunction function, long... arguments) {
    CudaDriver.check(result, device, function, arguments);
  }

  private long result(LongToIntFunction call, CudaFunction function, long... arguments) {
    return CudaDriver.result(call, device, function, arguments);
  }
}
