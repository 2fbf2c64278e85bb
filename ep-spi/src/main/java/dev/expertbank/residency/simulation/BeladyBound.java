package dev.expertbank.residency.simulation;

import dev.expertbank.residency.ResidencyLayout;
import java.util.Arrays;
import java.util.Comparator;
import java.util.PriorityQueue;

/**
 * The fewest bytes that any policy could need for a trace, if it knew all routes in advance.
 *
 * <p>Belady's optimum with bypass: after each use an expert is kept until its next use, or it is
 * not. If it is, the next use reads nothing; if not, it reads the expert's bytes. What is kept
 * between two windows fits the budget, and when it does not, the expert whose next use is farthest
 * away is given up. Keeping an expert that was just read costs nothing, and it can be kept at once:
 * both are kinder than the bank, where a promotion is a second copy that arrives two boundaries
 * later.
 *
 * <p>An expert may be given up in part. So the bound is exact for experts of equal size, and below
 * what is possible for others. A slot is counted with its expert bytes, without padding.
 */
public final class BeladyBound {
  private final RouteTrace trace;
  private final ResidencyLayout layout;
  private final long budgetBytes;

  private BeladyBound(RouteTrace trace, ResidencyLayout layout, long budgetBytes) {
    this.trace = trace;
    this.layout = layout;
    this.budgetBytes = budgetBytes;
  }

  /**
   * The bound of a trace.
   *
   * @param usedBytes expert bytes that the decode windows use
   * @param readBytes what of them is read, at least
   * @param tokens rows of the decode windows
   */
  public record Result(long usedBytes, long readBytes, long tokens) {
    /** The part of the used bytes that is not read. */
    public double byteHitRate() {
      return (double) (usedBytes - readBytes) / usedBytes;
    }

    /** Bytes read for each decoded token. */
    public double bytesPerToken() {
      return (double) readBytes / tokens;
    }
  }

  /** Bytes of an expert that wait for its next use. */
  private record Kept(int index, int nextUse) {}

  /** The bound for the decode windows; prefill windows fill, but their reads are not counted. */
  public static Result of(RouteTrace trace, ResidencyLayout layout, long budgetBytes) {
    ResidencySimulator.checkLayout(trace, layout);
    return new BeladyBound(trace, layout, budgetBytes).sweep();
  }

  private Result sweep() {
    int windows = trace.windows().size();
    int[][] nextUse = nextUses();
    long[] kept = new long[layout.keys().size()];
    long keptBytes = 0;
    PriorityQueue<Kept> farthest =
        new PriorityQueue<>(
            Comparator.comparingInt(Kept::nextUse).reversed().thenComparingInt(Kept::index));
    long used = 0;
    long saved = 0;
    long tokens = 0;
    for (int window = 0; window < windows; window++) {
      boolean decode = isDecode(window);
      tokens += decode ? trace.windows().get(window).rows() : 0;
      for (int index = 0; index < kept.length; index++) {
        if (!isUsed(window, index)) {
          continue;
        }
        long bytes = layout.layer(layout.keys().get(index)).expertBytes();
        if (decode) {
          used += bytes;
          saved += kept[index];
        }
        keptBytes -= kept[index];
        kept[index] = 0;
        if (isWorthKeeping(index, nextUse[window][index])) {
          kept[index] = bytes;
          keptBytes += bytes;
          farthest.add(new Kept(index, nextUse[window][index]));
        }
      }
      keptBytes = giveUp(farthest, kept, keptBytes);
    }
    return new Result(used, used - saved, tokens);
  }

  /** A next use in a prefill window, or none, saves nothing that is counted. */
  private boolean isWorthKeeping(int index, int nextUse) {
    return nextUse < trace.windows().size()
        && isDecode(nextUse)
        && layout.layer(layout.keys().get(index)).isPageable();
  }

  private boolean isDecode(int window) {
    return trace.windows().get(window).phase() == RouteTrace.Phase.DECODE;
  }

  /** Entries whose use has passed are behind all that are kept, and so are never looked at. */
  private long giveUp(PriorityQueue<Kept> farthest, long[] kept, long keptBytes) {
    long bytes = keptBytes;
    while (bytes > budgetBytes) {
      Kept last = farthest.element();
      long given = Math.min(kept[last.index()], bytes - budgetBytes);
      kept[last.index()] -= given;
      bytes -= given;
      if (kept[last.index()] == 0) {
        farthest.remove();
      }
    }
    return bytes;
  }

  private boolean isUsed(int window, int index) {
    var key = layout.keys().get(index);
    return trace.windows().get(window).counts()[key.layer()][key.expert()] > 0;
  }

  /** For each window and expert, the next window that uses it, or the number of windows. */
  private int[][] nextUses() {
    int windows = trace.windows().size();
    int[][] next = new int[windows][];
    int[] known = new int[layout.keys().size()];
    Arrays.fill(known, windows);
    for (int window = windows - 1; window >= 0; window--) {
      next[window] = known.clone();
      for (int index = 0; index < known.length; index++) {
        if (isUsed(window, index)) {
          known[index] = window;
        }
      }
    }
    return next;
  }
}
