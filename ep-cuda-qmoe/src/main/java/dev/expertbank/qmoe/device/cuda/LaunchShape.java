package dev.expertbank.qmoe.device.cuda;

/**
 * How many threads run a kernel, in blocks of a grid.
 *
 * @param sharedBytes dynamic shared memory of each block
 */
record LaunchShape(
    int gridX, int gridY, int gridZ, int blockX, int blockY, int blockZ, int sharedBytes) {
  /** A row of blocks. */
  static LaunchShape of(int blocks, int blockThreads, int sharedBytes) {
    return new LaunchShape(blocks, 1, 1, blockThreads, 1, 1, sharedBytes);
  }

  /** A rectangle of blocks. */
  static LaunchShape of(int blocksX, int blocksY, int blockThreads, int sharedBytes) {
    return new LaunchShape(blocksX, blocksY, 1, blockThreads, 1, 1, sharedBytes);
  }
}
