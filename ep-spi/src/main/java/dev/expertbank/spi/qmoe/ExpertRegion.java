package dev.expertbank.spi.qmoe;

/**
 * The bytes of one expert in one tensor.
 *
 * @param offset of the first byte, in the file or in the tensor as the method says that returns it
 * @param length in bytes
 */
public record ExpertRegion(int expert, long offset, long length) {}
