package dev.expertbank.cli.demo;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * How fast the threads together read memory that is in no cache: the floor under a decode step,
 * which must read every weight of the chosen experts once.
 */
final class ReadBandwidth {
  private static final int LONGS_PER_THREAD = 16 << 20;
  private static final int PASSES = 12;

  /** Keeps the sums from being optimised away. */
  @SuppressWarnings("UnusedVariable") // written, so that the compiler must compute it
  private static volatile long sink;

  private ReadBandwidth() {}

  /** Bytes per second; the best of several passes. */
  static double measure(int threads) throws InterruptedException {
    List<Callable<Long>> readers = new ArrayList<>();
    for (int t = 0; t < threads; t++) {
      long[] data = new long[LONGS_PER_THREAD];
      java.util.Arrays.fill(data, t + 1);
      readers.add(() -> sum(data));
    }
    double best = 0;
    try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
      for (int pass = 0; pass < PASSES; pass++) {
        long start = System.nanoTime();
        for (Future<Long> result : pool.invokeAll(readers)) {
          sink = result.get();
        }
        double seconds = (System.nanoTime() - start) * 1e-9;
        best = Math.max(best, 8.0 * LONGS_PER_THREAD * threads / seconds);
      }
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    }
    return best;
  }

  private static long sum(long[] data) {
    long sum = 0;
    for (long value : data) {
      sum += value;
    }
    return sum;
  }
}
